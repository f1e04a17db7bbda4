-- stages.sql: what a worker asks while it goes through the stages of a job.

-- The stages of a job in their order, with how often each has failed until now; and the settings that it goes by.
create or replace function holdfast.read_stages(p_job uuid)
returns table (name text, status text, declared jsonb, failures int, settings jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $$
  select s.name, s.status, s.declared, coalesce(t.failures, 0), j.settings
  from holdfast.pipeline_job j
  join holdfast.pipeline_stage s on s.task_id = j.task_id
  left join holdfast.step t on t.task_id = s.task_id and t.name = s.name
  where j.task_id = p_job order by s.number
$$;

-- A job that was made before its pipeline was declared is given its stages by the first worker that holds it. Answers
-- whether it has some now. Raises TK010 for parameters that no stage takes.
create or replace function holdfast.adopt_job(p_job uuid, p_attempt int, p_token uuid) returns bool
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_name text := (holdfast.lock_held(p_job, p_attempt, p_token)).name;
begin
  if v_name is not null and not exists (select from holdfast.pipeline_job j where j.task_id = p_job) then
    perform holdfast.open_job(p_job, v_name);
  end if;
  return exists (select from holdfast.pipeline_job j where j.task_id = p_job);
end $$;

-- A stage begins, unless the job is to stop: ok, cancel, or lost (the lease). A cancel waits for the same
-- row, so the cancel is either seen here or comes while the stage runs.
create or replace function holdfast.begin_stage(p_job uuid, p_attempt int, p_token uuid, p_stage text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_cancel bool := (holdfast.lock_held(p_job, p_attempt, p_token)).cancel_requested;
  v_early text;
begin
  if v_cancel is null then
    perform holdfast.add_to_tally('lost', 1);
    return 'lost';
  elsif v_cancel then
    return 'cancel';
  end if;
  v_early := (select e.name from holdfast.pipeline_stage s
              join holdfast.pipeline_stage e on e.task_id = s.task_id and e.number < s.number and e.finished_at is null
              where s.task_id = p_job and s.name = p_stage order by e.number limit 1);
  if v_early is not null then
    perform holdfast.refuse('TK002', format('%s cannot begin before %s is done.', p_stage, v_early), 'Stages go in their order.');
  end if;
  update holdfast.pipeline_stage s set status = 'running', started_at = coalesce(s.started_at, holdfast.now()), attempt = p_attempt
  where s.task_id = p_job and s.name = p_stage and s.finished_at is null;
  if not found then
    perform holdfast.refuse('TK002', format('%s is done, or is not a stage of this job.', p_stage), 'holdfast pipeline show lists its stages.');
  end if;
  perform holdfast.add_step_event(p_job, p_stage, 'step_started', p_attempt);
  return 'ok';
end $$;

-- What the stages of a job make of it, once all are done or one that it requires has failed; null until then. `blame` is
-- the stage to name, if one is to blame, with its errors.
create or replace function holdfast.read_verdict(p_job uuid, out state text, out blame text, out errors jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select case when v.needed is not null then 'FAILED'
              when v.open > 0 then null
              when v.well = 0 then 'FAILED'
              when v.badly is not null then 'PARTIAL'
              else 'COMPLETED' end,
         b.name, coalesce(b.errors, '[]')
  from (select min(s.number) filter (where s.status = 'failed' and (s.declared ->> 'required')::bool) as needed,
               min(s.number) filter (where s.status in ('failed', 'partial')) as badly,
               count(*) filter (where s.finished_at is null) as open,
               count(*) filter (where s.status in ('completed', 'partial')) as well
        from holdfast.pipeline_stage s where s.task_id = p_job) v
  left join holdfast.pipeline_stage b on b.task_id = p_job and b.number = coalesce(v.needed, v.badly)
$$;
