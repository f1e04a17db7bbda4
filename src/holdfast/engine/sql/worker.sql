-- worker.sql: who is there, and what it can run. Nothing depends on these rows but explanations: a lease alone decides
-- who holds a task.

-- Said at the start and then every few seconds. Tasks that nobody knew and this worker knows come back into their queue.
create or replace function holdfast.hello(
  p_id text, p_label text, p_queues text[], p_names text[], p_slots int, p_tasks jsonb default null)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
begin
  if p_id is null or length(p_id) not between 1 and 200 or p_label is null or length(p_label) > 200 then
    perform holdfast.refuse('TK010', 'A worker has an id of 1 to 200 characters, and a label.',
                            'Give each process an id of its own.');
  elsif p_slots is null or p_slots < 1 or coalesce(cardinality(p_queues), 0) = 0 then
    perform holdfast.refuse('TK010', 'A worker has at least one slot and one queue.', '');
  elsif jsonb_typeof(p_tasks) <> 'object' then
    perform holdfast.refuse('TK010', 'What a worker knows of its tasks is an object, with their names as keys.',
                            'For example {"greet": {"queue": "default"}}.');
  end if;
  perform holdfast.check_value(p_tasks);
  perform holdfast.check_queues(p_queues);
  insert into holdfast.worker as w (id, label, queues, names, slots, tasks)
  values (p_id, p_label, p_queues, p_names, p_slots, p_tasks)
  on conflict (id) do update set label = excluded.label, queues = excluded.queues, names = excluded.names,
    slots = excluded.slots, tasks = excluded.tasks, seen_at = holdfast.now();
  perform holdfast.admit_known(p_queues, p_names, p_slots);
end $$;

-- What the newest worker that is there says of this task: its queue, its attempts, its priority. Null if none knows it.
create or replace function holdfast.known_task(p_name text) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select w.tasks -> p_name from holdfast.worker w
  where w.tasks ? p_name and holdfast.is_live(w)
  order by w.started_at desc, w.id limit 1
$$;

create or replace function holdfast.goodbye(p_id text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$ delete from holdfast.worker w where w.id = p_id $$;

-- A worker that has said nothing for half a minute is not counted on.
create or replace function holdfast.is_live(p_worker holdfast.worker) returns bool
language sql stable
as $$ select (p_worker).seen_at > holdfast.now() - interval '30 seconds' $$;

create or replace function holdfast.workers()
returns table (id text, label text, queues text[], names text[], slots int, started_at timestamptz, seen_at timestamptz,
               live bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select w.id, w.label, w.queues, w.names, w.slots, w.started_at, w.seen_at, holdfast.is_live(w)
  from holdfast.worker w order by w.started_at, w.id
$$;

-- A worker is about to sleep: from now on, a transaction that makes work for it wakes it. It must look once more after this call,
-- since work that came before woke no worker. Answers how long it is until something in its queues falls due.
create or replace function holdfast.idle(p_worker text) returns interval
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_queues text[];
begin
  update holdfast.worker w set idle_since = holdfast.now(), seen_at = holdfast.now() where w.id = p_worker
  returning w.queues into v_queues;
  return (
    select min(t.due_at) - holdfast.now()
    from unnest(v_queues) q(name) cross join generate_series(0, 9) p(level)
    cross join lateral (
      select t.due_at from holdfast.task t
      where t.queue = q.name and t.priority = p.level and t.actor = 'worker' and t.lease_token is null
        and t.parked is null and t.due_at > holdfast.now()
      order by t.due_at, t.id limit 1) t);
end $$;

-- Called with every change that leaves tasks for workers. A hint: who misses it finds the tasks at its next look. Sent
-- with the commit, and only if somebody sleeps who can run them; each listens on a channel of its own.
create or replace function holdfast.wake_workers(p_queues text[], p_names text[], p_tasks int) returns void
language plpgsql
as $$
begin
  perform pg_notify(holdfast.channel(w.id), '') from (
    select w.id from holdfast.worker w
    where w.idle_since is not null and w.queues && p_queues and (w.names && p_names or w.names is null or p_names is null)
      and holdfast.is_live(w)
    order by w.seen_at desc, w.id limit p_tasks) w;
end $$;

-- The channel on which a worker is woken.
create or replace function holdfast.channel(p_worker text) returns text
language sql immutable security definer set search_path = pg_catalog, pg_temp
as $$ select 'holdfast:' || md5(p_worker) $$;

-- The supervisor of a worker saw it die while it was running these: they are lost, without waiting for their leases to end.
-- Those that somebody has locked are left out; call it again, or let their leases run out. Answers how many were lost.
create or replace function holdfast.mark_lost(p_id uuid[], p_attempt int[], p_token uuid[]) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
begin
  perform holdfast.check_lengths(cardinality(p_id), coalesce(cardinality(p_attempt), 0), coalesce(cardinality(p_token), 0));
  return holdfast.settle_lost(array(
    select t.id
    from (select distinct on (i.id, i.token, i.attempt) * from unnest(p_id, p_attempt, p_token) i(id, attempt, token)
          order by i.id desc, i.token, i.attempt) i
    cross join lateral (
      select t.id from holdfast.task t
      where t.id = i.id and t.lease_token = i.token and t.attempt = i.attempt for update skip locked) t), true);
end $$;

-- What a worker holds goes back at no cost, but for these: it has ended in good order, or never learned of the others.
-- Those that somebody has locked are left out; call it again, or let their leases run out. Answers how many went back.
create or replace function holdfast.release_leases(p_worker text, p_kept uuid[] default '{}') returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_id uuid[];
  v_verb text[];
  v_note jsonb[];
begin
  select array_agg(t.id), array_agg(case when t.cancel_requested then 'cancel' else 'later' end),
         array_agg(case when t.cancel_requested then holdfast.cancel_note(t.id, null) else '{"kind": "released"}' end)
    into v_id, v_verb, v_note
  from (select t.id, t.cancel_requested from holdfast.task t
        where t.lease_token is not null and t.worker_id = p_worker and not t.id = any (p_kept)
        order by t.id desc for update skip locked) t;
  return cardinality(holdfast.move_each(v_id, v_verb, null, v_note));
end $$;
