-- schedules.sql: what applications declare, what there is, and what an operator does to it. Locks the schedule's row.

-- What a schedule is, as its application says at each start: `new`, `changed` or the `same`. What is the same changes
-- nothing. Its next time is set again only where its times are others: a deploy neither doubles a run nor loses one.
create or replace function holdfast.declare_schedule(
  p_name text, p_cron text, p_timezone text, p_starts text, p_target jsonb, p_at_field text, p_missed text, p_owner text,
  p_next_at timestamptz) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_definition bytea := holdfast.body_hash(jsonb_build_array(
    p_cron, p_timezone, p_starts, p_target, p_at_field, p_missed, p_owner));
  v_known bool := exists (select from holdfast.schedule s where s.name = p_name);
begin
  if p_name is null or p_name !~ '^[[:alnum:]_.:-]{1,80}$' then
    perform holdfast.refuse('TK010', format('%s cannot be the name of a schedule.', quote_nullable(left(p_name, 100))),
                            'Take up to 80 letters, digits and _ . : -');
  elsif p_cron is null or p_timezone is null or p_starts is null or p_starts not in ('task', 'dag') or p_missed is null
     or p_missed not in ('latest', 'all', 'skip') or jsonb_typeof(p_target -> 'name') is distinct from 'string'
     or jsonb_typeof(coalesce(p_target -> 'payload', '{}')) <> 'object' or length(coalesce(p_owner, '')) > 200 then
    perform holdfast.refuse('TK010', format('The schedule %s is not whole.', p_name), 'Declare it with hf.cron(...).');
  end if;
  perform holdfast.check_value(p_target);
  insert into holdfast.schedule as s (name, cron, timezone, starts, target, at_field, missed, owner, definition, next_at)
  values (p_name, p_cron, p_timezone, p_starts, p_target, p_at_field, p_missed, coalesce(p_owner, ''), v_definition, p_next_at)
  on conflict (name) do update set
    cron = excluded.cron, timezone = excluded.timezone, starts = excluded.starts, target = excluded.target,
    at_field = excluded.at_field, missed = excluded.missed, owner = excluded.owner, definition = excluded.definition,
    declared_at = holdfast.now(), error = null, error_at = null, failures = 0, try_at = null,
    next_at = case when (s.cron, s.timezone) = (excluded.cron, excluded.timezone) then s.next_at else excluded.next_at end,
    set_at = case when (s.cron, s.timezone) = (excluded.cron, excluded.timezone) then s.set_at else holdfast.now() end
  where s.definition <> excluded.definition;
  if found then
    return case when v_known then 'changed' else 'new' end;
  end if;
  perform holdfast.see_schedules(array[p_name]);
  return 'same';
end $$;

-- Say that an application is there that declares these. A process that says it a moment later, or at the same time, writes nothing.
create or replace function holdfast.see_schedules(p_names text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  update holdfast.schedule s set seen_at = holdfast.now()
  where s.name in (
    select o.name from holdfast.schedule o
    where o.name = any (p_names) and o.seen_at not between holdfast.now() - interval '10 seconds' and holdfast.now()
    for update skip locked)
$$;

-- Schedules by name, from one on; or the one of that name.
create or replace function holdfast.read_schedules(p_name text default null, p_after text default null, p_limit int default 50)
returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select to_jsonb(s) - '{seen_at, set_at, failures, created_at}'::text[] || jsonb_build_object(
    'live', s.seen_at between holdfast.now() - interval '30 seconds' and holdfast.now() + interval '30 seconds',
    'definition', encode(s.definition, 'hex'), 'now', holdfast.now())
  from holdfast.schedule s
  where (p_name is null or s.name = p_name) and (p_after is null or s.name > p_after)
  order by s.name limit least(p_limit, 1000)
$$;

-- The newest runs of a schedule.
create or replace function holdfast.schedule_runs(p_name text, p_limit int default 20)
returns table (due_at timestamptz, kind text, task_id uuid, by text, at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select r.due_at, r.kind, r.task_id, r.by, r.at from holdfast.schedule_run r
  where r.name = p_name order by r.due_at desc, r.task_id desc limit least(p_limit, 1000)
$$;

-- Let nothing of it be started by the clock.
create or replace function holdfast.pause_schedule(p_name text, p_by text default '') returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.lock_schedule(p_name);
  update holdfast.schedule s set paused_at = holdfast.now(), paused_by = coalesce(p_by, '')
  where s.name = p_name and s.paused_at is null
$$;

-- Let the clock start it again, from its next time on: what fell due meanwhile is not run. False if it is another than the
-- caller has seen, so that the next time is to be computed again.
create or replace function holdfast.resume_schedule(p_name text, p_definition bytea, p_next_at timestamptz) returns bool
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.lock_schedule(p_name);
  update holdfast.schedule s set paused_at = null, paused_by = null, next_at = p_next_at, set_at = holdfast.now(),
    error = null, error_at = null, failures = 0, try_at = null
  where s.name = p_name and s.definition = p_definition and s.paused_at is not null;
  select s.definition = p_definition from holdfast.schedule s where s.name = p_name
$$;

-- One run at once, paused or not; its next time stays. The task.
create or replace function holdfast.run_schedule(p_name text, p_local_time text, p_by text default '') returns uuid
language sql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select (holdfast.start_runs(holdfast.lock_schedule(p_name), array[holdfast.now()], array[p_local_time], 'now', p_by))[1]
$$;

-- A run for each of these due times that has none, the oldest first. A dry run only tells which. Nothing is answered if
-- the schedule is another than the caller has seen. The next time stays.
create or replace function holdfast.backfill_schedule(
  p_name text, p_definition bytea, p_due timestamptz[], p_local_times text[], p_by text default '', p_dry_run bool default false)
returns table (due_at timestamptz, task_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_schedule holdfast.schedule := holdfast.lock_schedule(p_name);
  v_due timestamptz[];
  v_local_times text[];
begin
  if v_schedule.definition <> p_definition then
    perform holdfast.refuse('TK002', format('%s was just declared again.', p_name), 'Ask again.');
  end if;
  perform holdfast.check_due(p_due, p_local_times);
  select array_agg(d.due order by d.due), array_agg(d.local_time order by d.due) into v_due, v_local_times
  from (select d.due, min(d.local_time) as local_time from unnest(p_due, p_local_times) d(due, local_time) group by d.due) d
  where not exists (select from holdfast.schedule_run r where r.name = p_name and r.due_at = d.due and r.kind <> 'now');
  return query
  select d.due, d.task
  from unnest(v_due, case when not p_dry_run then holdfast.start_runs(v_schedule, v_due, v_local_times, 'backfill', p_by) end)
    with ordinality d(due, task, place)
  order by d.place;
end $$;

-- Forget a schedule, but not its runs. One that an application declares is there again at its next start.
create or replace function holdfast.remove_schedule(p_name text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.lock_schedule(p_name);
  delete from holdfast.schedule s where s.name = p_name
$$;

-- The schedule, which nobody else changes until the caller commits. Raises TK074.
create or replace function holdfast.lock_schedule(p_name text) returns holdfast.schedule
language plpgsql
as $$
declare
  v_schedule holdfast.schedule;
begin
  select * into v_schedule from holdfast.schedule s where s.name = p_name for update;
  if not found then
    perform holdfast.refuse('TK074', format('There is no schedule %s.', quote_nullable(left(p_name, 200))),
      format('There are: %s.', coalesce((select string_agg(s.name, ', ' order by s.name) from (
        select s.name from holdfast.schedule s order by s.name limit 20) s), 'none; declare one with hf.cron(...)')));
  end if;
  return v_schedule;
end $$;
