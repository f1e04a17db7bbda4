-- fire.sql: what is due is started, once. Called by every server and worker, all at once if they like: the one that has the
-- schedule's row decides, and who comes later finds that its next time has moved on. Locks the schedule, then what submit
-- locks; nobody who holds a task waits for a schedule.

-- Which schedules have something to do: their next time has come, or the clock was put back behind what was computed.
-- Takes no lock. Times are computed by the caller.
create or replace function holdfast.due_schedules(p_n int default 100)
returns table (name text, cron text, timezone text, missed text, definition bytea, next_at timestamptz, now timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select s.name, s.cron, s.timezone, s.missed, s.definition, s.next_at, holdfast.now() from holdfast.schedule s
  where s.paused_at is null and (s.next_at <= holdfast.now() or s.set_at > holdfast.now())
    and (s.try_at is null or s.try_at <= holdfast.now() or s.set_at > holdfast.now())
  order by s.next_at, s.name limit p_n
$$;

-- How long until one of them is due; null if none will be.
create or replace function holdfast.schedules_rest() returns interval
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select min(greatest(s.next_at, s.try_at)) - holdfast.now() from holdfast.schedule s
  where s.paused_at is null and s.next_at is not null
$$;

-- Start a run for each of these due times that has none, and move on to the next time: all of it or nothing. Only if the
-- schedule still is what the caller has seen; otherwise, or if another is at it, it has `passed`. Where a start is refused
-- nothing of it stays but the reason, and it is tried again: after a second, then after longer, at last every five minutes.
create or replace function holdfast.fire(
  p_name text, p_definition bytea, p_expected timestamptz, p_due timestamptz[], p_local_times text[], p_next_at timestamptz,
  out status text, out started int, out problem text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_schedule holdfast.schedule;
  v_hint text;
begin
  started := 0;
  select * into v_schedule from holdfast.schedule s where s.name = p_name for update skip locked;
  if not found or v_schedule.paused_at is not null or v_schedule.definition <> p_definition
     or v_schedule.next_at is distinct from p_expected then
    status := 'passed';
    return;
  end if;
  perform holdfast.check_due(p_due, p_local_times, p_next_at);
  begin
    started := cardinality(holdfast.start_runs(v_schedule, p_due, p_local_times, null, ''));
    update holdfast.schedule s set next_at = p_next_at, set_at = holdfast.now(), error = null, error_at = null,
      failures = 0, try_at = null
    where s.name = p_name;
    status := 'fired';
  exception
    when deadlock_detected or serialization_failure or lock_not_available then
      raise;
    when others then
      get stacked diagnostics v_hint = pg_exception_hint;
      started := 0;
      status := 'refused';
      problem := left(concat_ws(' ', sqlerrm, nullif(v_hint, '')), 2000);
      update holdfast.schedule s set error = fire.problem, error_at = holdfast.now(), failures = s.failures + 1,
        try_at = holdfast.now() + holdfast.doubled('1 second', s.failures, '5 minutes')
      where s.name = p_name;
  end;
end $$;

-- Runs of a schedule that is locked, for those of these due times that have none yet; the tasks, in the order of the times.
-- Without a `kind` it is `due`, or `missed` where the time is over a minute ago.
create or replace function holdfast.start_runs(
  p_schedule holdfast.schedule, p_due timestamptz[], p_local_times text[], p_kind text, p_by text) returns uuid[]
language plpgsql
as $$
#variable_conflict use_column
declare
  v_due timestamptz[];
  v_payload jsonb[];
  v_key text[];
  v_tasks uuid[];
begin
  select array_agg(d.due order by d.due), array_agg(d.payload order by d.due), array_agg(d.key order by d.due)
    into v_due, v_payload, v_key
  from (
    select d.due, coalesce(p_schedule.target -> 'payload', '{}') || case when p_schedule.at_field is not null
             then jsonb_build_object(p_schedule.at_field, min(d.local_time)) else '{}' end as payload,
           case when p_kind is distinct from 'now' then format('cron:%s:%s', p_schedule.name,
             to_char(d.due, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) end as key
    from unnest(p_due, p_local_times) d(due, local_time)
    where p_kind is not distinct from 'now' or not exists (
      select from holdfast.schedule_run r where r.name = p_schedule.name and r.due_at = d.due and r.kind <> 'now')
    group by d.due) d;
  if v_due is null then
    return '{}';
  end if;
  v_tasks := case p_schedule.starts when 'dag' then holdfast.start_graphs(p_schedule, v_payload, v_key, p_by)
                                    else holdfast.start_tasks(p_schedule, v_payload, v_key) end;
  insert into holdfast.schedule_run (name, due_at, kind, task_id, by)
  select p_schedule.name, r.due, coalesce(p_kind, case when r.due < holdfast.now() - interval '1 minute' then 'missed' else 'due' end),
         r.task, coalesce(p_by, '')
  from unnest(v_due, v_tasks) r(due, task);
  if p_kind is null then
    update holdfast.schedule s set last_at = v_due[cardinality(v_due)], last_task = v_tasks[cardinality(v_due)]
    where s.name = p_schedule.name;
  end if;
  return v_tasks;
end $$;

-- Tasks with these payloads, found again by their tag `cron:<name>`. In one call: so the first of them goes first.
create or replace function holdfast.start_tasks(p_schedule holdfast.schedule, p_payload jsonb[], p_key text[]) returns uuid[]
language sql
as $$
  select array_agg(m.id order by m.place)
  from (select p_schedule.target as one, array[cardinality(p_payload)] as n) t
  cross join lateral holdfast.submit_many(
    array_fill(t.one ->> 'lifecycle', t.n), array_fill(t.one ->> 'name', t.n), p_payload,
    p_queue => array_fill(t.one ->> 'queue', t.n), p_priority => array_fill((t.one ->> 'priority')::int, t.n), p_key => p_key,
    p_max_attempts => array_fill((t.one ->> 'max_attempts')::int, t.n), p_owner => array_fill(p_schedule.owner, t.n),
    p_limit_key => array_fill(t.one ->> 'limit_key', t.n), p_limit_to => array_fill((t.one ->> 'limit_to')::int, t.n),
    p_time_limit => array_fill(make_interval(secs => (t.one ->> 'time_limit_seconds')::float8), t.n),
    p_tags => array_fill(coalesce(t.one -> 'tags', '[]') || to_jsonb('cron:' || p_schedule.name), t.n)) m
$$;

-- Runs of a graph with these parameters, the first one first.
create or replace function holdfast.start_graphs(
  p_schedule holdfast.schedule, p_params jsonb[], p_key text[], p_by text) returns uuid[]
language plpgsql
as $$
declare
  v_tag text := 'cron:' || p_schedule.name;
  v_runs uuid[] := '{}';
begin
  for i in 1 .. cardinality(p_params) loop
    v_runs := v_runs || holdfast.run_dag(p_schedule.target ->> 'name', p_params[i], p_schedule.owner, p_key[i],
                                         coalesce(nullif(p_by, ''), v_tag));
  end loop;
  update holdfast.input i set tags = i.tags || v_tag
  where i.id = any (v_runs) and not coalesce(i.tags @> array[v_tag], false);
  return v_runs;
end $$;

-- Raise TK010 for times that cannot be due.
create or replace function holdfast.check_due(p_due timestamptz[], p_local_times text[], p_next_at timestamptz default null) returns void
language plpgsql
as $$
begin
  if cardinality(p_due) is distinct from cardinality(p_local_times) or cardinality(p_due) > 1000 then
    perform holdfast.refuse('TK010', 'Up to a thousand due times, each with its local time, can be started at once.', 'Make it several calls.');
  elsif exists (select from unnest(p_due) d where d is null or d > holdfast.now() or d >= p_next_at) then
    perform holdfast.refuse('TK010', 'What is due lies before now, and before the next time.', 'Start nothing ahead of its time.');
  end if;
end $$;
