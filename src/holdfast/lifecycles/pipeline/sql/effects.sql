-- effects.sql: what a move of a job, and a stage that is done, write beside the task, in the same transaction.
-- Called by every move and every step of the lifecycle `pipeline`. Locks the stages of the job, whose task is locked already,
-- then perhaps its pipeline; what it raises undoes the move. A task whose name is not that of a pipeline has no stages: nothing is
-- checked.

create or replace function holdfast.pipeline_effects(p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  m holdfast.moved;
begin
  -- The pipelines whose settings change, in the order of their names, so that two lists never wait for each other.
  perform p.name from holdfast.pipeline p
  where p.name = any (array(select n.name from unnest(p_moved) n where n.verb = 'step' and n.data ? 'settings'))
  order by p.name for update;
  foreach m in array p_moved loop
    if m.from_state = '' then
      perform holdfast.open_job(m.task_id, m.name);
    elsif m.verb = 'retried' then
      perform holdfast.inherit_stages(m.task_id, m.data ->> 'from_step');
    elsif m.verb = 'step' then
      perform holdfast.save_stage(m.task_id, m.name, m.step, m.data, m.attempt);
    elsif m.verb in ('done', 'partial') then
      perform holdfast.check_verdict(m.task_id, m.to_state);
    end if;
    if (select d.id from holdfast.task_done d where d.id = m.task_id) is not null then  -- it has ended
      perform holdfast.close_job(m.task_id, m.to_state);
    end if;
  end loop;
end $$;

-- A job begins with the stages and the settings that its pipeline has now, in whatever way it was made.
create or replace function holdfast.open_job(p_job uuid, p_name text) returns void
language plpgsql
as $$
declare
  v_pipeline holdfast.pipeline;
begin
  select * into v_pipeline from holdfast.pipeline p where p.name = p_name;
  if not found then
    return;
  end if;
  perform holdfast.check_params(p_name, v_pipeline.params, (select i.payload from holdfast.input i where i.id = p_job),
                                v_pipeline.settings);
  insert into holdfast.pipeline_job (task_id, pipeline, settings, settings_number)
  values (p_job, p_name, v_pipeline.settings, v_pipeline.settings_number);
  insert into holdfast.pipeline_stage (task_id, number, name, declared)
  select p_job, s.place, s.stage ->> 'name', s.stage - 'name'
  from jsonb_array_elements(v_pipeline.stages) with ordinality s(stage, place);
end $$;

-- A stage is done, in its turn, with one of the four statuses; what it says of the settings counts from here on.
create or replace function holdfast.save_stage(p_job uuid, p_name text, p_stage text, p_kept jsonb, p_attempt int) returns void
language plpgsql
as $$
declare
  v_stage holdfast.pipeline_stage;
  v_early text;
  v_changed bool;
begin
  select * into v_stage from holdfast.pipeline_stage s where s.task_id = p_job and s.name = p_stage for update;
  if not found then
    return;  -- a step within a stage
  end if;
  v_early := (select s.name from holdfast.pipeline_stage s
              where s.task_id = p_job and s.number < v_stage.number and s.finished_at is null order by s.number limit 1);
  if v_early is not null then
    perform holdfast.refuse('TK002', format('%s cannot be done before %s.', p_stage, v_early), 'Stages are done in their order.');
  elsif v_stage.finished_at is not null then
    perform holdfast.refuse('TK002', format('%s is %s already.', p_stage, v_stage.status), 'A stage is done once.');
  elsif coalesce(p_kept ->> 'status' not in ('completed', 'partial', 'failed', 'skipped'), true)
     or jsonb_typeof(coalesce(p_kept -> 'errors', '[]')) <> 'array' then
    perform holdfast.refuse('TK010', format('%s is a stage: it is kept with its status and its errors.', p_stage),
      'Keep {"status": "completed", "partial", "failed" or "skipped", "errors": [...], "reason": ..., "result": ...}.');
  end if;
  perform holdfast.finish_stage(p_job, p_stage, p_kept, p_attempt, holdfast.now());
  if p_kept ->> 'status' <> 'completed' then
    perform holdfast.add_step_event(p_job, p_stage, 'stage_' || (p_kept ->> 'status'), p_attempt,
      jsonb_strip_nulls(jsonb_build_object('message', coalesce(p_kept -> 'errors' ->> 0, p_kept ->> 'reason'))));
  end if;
  if p_kept ? 'settings' then
    perform holdfast.check_params(p_name, p.params, p_kept -> 'settings', p.params)  -- none is missing
    from holdfast.pipeline p where p.name = p_name;
    -- Only over the settings that this job began with: what another job has found meanwhile stays.
    update holdfast.pipeline p set settings = p.settings || (p_kept -> 'settings'), settings_number = p.settings_number + 1,
      settings_by = format('%s %s', p_stage, p_job), settings_at = holdfast.now()
    where p.name = p_name and p.settings_number = (select j.settings_number from holdfast.pipeline_job j where j.task_id = p_job);
    v_changed := found;
    -- What this job has changed itself does not keep its later stages from changing more.
    update holdfast.pipeline_job j set settings_number = j.settings_number + 1 where j.task_id = p_job and v_changed;
    perform holdfast.add_step_event(
      p_job, p_stage, case when v_changed then 'settings_changed' else 'settings_not_changed' end, p_attempt, p_kept -> 'settings');
  end if;
end $$;

create or replace function holdfast.finish_stage(
  p_job uuid, p_stage text, p_kept jsonb, p_attempt int, p_at timestamptz) returns void
language sql
as $$
  update holdfast.pipeline_stage s set
    status = p_kept ->> 'status', reason = p_kept ->> 'reason', errors = coalesce(p_kept -> 'errors', '[]'),
    outputs = coalesce(p_kept -> 'outputs', '[]'), finished_at = p_at, attempt = p_attempt
  where s.task_id = p_job and s.name = p_stage
$$;

-- A job is completed only as its stages say.
create or replace function holdfast.check_verdict(p_job uuid, p_state text) returns void
language plpgsql
as $$
declare
  v_says text := (holdfast.read_verdict(p_job)).state;
begin
  if v_says is distinct from p_state and exists (select from holdfast.pipeline_stage s where s.task_id = p_job) then
    perform holdfast.refuse('TK002', format('The stages of this job do not make it %s: %s.', p_state,
      coalesce('they make it ' || v_says, 'some have not run')), 'GET /pipeline/jobs/{id} shows how each of them ended.');
  end if;
end $$;

-- The job has ended: no stage stays open, and what it wrote is kept for thirty days.
create or replace function holdfast.close_job(p_job uuid, p_state text) returns void
language plpgsql
as $$
declare
  v_blame text := (select s.name from holdfast.pipeline_stage s where s.task_id = p_job and s.status = 'failed'
                     and (s.declared ->> 'required')::bool order by s.number limit 1);
  v_message text := (select coalesce(d.note ->> 'message', d.note ->> 'reason') from holdfast.task_done d where d.id = p_job);
begin
  update holdfast.pipeline_stage s set
    status = case when s.status = 'running' and p_state = 'FAILED' then 'failed' else 'skipped' end,
    errors = case when s.status = 'running' and p_state = 'FAILED'
                  then jsonb_build_array(coalesce(v_message, 'The job failed.')) else s.errors end,
    reason = case when p_state = 'CANCELLED' and s.status = 'running' then 'The job was cancelled while it ran.'
                  when p_state = 'CANCELLED' then 'The job was cancelled before it.'
                  when v_blame is not null then format('%s failed, and the job requires it.', v_blame)
                  when s.status = 'pending' then 'The job failed before it.' end,
    finished_at = holdfast.now()
  where s.task_id = p_job and s.finished_at is null;
  perform holdfast.keep_files(p_job), holdfast.delete_later(p_job, 'pipelines/' || p_job, interval '30 days')
  from holdfast.pipeline_job j where j.task_id = p_job;
end $$;

-- A retry begins with the first stage that is not as it should be: before it everything is inherited, within it the steps
-- that were done. Named by the caller (from_step), it is where the engine has cut. If files of the job before are gone by
-- now, nothing is inherited.
create or replace function holdfast.inherit_stages(p_job uuid, p_from text) returns void
language plpgsql
as $$
declare
  v_old uuid := (select i.retry_of from holdfast.input i where i.id = p_job);
  v_first int;
  v_until int;
begin
  if exists (select from holdfast.cleanup c where c.task_id = v_old and c.kept_until <= holdfast.now()) then
    delete from holdfast.step s where s.task_id = p_job;
    return;
  end if;
  if p_from is null then
    select min(s.number) into v_first from holdfast.pipeline_stage s
    where s.task_id = v_old and s.status <> 'completed' and (s.status <> 'skipped' or s.declared ->> 'when' is null);
    v_until := (select min(e.number) from holdfast.pipeline_stage o join holdfast.step_event e
                  on e.task_id = v_old and e.step = o.name
                where o.task_id = v_old and o.number > v_first);
    delete from holdfast.step s where s.task_id = p_job and (
      s.name in (select o.name from holdfast.pipeline_stage o where o.task_id = v_old and o.number >= v_first)
      or v_until < (select max(e.number) from holdfast.step_event e
                    where e.task_id = v_old and e.step = s.name and e.kind in ('step_completed', 'step_inherited')));
  end if;
  -- What is a stage by now and was none, or comes after one that has not run, is done again: a release has come between.
  delete from holdfast.step t using holdfast.pipeline_stage s
  where t.task_id = p_job and s.task_id = p_job and s.name = t.name and (
    not exists (select from holdfast.pipeline_stage o where o.task_id = v_old and o.name = t.name)
    or exists (select from holdfast.pipeline_stage e
               left join holdfast.step d on d.task_id = p_job and d.name = e.name and d.done
               where e.task_id = p_job and e.number < s.number and d.name is null));
  perform holdfast.finish_stage(p_job, t.name, t.result, t.attempt, t.at)
  from holdfast.step t join holdfast.pipeline_stage s on s.task_id = p_job and s.name = t.name
  where t.task_id = p_job and t.done;
  perform holdfast.keep_files(p_job);
end $$;

-- The files of the jobs that this one is a retry of are kept for as long as its own.
create or replace function holdfast.keep_files(p_job uuid) returns void
language sql
as $$
  with recursive line(id) as (
    select i.retry_of from holdfast.input i where i.id = p_job and i.retry_of is not null
    union
    select i.retry_of from line l join holdfast.input i on i.id = l.id where i.retry_of is not null
  )
  update holdfast.cleanup c set kept_until = holdfast.now() + interval '30 days', due_at = holdfast.now() + interval '30 days'
  where c.done_at is null and c.kept_until > holdfast.now() and c.task_id = any (array(select l.id from line l))
$$;
