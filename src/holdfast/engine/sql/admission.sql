-- admission.sql: of the tasks that share a limit key, only so many may be with a worker, or next in line for one.
-- Called by submit, by every move that frees a place, and by the sweep. Locks the key's slot, then looks; tasks that
-- wait are parked outside the index that workers claim from, so they cost a claim nothing.

create or replace function holdfast.admit(p_keys text[], p_wait bool default true) returns int
language plpgsql set lock_timeout = '200ms'
as $$
declare
  v_key text;
  v_free int;
  v_id uuid[];
  v_admitted int := 0;
begin
  perform holdfast.need_read_committed();
  for v_key in select distinct k from unnest(p_keys) k order by k loop
    select s.allowed into v_free from holdfast.slot s where s.key = v_key for update skip locked;
    if not found then
      continue when not p_wait;
      begin
        select s.allowed into strict v_free from holdfast.slot s where s.key = v_key for update;
      exception when lock_not_available then
        p_wait := false;  -- somebody holds it in a long transaction; waiting once is enough, the sweep comes again
        continue;
      end;
    end if;
    select v_free - count(*) into v_free from (
      select from holdfast.task t
      where t.limit_key = v_key and t.parked is null and t.actor = 'worker' limit v_free) taken;
    continue when v_free <= 0;
    select array_agg(w.id) into v_id from (
      select t.id from holdfast.task t
      where t.limit_key = v_key and t.parked = 'limit' and t.due_at <= holdfast.now()
        and (t.deadline is null or t.deadline > holdfast.now())
        and (select s.until from holdfast.setback s where s.task_id = t.id) > holdfast.now() is not true
      order by t.priority desc, t.due_at, t.id limit v_free
      for no key update skip locked) w;
    continue when v_id is null;
    v_admitted := v_admitted + (holdfast.apply_each(
      v_id, array_fill('admit'::text, array[cardinality(v_id)]), null, null, true)).moved;
  end loop;
  return v_admitted;
end $$;

-- The keys for which somebody waits whose time has come: one look-up per key, however many wait behind it.
create or replace function holdfast.admit_due() returns int
language sql
as $$
  with recursive k(key) as (
    (select t.limit_key from holdfast.task t where t.parked = 'limit' order by t.limit_key limit 1)
    union all
    select (select t.limit_key from holdfast.task t where t.parked = 'limit' and t.limit_key > k.key
            order by t.limit_key limit 1)
    from k where k.key is not null
  )
  select holdfast.admit(array_agg(k.key), false) from k where k.key is not null
$$;

-- Tasks that were set aside because nobody knew their name, and that somebody knows now. No more than it can run: others
-- who look at the queue and do not know them would set them aside again.
create or replace function holdfast.admit_known(p_queues text[], p_names text[], p_n int) returns int
language plpgsql
as $$
declare
  v_id uuid[];
  v_keys text[];
begin
  select array_agg(w.id), array_agg(w.limit_key) filter (where w.limit_key is not null) into v_id, v_keys
  from unnest(p_queues) q(name)
  cross join unnest(coalesce(p_names, array[null])) n(name)  -- null: it runs everything
  cross join lateral (
    select t.id, t.limit_key from holdfast.task t
    where t.parked = 'unknown' and t.queue = q.name and (t.name = n.name or n.name is null)
      and (select s.until from holdfast.setback s where s.task_id = t.id) > holdfast.now() is not true
    order by t.queue, t.name, t.id limit p_n for no key update skip locked) w;
  if v_id is null then
    return 0;
  end if;
  v_id := holdfast.move_each(v_id, array_fill('admit'::text, array[cardinality(v_id)]), null, null);
  perform holdfast.admit(v_keys);
  return cardinality(v_id);
end $$;

-- Change how many tasks with this key may run at once. Takes effect for those that wait.
create or replace function holdfast.limit_concurrency(key text, allowed int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if limit_concurrency.allowed is null or limit_concurrency.allowed < 1 then
    raise exception 'At least one task must be allowed, not %.', limit_concurrency.allowed
      using errcode = 'TK010', hint = 'To stop all of them, pause their queue.';
  end if;
  if limit_concurrency.key is null or length(limit_concurrency.key) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'A limit key has 1 to 200 characters.', 'Name what the tasks share.');
  end if;
  insert into holdfast.slot as s (key, allowed) values (limit_concurrency.key, limit_concurrency.allowed)
  on conflict on constraint slot_pkey do update set allowed = excluded.allowed;
  perform holdfast.admit(array[limit_concurrency.key]);
end $$;
