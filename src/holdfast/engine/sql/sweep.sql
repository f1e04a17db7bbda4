-- sweep.sql: what time alone decides. Dead leases, limits that have passed, times that have come, places that are free.
-- Any number of processes may call it at any time; there is no leader. Picks small batches and skips what others have locked;
-- whatever was read before the lock is looked at again under it.

create or replace function holdfast.sweep(
  p_n int default 500, out reaped int, out expired int, out due int, out admitted int)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '500ms'
as $$
begin
  perform holdfast.check_limit(p_n, 10000, 'tasks cannot be swept');
  reaped := holdfast.reap(p_n);
  expired := holdfast.expire(p_n);
  due := holdfast.advance_due_tasks(array(
    select t.id from holdfast.task t where t.actor = 'clock' and t.due_at <= holdfast.now()
      and (select s.until from holdfast.setback s where s.task_id = t.id) > holdfast.now() is not true
    order by t.due_at, t.id limit p_n for update skip locked));
  admitted := holdfast.admit_due();
  perform holdfast.retry_quarantined(p_n);
  -- Heartbeats of leases that are no more, and workers that went without a goodbye.
  delete from holdfast.beat b where b.task_id = any (array(
    select b.task_id from holdfast.beat b
    where b.expires_at < holdfast.now() - interval '1 minute'
      and (select t.lease_token from holdfast.task t where t.id = b.task_id) is distinct from b.token
    limit 1000 for update skip locked));
  delete from holdfast.worker w where w.id = any (array(
    select w.id from holdfast.worker w where w.seen_at < holdfast.now() - interval '1 hour'
    order by w.id limit 100 for update skip locked));
  perform holdfast.add_to_tally('reaped', reaped), holdfast.add_to_tally('expired', expired);
  perform holdfast.sum_tally();
end $$;

-- Tasks whose release, or whose end with their parent, was refused; and what is left of those that are gone.
create or replace function holdfast.retry_quarantined(p_n int) returns void
language plpgsql
as $$
declare
  v_id uuid;
begin
  for v_id in
    select s.task_id from holdfast.setback s
    where s.until <= holdfast.now()
      and (s.verb in ('unblock', 'skip', 'cancel', 'ask_cancel', 'done', 'partial', 'fail')
           or (select t.version from holdfast.task t where t.id = s.task_id) is null)
    order by s.until, s.task_id limit p_n for update skip locked
  loop
    perform set_config('lock_timeout', '20ms', true);
    begin
      perform holdfast.cascade(null, null, array[v_id], null, false);
      delete from holdfast.setback s where s.task_id = v_id
        and (select t.version from holdfast.task t where t.id = v_id) is null;
    exception when lock_not_available then
      null;  -- somebody holds it; the next sweep sees
    end;
  end loop;
end $$;

-- Leases that ran out. A lost worker is a failed attempt with a budget of its own; the first loss is made good at once.
create or replace function holdfast.reap(p_n int) returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
begin
  return holdfast.settle_lost(array(
    select t.id from holdfast.task t
    where t.lease_token is not null and t.lease_expires_at < v_now
      and (select b.expires_at from holdfast.beat b where b.task_id = t.id and b.token = t.lease_token) >= v_now is not true
      and (select s.until from holdfast.setback s where s.task_id = t.id) > v_now is not true
    limit p_n for update of t skip locked), false);
end $$;

-- The workers of these tasks, which the caller has locked, are lost. Unless that is certain, a heartbeat may have come
-- between the first look and the lock.
create or replace function holdfast.settle_lost(p_id uuid[], p_certain bool) returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_id uuid[];
  v_verb text[];
  v_due timestamptz[];
  v_note jsonb[];
begin
  select array_agg(t.id), array_agg(v.verb),
         array_agg(case when t.crashes > 0 then v_now + holdfast.backoff(t.lifecycle, t.crashes) end),
         array_agg(case when v.verb = 'cancel' then holdfast.cancel_note(t.id, n.note) else n.note end)
    into v_id, v_verb, v_due, v_note
  from unnest(p_id) i(id)
  cross join lateral (select * from holdfast.task t where t.id = i.id offset 0) t
  cross join lateral (select l.crash_budget from holdfast.lifecycle l where l.id = t.lifecycle offset 0) l
  cross join lateral (select case when t.cancel_requested then 'cancel'
                                  when t.crashes + 1 < l.crash_budget then 'lost' else 'fail' end as verb) v
  cross join lateral (
    select jsonb_build_object('kind', 'lease_lost', 'category', 'Transient', 'worker', t.worker_id, 'message',
             format('The worker was lost (%s of %s).', t.crashes + 1, l.crash_budget)) as note) n
  where p_certain or (select b.expires_at from holdfast.beat b
                      where b.task_id = t.id and b.token = t.lease_token) >= v_now is not true;
  v_id := holdfast.move_each(v_id, v_verb, v_due, v_note);
  perform holdfast.advance_due_tasks(v_id);
  return cardinality(v_id);
end $$;

-- Limits that have passed: the task moves on, or wakes a worker, marked as timed out. A lease ends with it.
create or replace function holdfast.expire(p_n int) returns int
language plpgsql
as $$
declare
  v_id uuid[];
  v_verb text[];
  v_note jsonb[];
begin
  select array_agg(t.id),
         -- Who is to be cancelled is not woken for another turn.
         array_agg(case when t.cancel_requested and x.to_actor <> 'nobody' then 'cancel' else 'limit' end),
         array_agg(case when t.cancel_requested and x.to_actor <> 'nobody'
                        then holdfast.cancel_note(t.id, holdfast.time_limit_note(t.lifecycle, t.state))
                        else holdfast.time_limit_note(t.lifecycle, t.state) end)
    into v_id, v_verb, v_note
  from (select * from holdfast.task t where t.deadline <= holdfast.now()
          and (select s.until from holdfast.setback s where s.task_id = t.id) > holdfast.now() is not true
        order by t.deadline, t.id limit p_n for update skip locked) t
  cross join lateral (
    select x.to_actor from holdfast.transition x
    where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'limit' offset 0) x;
  if v_id is null then
    return 0;
  end if;
  return cardinality(holdfast.move_each(v_id, v_verb, array_fill(holdfast.now(), array[cardinality(v_id)]), v_note));
end $$;

-- What is said of a task whose time has passed: as its lifecycle words it, if it does.
create or replace function holdfast.time_limit_note(p_lifecycle smallint, p_state text) returns jsonb
language sql stable
as $$
  select jsonb_build_object('kind', 'time_limit', 'message', coalesce(
    holdfast.declared_state(p_lifecycle, p_state) -> 'limit' ->> 'message',
    format('The time limit of %s has passed.', p_state)))
$$;

-- Those of these tasks whose time has come. Answers how many.
create or replace function holdfast.advance_due_tasks(p_id uuid[]) returns int
language plpgsql
as $$
declare
  v_id uuid[] := array(
    select t.id from unnest(p_id) i(id) cross join lateral (
      select t.id from holdfast.task t
      where t.id = i.id and t.actor::text = 'clock' and t.due_at <= holdfast.now() offset 0) t);
begin
  return cardinality(holdfast.move_each(v_id, array_fill('due'::text, array[cardinality(v_id)]), null, null));
end $$;

-- Move all of them; if one is refused by its effects, or waits for a lock that somebody holds on to, move the others one
-- by one and leave it for the next time. Answers who moved.
create or replace function holdfast.move_each(p_id uuid[], p_verb text[], p_due timestamptz[], p_note jsonb[])
returns uuid[]
language plpgsql
as $$
declare
  v_moved uuid[] := '{}';
  v_held int := 0;
begin
  if coalesce(cardinality(p_id), 0) = 0 then
    return '{}';
  end if;
  begin
    perform holdfast.move(p_id, p_verb, p_due, p_note);
    return p_id;
  exception
    when deadlock_detected or serialization_failure then
      raise;
    when others then
      perform set_config('lock_timeout', '20ms', true);
  end;
  for i in 1 .. cardinality(p_id) loop
    begin
      perform holdfast.cascade(a.ended, a.badly, a.waiting, null, false)  -- the sweep admits at its end
      from holdfast.apply_moves(p_id[i:i], p_verb[i:i], p_due[i:i], p_note[i:i]) a;
      v_moved := v_moved || p_id[i];
    exception
      when deadlock_detected or serialization_failure then
        raise;
      when lock_not_available then  -- left alone for a moment, so that the next sweep comes to others
        insert into holdfast.setback as s (task_id, verb, error, times, until)
        values (p_id[i], p_verb[i], sqlerrm, 0, holdfast.now() + interval '5 seconds')
        on conflict (task_id) do update set until = greatest(s.until, excluded.until);
        v_held := v_held + 1;
        exit when v_held = 25;
      when others then
        perform holdfast.quarantine(p_id[i], p_verb[i], sqlerrm);
    end;
  end loop;
  return v_moved;
end $$;
