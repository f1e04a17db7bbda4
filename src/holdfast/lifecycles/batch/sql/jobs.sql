-- jobs.sql: the jobs of a batch, what their handlers ask and report while they hold the batch or the task that stops it, and
-- what no row of a job does, however it is written. Each report proves the lease of its holder, whose row is locked first; then
-- the jobs, in their order.

-- A job that has ended stays as it is, none moves but in these ways, and a provider's name for it stays. Called by a trigger of
-- migration 0001, as is keep_jobs.
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

-- The batch of this task, which is itself or what it stops, with the jobs that have not ended or may be running; null if there is
-- none.
create or replace function holdfast.load_batch(p_holder uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'task_id', b.task_id, 'task_type', b.task_type, 'models', b.models, 'again_of', b.again_of,
      'planned', b.planned_at is not null, 'over_at', (select d.finished_at from holdfast.task_done d where d.id = b.task_id),
      'now', holdfast.now(), 'jobs', coalesce((
        select jsonb_agg(to_jsonb(j) - 'result' order by j.number) from holdfast.batch_job j
        where j.task_id = b.task_id and (j.finished_at is null or j.running)), '[]'))
  from holdfast.batch b
  where b.task_id = coalesce((select s.batch_id from holdfast.batch_stop s where s.task_id = p_holder), p_holder)
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

-- Whether this lease is current, and is that of the batch or of the task that stops it: ok, cancel (it is to stop) or lost.
create or replace function holdfast.holds_batch(p_holder uuid, p_attempt int, p_token uuid, p_task uuid) returns text
language plpgsql
as $$
declare
  v_cancel bool := (holdfast.lock_held(p_holder, p_attempt, p_token)).cancel_requested;
begin
  if v_cancel is null or not (p_holder = p_task
       or exists (select from holdfast.batch_stop s where s.task_id = p_holder and s.batch_id = p_task)) then
    perform holdfast.add_to_tally('lost', 1);
    return 'lost';
  end if;
  return case when v_cancel then 'cancel' else 'ok' end;
end $$;

-- The jobs of a batch, once and for all: ([{account, model, inputs, source, filename, inputs_key}]), and the inputs that no job takes
-- ([{input, reason}]). A second plan changes nothing.
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

-- What happened to jobs, one event after the other, all or nothing. Each is {job, verb, ...}:
--   intend                        about to be submitted; committed before the provider is asked
--   accept {external_id}          the provider has it
--   absent                        the provider has none of this token: it may be submitted again, three times in all
--   missed {seconds}              the provider does not list it, which may be too early to count
--   wait {seconds, error, refused}    asked to come back later; if refused, what was about to be submitted certainly was not
--   stumble {failures, error, seconds}    did not work, or that is unknown, after so many in a row before. The third in a row fails
--                                 what was SUBMITTED. Whether an INTENDED one was begun is looked for on and on; after a
--                                 day a person must look. Results (ENDED) are tried until the batch is over
--   remember {memo}
--   poll {status, done, seconds}  it runs
--   end {status, outcome, error, category, memo, has_results}
--   finish {ok, result, output_key, usage}    its results are kept
--   fail {error, category, running}
--   park {error}                  a person must look
--   cancel {seconds}              the provider was asked to stop it
--   stop {error, running, usage}  from the task that stops it: it does not run any more, and has cost so much; or it cannot be stopped
-- Returns how each job stands then; `cancel` if the holder is to stop, in which case nothing is intended.
create or replace function holdfast.report_jobs(
  p_holder uuid, p_attempt int, p_token uuid, p_task uuid, p_events jsonb)
returns table (status text, job jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_status text := holdfast.holds_batch(p_holder, p_attempt, p_token, p_task);
  v_event jsonb;
  v_job holdfast.batch_job;
begin
  if v_status = 'lost' then
    return query select v_status, null::jsonb;
    return;
  end if;
  perform holdfast.check_long(p_events);
  for v_event in select e.one from jsonb_array_elements(p_events) with ordinality e(one, place)
                 order by (e.one ->> 'job')::int, e.place loop
    if v_status = 'cancel' and v_event ->> 'verb' = 'intend' then
      continue;
    end if;
    select * into v_job from holdfast.batch_job j
    where j.task_id = p_task and j.number = (v_event ->> 'job')::int for update;
    v_job := holdfast.apply_job_event(v_job, v_event, p_holder, p_attempt);
    return query select v_status, to_jsonb(v_job) - 'result';
  end loop;
  if not found or v_status = 'cancel' then
    return query select v_status, null::jsonb;
  end if;
  if jsonb_path_exists(p_events, '$[*] ? (@.verb == "accept" || @.verb == "poll" || @.verb == "end")') then
    update holdfast.batch_provider p set answered_at = holdfast.now()  -- once a minute, unless another is noting it
    where (p.task_type, p.provider) in (
      select o.task_type, o.provider from holdfast.batch b
      join holdfast.batch_provider o on o.task_type = b.task_type and o.provider = b.provider
      where b.task_id = p_task and (o.answered_at > holdfast.now() - interval '1 minute') is not true
      for update of o skip locked);
  end if;
end $$;

-- A job after an event. Raises TK002 for an event that the job's status does not allow.
create or replace function holdfast.apply_job_event(p_job holdfast.batch_job, p_event jsonb, p_holder uuid, p_attempt int)
returns holdfast.batch_job
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_verb text := p_event ->> 'verb';
  v_at_most constant int := 3;
  v_error text := left(p_event ->> 'error', 2000);
  v_job holdfast.batch_job := p_job;
begin
  if ((p_job.finished_at is null or v_verb in ('missed', 'stop')) and case
    when v_verb = 'intend' then p_job.status = 'PLANNED'
    when v_verb in ('accept', 'absent') then p_job.status = 'INTENDED'
    when v_verb in ('poll', 'end', 'cancel') then p_job.status = 'SUBMITTED'
    when v_verb = 'finish' then p_job.status = 'ENDED'
    when v_verb = 'missed' then p_job.running and p_job.external_id is null
    when v_verb = 'stop' then p_job.running
    when v_verb = 'stumble' then p_job.transient_failures = (p_event ->> 'failures')::int  -- reported twice, it counts once
    else v_verb in ('wait', 'remember', 'fail', 'park') end) is not true then
    perform holdfast.refuse('TK002', format('Job %s is %s: %s is not possible.', p_event ->> 'job',
      coalesce(p_job.status, 'not there'), v_verb), 'Read it again: another attempt may have brought it on.');
  end if;
  if v_verb in ('accept', 'absent', 'missed', 'wait', 'stumble', 'poll', 'end', 'cancel') then
    v_job.due_at := v_now + make_interval(secs => coalesce((p_event ->> 'seconds')::float8, 0));
  end if;
  if v_verb in ('accept', 'absent', 'poll', 'end', 'finish') then
    v_job.transient_failures := 0;
  end if;
  if v_verb in ('accept', 'poll', 'end') then  -- the provider has answered
    v_job.waiting_since := null;
    v_job.error := null;
    v_job.category := null;
  end if;
  if v_verb in ('poll', 'end') then
    v_job.provider_status := left(p_event ->> 'status', 200);
    v_job.polled_at := v_now;
  end if;
  case v_verb
    when 'intend' then
      v_job.status := 'INTENDED';
      v_job.running := true;
      v_job.tries := p_job.tries + 1;
      v_job.tried_at := v_now;
      v_job.intended_at := coalesce(p_job.intended_at, v_now);
      v_job.missed_at := null;
    when 'accept' then
      v_job.status := 'SUBMITTED';
      v_job.external_id := p_event ->> 'external_id';
      v_job.submitted_at := v_now;
    when 'absent' then
      v_job.status := case when p_job.tries < v_at_most then 'PLANNED' else 'FAILED' end;
      v_job.running := false;
    when 'missed' then
      v_job.missed_at := coalesce(p_job.missed_at, v_now);
    when 'wait' then
      v_job.error := v_error;
      v_job.waiting_since := coalesce(p_job.waiting_since, v_now);
      if p_job.status <> 'INTENDED' then
        v_job.category := 'RateLimited';
      elsif (p_event ->> 'refused')::bool then
        v_job.category := 'RateLimited';
        v_job.status := 'PLANNED';
        v_job.running := false;
        v_job.tries := p_job.tries - 1;
      end if;
    when 'stumble' then
      v_job.transient_failures := p_job.transient_failures + 1;
      v_job.error := v_error;
      v_job.category := 'Transient';
      if p_job.status = 'SUBMITTED' and v_job.transient_failures >= v_at_most then
        v_job.status := 'FAILED';
      elsif p_job.status = 'INTENDED' and v_now - p_job.tried_at > interval '1 day' then
        v_job.status := 'PARKED';
        perform holdfast.ask_operator(p_job, format('It is unknown whether job %s was begun. %s', p_job.number, v_error));
      end if;
    when 'remember' then
      v_job.memo := p_event -> 'memo';
    when 'poll' then
      v_job.done := coalesce((p_event ->> 'done')::int, p_job.done);
    when 'end' then
      v_job.status := 'ENDED';
      v_job.running := false;
      v_job.outcome := p_event ->> 'outcome';
      v_job.has_results := (p_event ->> 'has_results')::bool;
      v_job.ended_at := v_now;
      v_job.error := v_error;
      v_job.category := p_event ->> 'category';
      v_job.memo := coalesce(nullif(p_event -> 'memo', 'null'), p_job.memo);
    when 'finish' then
      v_job.ok := (p_event ->> 'ok')::int;
      if v_job.ok is null or v_job.ok not between 0 and p_job.inputs then
        perform holdfast.refuse('TK010', format('Job %s has %s inputs.', p_job.number, p_job.inputs), 'Report how many are ok.');
      end if;
      v_job.status := case when v_job.ok = p_job.inputs then 'COMPLETED' when v_job.ok > 0 then 'PARTIAL_COMPLETE'
                           when p_job.outcome = 'cancelled' then 'CANCELLED' else 'FAILED' end;
      v_job.done := p_job.inputs;
      v_job.result := p_event -> 'result';
      v_job.output_key := p_event ->> 'output_key';
      v_job.error := coalesce(v_error, case when v_job.status <> 'COMPLETED' then p_job.error end);
      v_job.category := coalesce(p_event ->> 'category', case when v_job.status <> 'COMPLETED' then p_job.category end);
      v_job.cost_micros := holdfast.charge_job(p_job, p_event -> 'usage', p_holder, p_attempt);
    when 'fail' then
      v_job.status := 'FAILED';
      v_job.error := v_error;
      v_job.category := p_event ->> 'category';
      v_job.running := p_job.running and coalesce((p_event ->> 'running')::bool, true);
    when 'park' then
      v_job.status := 'PARKED';
      v_job.error := v_error;
      v_job.category := 'Fatal';
      v_job.due_at := null;
      perform holdfast.ask_operator(p_job, format('Job %s waits for a person. %s', p_job.number, v_error));
    when 'cancel' then
      v_job.cancelled_at := coalesce(p_job.cancelled_at, v_now);
    when 'stop' then
      v_job.running := (p_event ->> 'running')::bool;  -- true: it cannot be stopped, and is not waited for any more
      v_job.error := coalesce(v_error, p_job.error);
      if p_job.finished_at is null then
        v_job.status := case when v_job.running then 'FAILED' else 'CANCELLED' end;
      end if;
      if v_job.running then
        v_job.external_id := coalesce(p_job.external_id, p_event ->> 'external_id');
      else
        v_job.cost_micros := holdfast.charge_job(p_job, p_event -> 'usage', p_holder, p_attempt);
      end if;
  end case;
  if v_job.status in ('COMPLETED', 'PARTIAL_COMPLETE', 'FAILED', 'CANCELLED') then
    v_job.finished_at := coalesce(p_job.finished_at, v_now);
  end if;
  update holdfast.batch_job j set  -- all columns, in the order of the table
    (task_id, number, token, account, model, inputs, source, filename, inputs_key, status, running, external_id, memo,
     provider_status, outcome, has_results, due_at, tries, transient_failures, waiting_since, intended_at, tried_at, missed_at,
     submitted_at, polled_at, cancelled_at, ended_at, finished_at, done, ok, result, output_key, cost_micros, error, category)
    = row(v_job.*)
  where j.task_id = p_job.task_id and j.number = p_job.number;
  return v_job;
end $$;

-- The cost of a job, kept once: in the transaction that keeps its results, or that it was stopped. It stands in the log of the
-- holder, the batch or its stop.
create or replace function holdfast.charge_job(p_job holdfast.batch_job, p_usage jsonb, p_holder uuid, p_attempt int)
returns numeric
language plpgsql
as $$
declare
  v_number int;
begin
  if coalesce(jsonb_array_length(p_usage), 0) = 0 then
    return p_job.cost_micros;
  end if;
  v_number := holdfast.add_step_event(p_holder, format('job %s', p_job.number), 'usage', p_attempt, p_usage);
  perform holdfast.keep_usage(array[p_holder]);
  return (select coalesce(sum(u.cost_micros), 0) from holdfast.usage u where u.task_id = p_holder and u.number = v_number);
end $$;

-- A person must look at a job, while the others go on.
create or replace function holdfast.ask_operator(p_job holdfast.batch_job, p_message text) returns void
language sql
as $$
  select holdfast.add_to_inbox(t.id, jsonb_build_object('kind', 'job_parked', 'code', 'job-parked', 'step', s.step, 'message',
    format('%s Look at the provider, then say what it is: holdfast batch resolve %s %s', p_message, t.id, p_job.number)))
  from holdfast.task t cross join format('job %s', p_job.number) s(step)
  where t.id = p_job.task_id and not exists (
    select from holdfast.inbox n where n.task_id = t.id and n.resolved_at is null and n.step = s.step)
$$;

-- Where the merged results and the manifest are.
create or replace function holdfast.keep_merged(
  p_holder uuid, p_attempt int, p_token uuid, p_result_key text, p_manifest_key text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s'
as $$
declare
  v_status text := holdfast.holds_batch(p_holder, p_attempt, p_token, p_holder);
begin
  update holdfast.batch b set result_key = p_result_key, manifest_key = p_manifest_key
  where b.task_id = p_holder and v_status <> 'lost';
  return v_status;
end $$;

-- All jobs of a batch as they ended, the state that they make of it, and the inputs that no job took; null if there is no such batch.
create or replace function holdfast.ended_jobs(p_task uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select jsonb_build_object('verdict', holdfast.batch_verdict(p_task), 'invalid', b.invalid, 'jobs', coalesce((
    select jsonb_agg(to_jsonb(j) - 'result' order by j.number) from holdfast.batch_job j where j.task_id = b.task_id), '[]'))
  from holdfast.batch b where b.task_id = p_task
$$;
