-- jobs.sql: what a worker asks and tells while it holds a batch, or the task that stops one.
-- Whoever writes shows the lease of the task that it holds; the row of that task is locked first, then the jobs in their order.

-- Batches as a worker needs to know them, each with the jobs that have not ended.
create or replace function holdfast.open_batches(p_tasks uuid[])
returns table (task_id uuid, batch jsonb, jobs jsonb, now timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select b.task_id, jsonb_build_object(
      'task_type', b.task_type, 'models', b.models, 'again_of', b.again_of, 'planned', b.planned_at is not null,
      'over_at', (select d.finished_at from holdfast.task_done d where d.id = b.task_id)),
    coalesce(j.jobs, '[]'), holdfast.now()
  from holdfast.batch b
  left join lateral (
    select jsonb_agg(to_jsonb(j) - 'result' order by j.number) as jobs from holdfast.batch_job j
    where j.task_id = b.task_id and (j.finished_at is null or j.running)) j on true
  where b.task_id = any (p_tasks)
$$;

-- All that is to be done in a batch: what was named, and the files of its datasets, in this order.
create or replace function holdfast.batch_sources(p_task uuid) returns table (uri text, name text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select s.uri, s.name from (
    select 0 as part, u.place as number, u.uri, u.uri as name from holdfast.batch b
    cross join lateral jsonb_array_elements_text(b.urls) with ordinality u(uri, place) where b.task_id = p_task
    union all
    select d.place, f.number, f.uri, f.name from holdfast.batch b
    cross join lateral jsonb_array_elements(b.datasets) with ordinality d(one, place)
    join holdfast.dataset_file f on f.dataset_id = (d.one ->> 'id')::uuid and f.version = (d.one ->> 'version')::int
    where b.task_id = p_task) s
  order by s.part, s.number
$$;

-- The batch that this task stops; null if it stops none.
create or replace function holdfast.stopped_batch(p_stop uuid) returns uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select s.batch_id from holdfast.batch_stop s where s.task_id = p_stop $$;

-- Whether this lease is current, and is that of the batch or of who stops it: ok, cancel (somebody wants it to stop) or lost.
create or replace function holdfast.holds_batch(p_holder uuid, p_attempt int, p_token uuid, p_task uuid) returns text
language plpgsql
as $$
declare
  v_cancel bool;
begin
  select t.cancel_requested into v_cancel from holdfast.task t
  where t.id = p_holder and t.attempt = p_attempt and t.lease_token = p_token for no key update;
  if v_cancel is null or not (p_holder = p_task
       or exists (select from holdfast.batch_stop s where s.task_id = p_holder and s.batch_id = p_task)) then
    perform holdfast.add_to_tally('lost', 1);
    return 'lost';
  end if;
  return case when v_cancel then 'cancel' else 'ok' end;
end $$;

-- The jobs of a batch, once and for all: ([{account, model, inputs, source, filename, inputs_key}]), and the inputs that no job takes
-- ([{input, reason}]). Whoever plans again finds what was planned first.
create or replace function holdfast.plan_batch(
  p_holder uuid, p_attempt int, p_token uuid, p_jobs jsonb, p_invalid jsonb, p_inputs int) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_status text := holdfast.holds_batch(p_holder, p_attempt, p_token, p_holder);
begin
  if v_status = 'lost' then
    return v_status;
  end if;
  perform holdfast.check_long(p_jobs, p_invalid);
  update holdfast.batch b set planned_at = holdfast.now(), inputs = p_inputs, invalid = p_invalid
  where b.task_id = p_holder and b.planned_at is null;
  if found then
    insert into holdfast.batch_job (task_id, number, token, account, model, inputs, source, filename, inputs_key, due_at)
    select p_holder, j.number, format('hf-%s-%s', replace(p_holder::text, '-', ''), j.number), j.one ->> 'account',
           j.one ->> 'model', (j.one ->> 'inputs')::int, j.one ->> 'source', j.one ->> 'filename', j.one ->> 'inputs_key', holdfast.now()
    from jsonb_array_elements(p_jobs) with ordinality j(one, number);
  end if;
  return v_status;
end $$;

-- Values that may be longer than a result of a task: several megabytes.
create or replace function holdfast.check_long(variadic p_values jsonb[]) returns void
language plpgsql immutable
as $$
begin
  if exists (select from unnest(p_values) v where octet_length(v::text) > 64 * 1024 * 1024) then
    perform holdfast.refuse('TK010', 'This is more than can be kept of a batch.', 'Split it.');
  end if;
end $$;

-- What happened to jobs, one after the other, all or nothing. Each is {job, verb, ...}:
--   intend                        about to be submitted; committed before the provider is asked
--   accept {external_id}          the provider has it
--   absent                        the provider has none of this token: it may be submitted again, three times in all
--   missed {seconds}              the provider does not show it, which may be too early to count
--   wait {seconds, error, refused}    told to come back later; if refused, what was about to be submitted certainly was not
--   stumble {failures, error, seconds}    did not work, or nobody knows, after so many in a row before. The third in a row fails
--                                 what was SUBMITTED. Whether an INTENDED one was begun is looked for on and on; after a
--                                 day a person must look. Results (ENDED) are tried until the batch is over
--   remember {memo}
--   poll {status, done, seconds}  it runs
--   end {status, outcome, error, category, memo, has_results}
--   finish {ok, result, output_key, usage}    what it gave is kept
--   fail {error, category, running}
--   park {error}                  a person must look
--   cancel {seconds}              the provider was asked to stop it
--   stop {error, running, usage}  whoever stops it: it does not run any more, and has cost so much; or it cannot be stopped
-- Answers how each job stands then; `cancel` if somebody wants the holder to stop, in which case nothing is intended.
create or replace function holdfast.tell_jobs(
  p_holder uuid, p_attempt int, p_token uuid, p_task uuid, p_told jsonb)
returns table (status text, job jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_status text := holdfast.holds_batch(p_holder, p_attempt, p_token, p_task);
  v_told jsonb;
  v_job holdfast.batch_job;
begin
  if v_status = 'lost' then
    return query select v_status, null::jsonb;
    return;
  end if;
  perform holdfast.check_long(p_told);
  for v_told in select t.one from jsonb_array_elements(p_told) with ordinality t(one, place)
                order by (t.one ->> 'job')::int, t.place loop
    select * into v_job from holdfast.batch_job j
    where j.task_id = p_task and j.number = (v_told ->> 'job')::int for update;
    if v_status = 'cancel' and v_told ->> 'verb' = 'intend' then
      continue;
    end if;
    perform holdfast.tell_job(v_job, v_told, p_holder, p_attempt);
    return query select v_status, to_jsonb(j) - 'result' from holdfast.batch_job j
    where j.task_id = p_task and j.number = v_job.number;
  end loop;
  if not found or v_status = 'cancel' then
    return query select v_status, null::jsonb;
  end if;
  if jsonb_path_exists(p_told, '$[*] ? (@.verb == "accept" || @.verb == "poll" || @.verb == "end")') then
    perform holdfast.note_answer(p_task);
  end if;
end $$;

-- The provider of a batch has answered; that is written down once a minute, by who need not wait for it.
create or replace function holdfast.note_answer(p_task uuid) returns void
language sql
as $$
  update holdfast.batch_provider p set answered_at = holdfast.now()
  where (p.task_type, p.provider) in (
    select o.task_type, o.provider from holdfast.batch b
    join holdfast.batch_provider o on o.task_type = b.task_type and o.provider = b.provider
    where b.task_id = p_task and (o.answered_at > holdfast.now() - interval '1 minute') is not true
    for update of o skip locked)
$$;

create or replace function holdfast.tell_job(p_job holdfast.batch_job, p_told jsonb, p_holder uuid, p_attempt int) returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_verb text := p_told ->> 'verb';
  v_due timestamptz := v_now + make_interval(secs => coalesce((p_told ->> 'seconds')::float8, 0));
  v_at_most constant int := 3;
  v_error text := left(p_told ->> 'error', 2000);
  v_ok int := (p_told ->> 'ok')::int;
  v_refused bool := coalesce((p_told ->> 'refused')::bool, false);
  v_to text;
  v_possible bool;
begin
  v_possible := (p_job.finished_at is null or v_verb in ('missed', 'stop')) and case v_verb
    when 'intend' then p_job.status = 'PLANNED'
    when 'accept' then p_job.status = 'INTENDED'
    when 'absent' then p_job.status = 'INTENDED'
    when 'missed' then p_job.running and p_job.external_id is null
    when 'poll' then p_job.status = 'SUBMITTED'
    when 'end' then p_job.status = 'SUBMITTED'
    when 'cancel' then p_job.status = 'SUBMITTED'
    when 'finish' then p_job.status = 'ENDED'
    when 'stop' then p_job.running
    when 'stumble' then p_job.transient_failures = (p_told ->> 'failures')::int  -- told twice, it counts once
    else v_verb in ('wait', 'remember', 'fail', 'park') end;
  if v_possible is not true then
    perform holdfast.refuse('TK002', format('Job %s is %s: %s is not possible.', p_told ->> 'job',
      coalesce(p_job.status, 'not there'), v_verb), 'Look at it again: somebody else may have brought it on.');
  end if;
  case v_verb
    when 'intend' then
      update holdfast.batch_job j set status = 'INTENDED', running = true, tries = j.tries + 1, tried_at = v_now,
        intended_at = coalesce(j.intended_at, v_now), missed_at = null
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'accept' then
      update holdfast.batch_job j set status = 'SUBMITTED', external_id = p_told ->> 'external_id', submitted_at = v_now,
        due_at = v_due, transient_failures = 0, waiting_since = null, error = null, category = null
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'absent' then
      v_to := case when p_job.tries < v_at_most then 'PLANNED' else 'FAILED' end;
      update holdfast.batch_job j set status = v_to, running = false, due_at = v_now, transient_failures = 0,
        finished_at = case when v_to = 'FAILED' then v_now end
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'missed' then
      update holdfast.batch_job j set missed_at = coalesce(j.missed_at, v_now), due_at = v_due
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'wait' then
      update holdfast.batch_job j set due_at = v_due, error = v_error, category = case when j.status = 'INTENDED' and not v_refused then j.category else 'RateLimited' end,
        waiting_since = coalesce(j.waiting_since, v_now),
        status = case when j.status = 'INTENDED' and v_refused then 'PLANNED' else j.status end,
        running = j.running and not (j.status = 'INTENDED' and v_refused),
        tries = j.tries - (j.status = 'INTENDED' and v_refused)::int
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'stumble' then
      v_to := case when p_job.status = 'SUBMITTED' and p_job.transient_failures + 1 >= v_at_most then 'FAILED'
                   when p_job.status = 'INTENDED' and v_now - p_job.tried_at > interval '1 day' then 'PARKED'
                   else p_job.status end;
      update holdfast.batch_job j set status = v_to, transient_failures = j.transient_failures + 1, due_at = v_due,
        error = v_error, category = 'Transient', finished_at = case when v_to = 'FAILED' then v_now end
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
      if v_to = 'PARKED' then
        perform holdfast.ask_operator(p_job, format('Nobody knows whether job %s was begun. %s', p_job.number, v_error));
      end if;
    when 'remember' then
      update holdfast.batch_job j set memo = p_told -> 'memo' where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'poll' then
      update holdfast.batch_job j set provider_status = left(p_told ->> 'status', 200), polled_at = v_now, due_at = v_due,
        done = coalesce((p_told ->> 'done')::int, j.done), transient_failures = 0, waiting_since = null, error = null, category = null
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'end' then
      update holdfast.batch_job j set status = 'ENDED', running = false, provider_status = left(p_told ->> 'status', 200),
        outcome = p_told ->> 'outcome', has_results = (p_told ->> 'has_results')::bool, polled_at = v_now, ended_at = v_now,
        due_at = v_now, transient_failures = 0, waiting_since = null, error = v_error, category = p_told ->> 'category',
        memo = case when jsonb_typeof(p_told -> 'memo') <> 'null' then p_told -> 'memo' else j.memo end
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'finish' then
      if v_ok is null or v_ok not between 0 and p_job.inputs then
        perform holdfast.refuse('TK010', format('Job %s has %s inputs.', p_job.number, p_job.inputs), 'Say how many of them are ok.');
      end if;
      v_to := case when v_ok = p_job.inputs then 'COMPLETED' when v_ok > 0 then 'PARTIAL_COMPLETE'
                   when p_job.outcome = 'cancelled' then 'CANCELLED' else 'FAILED' end;
      update holdfast.batch_job j set status = v_to, ok = v_ok, done = j.inputs, result = p_told -> 'result',
        output_key = p_told ->> 'output_key', finished_at = v_now, transient_failures = 0,
        error = coalesce(v_error, case when v_to <> 'COMPLETED' then j.error end),
        category = coalesce(p_told ->> 'category', case when v_to <> 'COMPLETED' then j.category end)
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
      perform holdfast.charge_job(p_job, p_told -> 'usage', p_holder, p_attempt);
    when 'fail' then
      update holdfast.batch_job j set status = 'FAILED', finished_at = v_now, error = v_error, category = p_told ->> 'category',
        running = j.running and coalesce((p_told ->> 'running')::bool, j.running)
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'park' then
      update holdfast.batch_job j set status = 'PARKED', error = v_error, category = 'Fatal', due_at = null
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
      perform holdfast.ask_operator(p_job, format('Job %s waits for a person. %s', p_job.number, v_error));
    when 'cancel' then
      update holdfast.batch_job j set cancelled_at = coalesce(j.cancelled_at, v_now), due_at = v_due
      where (j.task_id, j.number) = (p_job.task_id, p_job.number);
    when 'stop' then
      update holdfast.batch_job j set running = (p_told ->> 'running')::bool, error = coalesce(v_error, j.error),
        status = case when j.finished_at is null then 'CANCELLED' else j.status end, finished_at = coalesce(j.finished_at, v_now)
      where (j.task_id, j.number) = (p_job.task_id, p_job.number) and not (p_told ->> 'running')::bool;
      if found then
        perform holdfast.charge_job(p_job, p_told -> 'usage', p_holder, p_attempt);
      else  -- nobody can stop it, and nobody waits for it any more
        update holdfast.batch_job j set error = coalesce(v_error, j.error), finished_at = coalesce(j.finished_at, v_now),
          external_id = coalesce(j.external_id, p_told ->> 'external_id'),
          status = case when j.finished_at is null then 'FAILED' else j.status end
        where (j.task_id, j.number) = (p_job.task_id, p_job.number);
      end if;
  end case;
end $$;

-- What a job has cost, once: in the transaction that keeps what it gave, or that it was stopped. It is told in the log of
-- who did that, the batch or its stop.
create or replace function holdfast.charge_job(p_job holdfast.batch_job, p_usage jsonb, p_holder uuid, p_attempt int)
returns void
language plpgsql
as $$
declare
  v_number int;
begin
  if coalesce(jsonb_array_length(p_usage), 0) = 0 then
    return;
  end if;
  v_number := holdfast.last_step_event(p_holder) + 1;
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  values (p_holder, v_number, format('job %s', p_job.number), 'usage', p_attempt, p_usage);
  perform holdfast.keep_usage(array[p_holder]);
  update holdfast.batch_job j set cost_micros = (
    select coalesce(sum(u.cost_micros), 0) from holdfast.usage u where u.task_id = p_holder and u.number = v_number)
  where (j.task_id, j.number) = (p_job.task_id, p_job.number);
end $$;

-- A person must look at a job, while the others go on.
create or replace function holdfast.ask_operator(p_job holdfast.batch_job, p_message text) returns void
language sql
as $$
  insert into holdfast.inbox (task_id, lifecycle, name, owner, state, step, category, signature, error)
  select t.id, l.name, t.name, t.owner, t.state, e.error ->> 'step', 'Fatal', holdfast.signature(l.name, t.name, e.error), e.error
  from holdfast.task t join holdfast.lifecycle l on l.id = t.lifecycle,
    jsonb_build_object('kind', 'job_parked', 'code', 'job-parked', 'step', format('job %s', p_job.number), 'message',
      format('%s Look at the provider, then say what it is: holdfast batch resolve %s %s', p_message, t.id, p_job.number)) e(error)
  where t.id = p_job.task_id and not exists (
    select from holdfast.inbox n where n.task_id = t.id and n.resolved_at is null and n.step = e.error ->> 'step')
$$;

-- What the jobs gave lies there, put together.
create or replace function holdfast.keep_merged(
  p_holder uuid, p_attempt int, p_token uuid, p_result_key text, p_manifest_key text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s'
as $$
declare
  v_status text := holdfast.holds_batch(p_holder, p_attempt, p_token, p_holder);
begin
  if v_status <> 'lost' then
    update holdfast.batch b set result_key = p_result_key, manifest_key = p_manifest_key where b.task_id = p_holder;
  end if;
  return v_status;
end $$;

-- All jobs of a batch as they ended, and the verdict: for whoever puts together what they gave.
create or replace function holdfast.ended_jobs(p_task uuid) returns table (job jsonb, verdict text, invalid jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select to_jsonb(j) - 'result', v.verdict, b.invalid
  from holdfast.batch b
  cross join lateral (select holdfast.batch_verdict(p_task) as verdict) v
  left join holdfast.batch_job j on j.task_id = b.task_id
  where b.task_id = p_task order by j.number
$$;

grant execute on function holdfast.open_batches(uuid[]), holdfast.batch_sources(uuid),
  holdfast.plan_batch(uuid, int, uuid, jsonb, jsonb, int), holdfast.tell_jobs(uuid, int, uuid, uuid, jsonb),
  holdfast.keep_merged(uuid, int, uuid, text, text), holdfast.ended_jobs(uuid), holdfast.stopped_batch(uuid) to holdfast_app;
