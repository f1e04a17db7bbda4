-- read.sql: one task, its history and its steps, for everybody who shows them. Takes no lock.

create or replace function holdfast.read(p_id uuid) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_task jsonb;
begin
  select to_jsonb(t) || jsonb_build_object(
      'payload', i.payload, 'retry_of', i.retry_of, 'tags', i.tags, 'progress', b.progress,
      'lease_expires_at', greatest(t.lease_expires_at, b.expires_at))
    into v_task
  from (select t.*, null as outcome, null::timestamptz as finished_at, null::jsonb as result
        from holdfast.task t where t.id = p_id) t
  join holdfast.input i on i.id = t.id
  left join holdfast.beat b on b.task_id = t.id and b.token = t.lease_token;
  if not found then
    select to_jsonb(t) || jsonb_build_object(
      'payload', i.payload, 'retry_of', i.retry_of, 'tags', i.tags, 'progress', null) into v_task
    from holdfast.task_done t join holdfast.input i on i.id = t.id where t.id = p_id;
  end if;
  if v_task is null then
    perform holdfast.refuse_missing(p_id, 'read');
  end if;
  return (select v_task - 'lease_token' - 'token' - 'body_hash' - 'from_state' - 'verb'
                 || jsonb_build_object('lifecycle', l.name, 'lifecycle_version', l.version)
          from holdfast.lifecycle l where l.id = (v_task ->> 'lifecycle')::smallint);
end $$;

-- A task, live or ended, for functions that show more of it. Has no options: so it is inlined into the query that asks.
create or replace function holdfast.find_task(p_id uuid)
returns table (id uuid, lifecycle smallint, name text, owner text, state text, actor holdfast.actor, outcome holdfast.outcome,
               queue text, priority smallint, attempt int, max_attempts int, cancel_requested bool, note jsonb, result jsonb,
               worker_id text, lease_token uuid, due_at timestamptz, deadline timestamptz, entered_at timestamptz,
               created_at timestamptz, started_at timestamptz, finished_at timestamptz)
language sql stable
as $$
  select t.id, t.lifecycle, t.name, t.owner, t.state, t.actor, null::holdfast.outcome, t.queue, t.priority, t.attempt,
         t.max_attempts, t.cancel_requested, t.note, null::jsonb, t.worker_id, t.lease_token, t.due_at, t.deadline,
         t.entered_at, t.created_at, t.started_at, null::timestamptz
  from holdfast.task t where t.id = p_id
  union all
  select t.id, t.lifecycle, t.name, t.owner, t.state, t.actor, t.outcome, t.queue, t.priority, t.attempt,
         t.max_attempts, t.cancel_requested, t.note, t.result, t.worker_id, null::uuid, t.due_at, t.deadline,
         t.entered_at, t.created_at, t.started_at, t.finished_at
  from holdfast.task_done t where t.id = p_id
$$;

-- Of these tasks, those that have ended, and those that are not there at all (state and outcome are null).
create or replace function holdfast.outcomes(p_id uuid[])
returns table (task_id uuid, state text, outcome holdfast.outcome, result jsonb, note jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select i.id, d.state, d.outcome, d.result, d.note
  from unnest(p_id) i(id)
  left join lateral (select t.id from holdfast.task t where t.id = i.id offset 0) t on true
  left join lateral (
    select d.state, d.outcome, d.result, d.note from holdfast.task_done d where d.id = i.id offset 0) d on true
  where t.id is null
$$;

-- What a task waited for, or waits for: how each has ended (null: it has not), and what it returned.
create or replace function holdfast.upstream(p_id uuid)
returns table (name text, task_id uuid, policy text, outcome holdfast.outcome, result jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select t.name, d.upstream, d.policy, t.outcome, t.result from holdfast.dependency d
  cross join lateral holdfast.find_task(d.upstream) t
  where d.downstream = p_id and d.policy <> 'gather' order by t.name, d.upstream
$$;

create or replace function holdfast.events(p_id uuid)
returns table (version int, at timestamptz, verb text, from_state text, to_state text, attempt int, worker_id text,
               data jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select e.version, e.at, e.verb, e.from_state, e.to_state, e.attempt, e.worker_id, e.data
  from holdfast.event e where e.task_id = p_id order by e.version
$$;

-- What is done of it.
create or replace function holdfast.steps(p_id uuid)
returns table (name text, done bool, failures int, attempt int, at timestamptz, result jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select s.name, s.done, s.failures, s.attempt, s.at, s.result from holdfast.step s where s.task_id = p_id
  order by s.at, s.name
$$;

create or replace function holdfast.step_events(p_id uuid)
returns table (number int, at timestamptz, step text, kind text, attempt int, data jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select e.number, e.at, e.step, e.kind, e.attempt, e.data from holdfast.step_event e where e.task_id = p_id
  order by e.number
$$;
