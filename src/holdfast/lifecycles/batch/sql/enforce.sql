-- enforce.sql: what no row of a job does, by whomever it is written. Called by the triggers of migration 0001.

-- A job that has ended stays as it is, none goes a way that is not one of these, and what a provider calls it stays its name.
create or replace function holdfast.refuse_job_move() returns trigger
language plpgsql
as $$
begin
  if old.status <> new.status and not (old.status || ' ' || new.status) = any (array[
    'PLANNED INTENDED', 'PLANNED FAILED', 'PLANNED CANCELLED',
    'INTENDED PLANNED', 'INTENDED SUBMITTED', 'INTENDED PARKED', 'INTENDED FAILED', 'INTENDED CANCELLED',
    'PARKED INTENDED', 'PARKED PLANNED', 'PARKED SUBMITTED', 'PARKED ENDED', 'PARKED FAILED', 'PARKED CANCELLED',
    'SUBMITTED ENDED', 'SUBMITTED PARKED', 'SUBMITTED FAILED', 'SUBMITTED CANCELLED',
    'ENDED COMPLETED', 'ENDED PARTIAL_COMPLETE', 'ENDED FAILED', 'ENDED CANCELLED', 'ENDED PARKED'])
    or (old.external_id is not null and new.external_id is distinct from old.external_id)
    or old.token <> new.token then
    raise exception 'Job % of batch % is %, and does not become % like that.', old.number, old.task_id, old.status, new.status
      using errcode = 'TK002', hint = 'Jobs are moved by the functions of the schema holdfast.';
  end if;
  return new;
end $$;

-- A batch in progress has jobs, at the latest when the transaction ends.
create or replace function holdfast.keep_jobs() returns trigger
language plpgsql
as $$
begin
  if exists (select from holdfast.task t where t.id = old.task_id and t.state = 'IN_PROGRESS')
     and not exists (select from holdfast.batch_job j where j.task_id = old.task_id) then
    raise exception 'Batch % is in progress and would be left without a job.', old.task_id
      using errcode = 'TK002', hint = 'Cancel the batch first.';
  end if;
  return null;
end $$;
