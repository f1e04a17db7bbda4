-- claim.sql: a worker takes tasks that wait for one, each under a lease of its own.
-- Called by workers. Locks the rows it takes and skips those that others have locked. FOR NO KEY UPDATE: somebody who
-- submits a task that depends on this one holds KEY SHARE on it, and must not hide it from workers.

-- Up to n tasks of these queues, in the order of the queues, the most urgent first, then the longest due. A worker that
-- names what it can run never gets anything else: what it does not know is set aside until somebody knows it. `since`,
-- a due time and an id, leaves out what comes before: a worker that took all of that need not read past it again.
create or replace function holdfast.claim(
  p_queues text[], p_n int, p_lease interval, p_worker text, p_names text[] default null,
  p_since timestamptz default null, p_since_id uuid default null)
returns setof holdfast.lease
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_id uuid[];
  v_unknown uuid[];
  v_effects bool;
  v_with_effects smallint[] := array(select l.id from holdfast.lifecycle l where l.effects is not null);
  v_parked int := 0;
  v_admitted bool := false;
begin
  perform holdfast.check_claim(p_n, p_lease, p_worker);
  loop  -- what nobody here knows must not hide what lies behind it; the `exists` saves a look-up for each task
    select array_agg(c.id) filter (where c.known), array_agg(c.id) filter (where not c.known), bool_or(c.has_effects)
      into v_id, v_unknown, v_effects
    from (
      select c.id, p_names is null or c.name = any (p_names) as known,
             c.lifecycle = any (v_with_effects) as has_effects
      from unnest(p_queues) q(name)
      cross join lateral (select from holdfast.queue o where o.name = q.name and o.paused_at is null offset 0) o
      cross join lateral (
        select c.id, c.name, c.lifecycle from generate_series(9, 0, -1) p(level)
        cross join lateral (
          select t.id, t.name, t.lifecycle from holdfast.task t
          where t.queue = q.name and t.priority = p.level
            and t.actor = 'worker' and t.lease_token is null and t.parked is null
            and t.due_at <= holdfast.now()
            and (t.due_at, t.id) >= (coalesce(p_since, '-infinity'), coalesce(p_since_id, uuid(repeat('0', 32))))
            and (t.deadline is null or t.deadline > holdfast.now())
            and (not exists (select from holdfast.setback)
                 or (select s.until from holdfast.setback s where s.task_id = t.id) > holdfast.now() is not true)
          order by t.due_at, t.id limit p_n
          for no key update skip locked) c
        limit p_n) c
      limit p_n) c;
    exit when v_id is not null and v_unknown is null;
    if v_unknown is not null then
      perform holdfast.move_each(v_unknown, array_fill('park'::text, array[cardinality(v_unknown)]), null, null);
      v_parked := v_parked + cardinality(v_unknown);
      exit when v_id is not null or v_parked >= 1000;
    else
      exit when v_admitted;
      perform holdfast.check_queues(p_queues);  -- a worker that waits for a queue that is not there waits for ever
      v_admitted := holdfast.admit_known(p_queues, p_names, p_n) > 0;
      exit when not v_admitted;
    end if;
  end loop;
  if v_id is not null then
    update holdfast.worker w set idle_since = null where w.id = p_worker and w.idle_since is not null;
  end if;
  if v_effects and v_id is not null then
    return query select l.* from unnest(holdfast.lease_each(v_id, p_lease, p_worker)) l;
  elsif v_id is not null then
    return query select l.* from holdfast.lease_tasks(v_id, p_lease, p_worker) l;
  end if;
end $$;

-- These tasks, if they can be claimed. Those that are missing in the answer cannot: holdfast.explain says why.
create or replace function holdfast.claim_these(p_id uuid[], p_lease interval, p_worker text)
returns setof holdfast.lease
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_id uuid[];
begin
  perform holdfast.check_claim(1, p_lease, p_worker);
  -- actor::text keeps the planner from scanning the partial index of what is ready.
  select array_agg(c.id) into v_id
  from (select distinct unnest(p_id) as id order by 1) i
  cross join lateral (
    select t.id from holdfast.task t
    where t.id = i.id and t.actor::text = 'worker' and t.lease_token is null and t.parked is null
      and t.due_at <= holdfast.now() and (t.deadline is null or t.deadline > holdfast.now())
      and (select q.paused_at from holdfast.queue q where q.name = t.queue) is null
    for no key update skip locked) c;
  if v_id is not null then
    return query select l.* from holdfast.lease_tasks(v_id, p_lease, p_worker) l;
  end if;
end $$;

-- Lease tasks that this transaction has locked. One token for all: each is compared together with its task.
create or replace function holdfast.lease_tasks(p_id uuid[], p_lease interval, p_worker text)
returns setof holdfast.lease
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_token uuid := gen_random_uuid();
begin
  return query
  with leased as (
    update holdfast.task t set
      from_state = t.state, verb = 'claim', version = t.version + 1, note = null,
      lease_token = v_token, lease_expires_at = v_now + p_lease, worker_id = p_worker,
      started_at = coalesce(t.started_at, v_now),
      (state, actor, timed_out, deadline, entered_at) = (
        select x.to_state, x.to_actor, x.to_state = t.state and t.timed_out,
               case when x.to_state = t.state then t.deadline
                    else v_now + case when x.to_limit_per_task then coalesce(t.time_limit, x.to_limit)
                                      else x.to_limit end end,
               case when x.to_state = t.state then t.entered_at else v_now end
        from holdfast.transition x
        where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'claim')
    where t.id = any (p_id)
    returning t.*
  )
  select l.id, l.attempt, l.lease_token, l.lease_expires_at, c.name, l.name, l.owner, l.state, l.queue, l.priority,
         l.due_at, l.deadline, l.timed_out, l.max_attempts, l.version, i.payload, l.crashes,
         l.crashes > 0 and l.crashes >= c.crash_budget - 1,
         l.version > 1 or i.retry_of is not null, i.trace
  from leased l
  cross join lateral (
    select c.name, c.crash_budget from holdfast.lifecycle c where c.id = l.lifecycle offset 0) c
  cross join lateral (select i.payload, i.retry_of, i.trace from holdfast.input i where i.id = l.id offset 0) i
  order by l.priority desc, l.due_at, l.id;
end $$;

-- The same, one by one, for tasks whose effects might refuse: those that do are set back, and hold up nobody.
create or replace function holdfast.lease_each(p_id uuid[], p_lease interval, p_worker text) returns holdfast.lease[]
language plpgsql
as $$
declare
  v_leases holdfast.lease[];
begin
  for i in 1 .. cardinality(p_id) loop
    begin
      v_leases := v_leases || array(select l from holdfast.lease_tasks(p_id[i:i], p_lease, p_worker) l);
      delete from holdfast.setback s where s.task_id = p_id[i];
    exception
      when deadlock_detected or serialization_failure or lock_not_available then
        raise;
      when others then
        perform holdfast.quarantine(p_id[i], 'claim', sqlerrm);
    end;
  end loop;
  return v_leases;
end $$;

create or replace function holdfast.check_claim(p_n int, p_lease interval, p_worker text) returns void
language plpgsql immutable
as $$
begin
  if p_n is null or p_n < 1 or p_n > 10000 then
    perform holdfast.refuse('TK010', format('%s tasks cannot be claimed at once.', coalesce(p_n::text, 'null')),
                            'Ask for 1 to 10000.');
  elsif p_lease is null or p_lease <= interval '0' or p_lease > interval '1 day' then
    perform holdfast.refuse('TK010', format('A lease cannot last %s.', coalesce(p_lease::text, 'null')),
                            'Give it more than nothing and at most a day; heartbeats extend it.');
  elsif p_worker is null or length(p_worker) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'A worker has a name of 1 to 200 characters.', 'Give each process one of its own.');
  end if;
end $$;
