-- checkpoint.sql: a step is done, its result is kept, and the task may move on while its lease stays.
-- Called by workers. Locks the tasks, the youngest first. The first to write a step wins; everybody else gets
-- what the first one wrote.

-- A step, a move, or both. status: ok; stored (the step was written before: `result` is that); lost (the lease);
-- undeclared (the move); settle_only (no worker holds tasks where it leads); unknown_state.
create or replace function holdfast.checkpoint(
  p_id uuid[], p_attempt int[], p_token uuid[], p_step text[], p_result jsonb[] default null,
  p_to text[] default null, p_usage jsonb[] default null)
returns table (task_id uuid, step text, status text, result jsonb, cancel_requested bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  v_id uuid[];
  v_step text[];
  v_status text[];
  v_result jsonb[];
  v_cancel bool[];
  v_effects text[];
  v_moved holdfast.moved[];
begin
  perform holdfast.check_lengths(cardinality(p_id), coalesce(cardinality(p_attempt), 0), coalesce(cardinality(p_token), 0),
    cardinality(p_step), cardinality(p_result), cardinality(p_to), cardinality(p_usage));
  perform holdfast.check_steps(p_step);
  perform holdfast.check_value(variadic coalesce(p_result || p_usage, '{}'));
  if exists (select from unnest(p_id, p_to) i(id, target) group by i.id having count(distinct i.target) > 1) then
    perform holdfast.refuse('TK010', 'A task cannot move to two states at once.', 'Checkpoint one after the other.');
  end if;
  perform from (select distinct unnest(p_id) as id order by 1 desc) i
  cross join lateral (select from holdfast.task t where t.id = i.id for no key update) t;

  with asked as materialized (
    select i.*, t.id is not null as held, t.lifecycle, t.name, t.owner, t.state, t.cancel_requested, x.to_state,
           x.to_actor, x.to_limit, x.to_limit_per_task, c.name as machine, c.effects,
           coalesce(i.target is null or x.to_leasable or t.state = i.target, false) as legal,
           (select s.name from holdfast.state s where s.lifecycle = t.lifecycle and s.name = i.target) as known
    from (select distinct on (i.id, i.token, i.attempt, i.step) *
          from unnest(p_id, p_attempt, p_token, p_step, p_result, p_to, p_usage)
            i(id, attempt, token, step, result, target, usage)
          order by i.id, i.token, i.attempt, i.step) i
    left join lateral (
      select * from holdfast.task t
      where t.id = i.id and t.lease_token = i.token and t.attempt = i.attempt offset 0) t on true
    left join lateral (select c.name, c.effects from holdfast.lifecycle c where c.id = t.lifecycle offset 0) c on true
    left join lateral (
      select * from holdfast.transition x
      where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'to:' || i.target
        and x.to_state <> t.state offset 0) x on true
  ), written as (
    insert into holdfast.step as s (task_id, name, done, attempt, token, result, at)
    select a.id, a.step, true, a.attempt, a.token, a.result, v_now from asked a
    where a.held and a.legal and a.step is not null
    on conflict (task_id, name) do update
      set done = true, attempt = excluded.attempt, token = excluded.token, result = excluded.result, at = excluded.at
      where not s.done
    returning s.task_id, s.name
  ), logged as (
    insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
    select w.task_id, holdfast.last_step_event(w.task_id) + row_number() over (partition by w.task_id order by w.name),
           w.name, 'step_completed', a.attempt, a.usage
    from written w join asked a on a.id = w.task_id and a.step = w.name and a.held
  ), moved as (
    update holdfast.task t set
      from_state = t.state, verb = 'to:' || a.target, version = t.version + 1, note = null,
      state = a.to_state, actor = a.to_actor, entered_at = v_now, timed_out = false,
      deadline = v_now + case when a.to_limit_per_task then coalesce(t.time_limit, a.to_limit) else a.to_limit end
    from asked a where t.id = a.id and a.held and a.legal and a.to_state is not null and t.id = any (p_id)
  ), answer as (
    select a.*, w.task_id is not null as first from asked a
    left join written w on w.task_id = a.id and w.name = a.step and a.held
  )
  select array_agg(a.id), array_agg(a.step),
         array_agg(case when not a.held then 'lost'
                        when not a.legal and a.known is null then 'unknown_state'
                        when not a.legal and a.to_state is not null then 'settle_only'
                        when not a.legal then 'undeclared'
                        when a.first or a.step is null then 'ok'
                        else 'stored' end),
         array_agg(case when a.first then a.result when a.held then (
           select o.result from holdfast.step o where o.task_id = a.id and o.name = a.step) end),
         array_agg(coalesce(a.cancel_requested, false)),
         array_agg(a.effects) filter (where a.first and a.effects is not null),
         array_agg((a.id, a.machine, a.name, a.owner, 'step', a.step, a.state, coalesce(a.to_state, a.state), a.attempt,
                    a.token, a.result)::holdfast.moved) filter (where a.first and a.effects is not null)
    into v_id, v_step, v_status, v_result, v_cancel, v_effects, v_moved
  from answer a;
  if cardinality(array_remove(p_usage, null)) > 0 then
    perform holdfast.keep_usage(array(
      select w.id from unnest(v_id, v_step, v_status) w(id, step, status) where w.status = 'ok' and w.step is not null));
  end if;
  if v_effects is not null then
    perform holdfast.run_effects(v_effects, v_moved);
  end if;
  perform holdfast.add_to_tally('lost', (select count(*) from unnest(v_status) s where s = 'lost'));
  return query select * from unnest(v_id, v_step, v_status, v_result, v_cancel);
end $$;

-- Steps that have begun, and whatever else a handler reports while it holds the task. Ids that are missing in the answer
-- have lost their lease.
create or replace function holdfast.record(
  p_id uuid[], p_attempt int[], p_token uuid[], p_step text[], p_kind text[], p_data jsonb[] default null)
returns table (task_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_held uuid[];
begin
  perform holdfast.check_lengths(cardinality(p_id), coalesce(cardinality(p_attempt), 0), coalesce(cardinality(p_token), 0),
    cardinality(p_step), coalesce(cardinality(p_kind), 0), cardinality(p_data));
  perform holdfast.check_steps(p_step);
  perform holdfast.check_value(variadic coalesce(p_data, '{}'));
  if exists (select from unnest(p_kind) k where k is null or k !~ '^[a-z][a-z0-9_]{0,62}$') then
    perform holdfast.refuse('TK010', 'The kind of a step event is a word in small letters.', 'For example step_started.');
  end if;
  perform from (select distinct unnest(p_id) as id order by 1 desc) i
  cross join lateral (select from holdfast.task t where t.id = i.id for no key update) t;
  with held as materialized (
    select i.* from unnest(p_id, p_attempt, p_token, p_step, p_kind, p_data)
      with ordinality i(id, attempt, token, step, kind, data, place)
    cross join lateral (
      select from holdfast.task t
      where t.id = i.id and t.lease_token = i.token and t.attempt = i.attempt offset 0) t
  ), logged as (
    insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
    select h.id, holdfast.last_step_event(h.id) + row_number() over (partition by h.id order by h.place),
           coalesce(h.step, ''), h.kind, h.attempt, h.data
    from held h
  )
  select array_agg(h.id) into v_held from held h;
  if p_kind && array['step_completed', 'usage'] then
    perform holdfast.keep_usage(v_held);
  end if;
  return query select distinct h.id from unnest(v_held) h(id);
end $$;

-- What a worker that takes the task up again need not do again: for a caller that proves that it holds the task.
create or replace function holdfast.held_steps(p_id uuid, p_attempt int, p_token uuid)
returns table (name text, done bool, failures int, attempt int, at timestamptz, result jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform holdfast.check_held(p_id, p_attempt, p_token);
  return query select s.* from holdfast.steps(p_id) s;
end $$;

-- What a task waited for, for its holder. Raises TK001.
create or replace function holdfast.held_upstream(p_id uuid, p_attempt int, p_token uuid)
returns table (name text, task_id uuid, policy text, outcome holdfast.outcome, result jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform holdfast.check_held(p_id, p_attempt, p_token);
  return query select u.* from holdfast.upstream(p_id) u;
end $$;

create or replace function holdfast.check_held(p_id uuid, p_attempt int, p_token uuid) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from holdfast.task t
                 where t.id = p_id and t.lease_token = p_token and t.attempt = p_attempt) then
    perform holdfast.refuse('TK001', format('Task %s, attempt %s.', p_id, p_attempt), 'The worker that holds it now settles it.');
  end if;
end $$;

-- The task, locked until the caller commits, if this lease is the one that counts; null otherwise.
create or replace function holdfast.lock_held(p_id uuid, p_attempt int, p_token uuid) returns holdfast.task
language sql
as $$
  select t.* from holdfast.task t
  where t.id = p_id and t.lease_token = p_token and t.attempt = p_attempt for no key update
$$;

-- Steps of one task are numbered under the lock of its row.
create or replace function holdfast.last_step_event(p_id uuid) returns int
language sql stable
as $$ select coalesce(max(e.number), 0) from holdfast.step_event e where e.task_id = p_id $$;

-- The next event of a task that the caller has locked. Answers its number.
create or replace function holdfast.add_step_event(p_id uuid, p_step text, p_kind text, p_attempt int, p_data jsonb default null)
returns int
language sql
as $$
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  values (p_id, holdfast.last_step_event(p_id) + 1, p_step, p_kind, p_attempt, p_data) returning number
$$;

create or replace function holdfast.check_steps(p_step text[]) returns void
language plpgsql immutable
as $$
begin
  if exists (select from unnest(p_step) s where length(s) not between 1 and 200) then
    perform holdfast.refuse('TK010', 'A step has a name of 1 to 200 characters.', 'Put what is long into its result.');
  end if;
end $$;
