-- batches.sql: what applications offer, what users ask of batches, and what a person decides about a job.

-- A kind of task at a provider, as workers offer it at each start. The budget of its account is made, unless it is there: what
-- an operator has set stays.
create or replace function holdfast.offer_batches(p_type text, p_provider text, p_name text, p_queue text, p_offer jsonb)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_rate numeric := (p_offer ->> 'requests_per_minute')::numeric;
  v_budget text := left(format('%s %s', p_provider, p_offer ->> 'account'), 200);  -- what all requests to an account share
begin
  perform holdfast.check_value(p_offer);
  if p_type is null or p_provider is null or p_name is null or jsonb_typeof(p_offer) is distinct from 'object' then
    perform holdfast.refuse('TK010', 'An offer has a kind of task, a provider, a name, and what it is.', 'Give all of them.');
  end if;
  insert into holdfast.batch_provider as p (task_type, provider, name, queue, offer)
  values (p_type, p_provider, p_name, p_queue, p_offer)
  on conflict (task_type, provider) do update set
    name = excluded.name, queue = excluded.queue, offer = excluded.offer, declared_at = holdfast.now()
  where (p.name, p.queue, p.offer) is distinct from (excluded.name, excluded.queue, excluded.offer);
  if v_rate > 0 and not exists (select from holdfast.budget b where b.name = v_budget) then
    perform holdfast.set_budget(v_budget, v_rate, interval '1 minute' / v_rate::float8);
  end if;
end $$;

-- What there is, where it is set up, whether a worker is there, and how its open jobs fare: `failing` are those whose last
-- call failed, `waiting` those that are to come back later.
create or replace function holdfast.batch_providers() returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object('task_type', p.task_type, 'provider', p.provider, 'name', p.name) || (p.offer - 'name')
    || jsonb_build_object(
      'ready', exists (select from holdfast.worker w where p.name = any (w.names) and holdfast.is_live(w)),
      'configured', p.offer ->> 'missing' is null,
      'healthy', case when j.failing + j.parked > 0 then false when p.answered_at is not null then true end,
      'open_jobs', j.open, 'failing', j.failing, 'waiting', j.waiting, 'parked', j.parked, 'answered_at', p.answered_at, 'error', j.error)
  from holdfast.batch_provider p
  cross join lateral (
    select count(*) as open, count(*) filter (where j.transient_failures > 0) as failing,
           count(*) filter (where j.category = 'RateLimited') as waiting, count(*) filter (where j.status = 'PARKED') as parked,
           max(j.error) filter (where j.transient_failures > 0 or j.status = 'PARKED') as error
    from holdfast.batch_job j join holdfast.batch b on b.task_id = j.task_id
    where j.status in ('PLANNED', 'INTENDED', 'PARKED', 'SUBMITTED', 'ENDED')
      and b.task_type = p.task_type and b.provider = p.provider) j
  order by p.task_type, p.provider
$$;

-- A batch. Raises TK010 for a kind of task or a provider that no worker offers or that is not set up, for datasets that are not
-- there, and if there is nothing to do. With `again_of`, what failed in that batch is all there is to do.
create or replace function holdfast.make_batch(
  p_type text, p_provider text, p_urls jsonb, p_datasets uuid[], p_models text[], p_owner text,
  p_key text default null, p_trace text default null, p_tags text[] default '{}', p_again_of uuid default null,
  out task uuid, out created bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  v_offer holdfast.batch_provider;
  v_urls jsonb := holdfast.check_strings(p_urls, 'urls');
  v_few bool := octet_length(v_urls::text) < 16000;
  v_payload jsonb;
begin
  select * into v_offer from holdfast.batch_provider p where p.task_type = p_type and upper(p.provider) = upper(p_provider);
  if not found then
    perform holdfast.refuse('TK010', format('No worker offers %s with %s.', p_type, p_provider), format('There are: %s.', coalesce(
      (select string_agg(format('%s with %s', p.task_type, p.provider), ', ' order by p.task_type, p.provider)
       from holdfast.batch_provider p), 'none; start a worker whose application calls hf.providers()')));
  elsif v_offer.offer ->> 'missing' is not null then
    perform holdfast.refuse('TK010', format('%s is not set up for %s: %s', v_offer.provider, p_type, v_offer.offer ->> 'missing'),
      'Set it up where the workers run, and start them again. holdfast batch providers lists what is there.');
  elsif v_urls = '[]' and coalesce(cardinality(p_datasets), 0) = 0 and p_again_of is null then
    perform holdfast.refuse('TK010', 'There is nothing to do.', 'Name urls or datasets.');
  end if;
  perform holdfast.check_addresses(array(select jsonb_array_elements_text(v_urls)), p_owner);
  v_payload := jsonb_strip_nulls(jsonb_build_object(
    'task_type', p_type, 'provider', v_offer.provider, 'dataset_ids', to_jsonb(coalesce(p_datasets, '{}')),
    'models', to_jsonb(coalesce(p_models, '{}')), 'again_of', p_again_of,
    'urls', case when v_few then v_urls else '[]' end,
    'urls_sha256', case when not v_few then encode(sha256(convert_to(v_urls::text, 'UTF8')), 'hex') end));
  select s.id, s.created into task, created from holdfast.submit_many(
    array['batch'], array[v_offer.name], array[v_payload], p_queue => array[v_offer.queue], p_owner => array[p_owner],
    p_key => array[p_key], p_time_limit => array[make_interval(secs => (v_offer.offer ->> 'limit_seconds')::float8)],
    p_tags => array[nullif(to_jsonb(p_tags), '[]')], p_trace => array[p_trace]) s;
  if created then
    update holdfast.batch b set urls = v_urls where b.task_id = task and not v_few;
    update holdfast.input i set retry_of = p_again_of where i.id = task and p_again_of is not null;
  end if;
end $$;

-- One job, as clients of its provider know it; of a batch with very many, without the results, which are in its file.
create or replace function holdfast.job_state(p_type text, p_provider text, p_job holdfast.batch_job, p_whole bool) returns jsonb
language sql stable
as $$
  select case when p_type = 'completion'
      then jsonb_build_object('output_uri', 'object:' || (p_job).output_key, 'model', (p_job).model)
      else jsonb_build_object('result', case when p_whole then (p_job).result end) end
    || case when p_type <> 'completion' and p_provider = 'AWS'
       then jsonb_build_object('gcs_uri', (p_job).source, 'filename', (p_job).filename)
       when p_type <> 'completion' and p_provider = 'GOOGLE' then jsonb_build_object('model', (p_job).model) else '{}' end
    || case when p_type = 'transcription' and p_provider = 'AZURE' then '{}'
       else jsonb_build_object('transient_failures', (p_job).transient_failures) end
    || jsonb_build_object('external_job_id', (p_job).external_id, 'error', (p_job).error, 'status', case (p_job).status
       when 'SUBMITTED' then coalesce((p_job).provider_status, 'SUBMITTED') when 'ENDED' then coalesce((p_job).provider_status, 'ENDED')
       else (p_job).status end)
$$;

-- Batches as users read them; if not whole, how many of their jobs are where instead of each. One that is not there, or
-- not this owner's, is left out.
create or replace function holdfast.read_batches(p_tasks uuid[], p_owner text default null, p_whole bool default true)
returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'task_id', t.id, 'task_type', b.task_type, 'provider', b.provider, 'status', t.state, 'owner', t.owner,
      'models', b.models, 'created_at', t.created_at, 'started_at', t.started_at, 'finished_at', t.finished_at,
      'error', case when t.finished_at is not null then coalesce(t.note ->> 'message', t.note ->> 'reason') end,
      'cancel_requested', t.cancel_requested,
      'retry_of', i.retry_of, 'next_poll_at', case when t.finished_at is null then t.due_at end,
      'result_uri', 'object:' || b.result_key, 'manifest', jsonb_build_object(
        'uri', 'object:' || b.manifest_key, 'inputs', b.inputs, 'ok', coalesce(j.ok, 0), 'failed', coalesce(j.failed, 0),
        'invalid', jsonb_array_length(b.invalid)),
      'cost_cents', coalesce(u.cost, 0) / 10000, 'stopped_by', (select s.task_id from holdfast.batch_stop s where s.batch_id = t.id),
      'job_counts', coalesce(j.counts, '{}'), 'jobs', coalesce(w.jobs, '[]'), 'provider_state', w.provider_state)
  from unnest(p_tasks) with ordinality k(id, place)
  cross join lateral holdfast.find_task(k.id) t
  join holdfast.batch b on b.task_id = t.id
  cross join lateral (select i.retry_of from holdfast.input i where i.id = t.id offset 0) i
  left join lateral (
    select sum(u.cost_micros) as cost from holdfast.usage u
    where u.task_id = any(array(select t.id union all select s.task_id from holdfast.batch_stop s where s.batch_id = t.id))) u on true
  left join lateral (
    select sum(c.ok) as ok, sum(c.failed) as failed, jsonb_object_agg(c.status, c.number) as counts from (
      select j.status, count(*) as number, sum(j.ok) as ok, sum(j.inputs - j.ok) filter (where j.finished_at is not null) as failed
      from holdfast.batch_job j where j.task_id = t.id group by j.status) c) j on true
  left join lateral (
    select (select p.provider_state from holdfast.batch_state p where p.task_id = t.id), jsonb_agg(jsonb_build_object(
             'number', j.number, 'model', j.model, 'account', j.account, 'status', j.status, 'provider_status', j.provider_status,
             'external_job_id', j.external_id, 'token', j.token, 'inputs', j.inputs, 'done', coalesce(j.done, 0), 'ok', j.ok,
             'may_be_running', j.running, 'tries', j.tries, 'transient_failures', j.transient_failures, 'due_at', j.due_at,
             'submitted_at', j.submitted_at, 'polled_at', j.polled_at, 'finished_at', j.finished_at, 'error', j.error,
             'category', j.category, 'cost_cents', j.cost_micros / 10000, 'source', j.source) order by j.number)
    as jobs from holdfast.batch_job j where j.task_id = t.id having p_whole) w on true
  where p_owner is null or t.owner = p_owner
  order by k.place
$$;

-- Where the files of a batch are, and until when they are kept.
create or replace function holdfast.batch_files(
  p_task uuid, out result_key text, out manifest_key text, out kept_until timestamptz, out now timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select b.result_key, b.manifest_key, (select max(c.kept_until) from holdfast.cleanup c where c.task_id = p_task), holdfast.now()
  from holdfast.batch b where b.task_id = p_task
$$;

-- What a person decides about a job that waits for one: go_on (try again what it was at), adopt (it is this one, at the provider),
-- resubmit (it was never begun) or give_up. The batch goes on at once.
create or replace function holdfast.resolve_job(
  p_task uuid, p_job int, p_action text, p_external_id text default null, p_by text default null, p_note text default null)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  v_task holdfast.task;
  v_job holdfast.batch_job;
  v_to text;
begin
  select * into v_task from holdfast.task t where t.id = p_task for update;
  select * into v_job from holdfast.batch_job j where j.task_id = p_task and j.number = p_job for update;
  if v_job.task_id is null then
    perform holdfast.refuse('TK010', format('Batch %s has no job %s.', p_task, p_job), 'holdfast batch show lists them.');
  elsif v_task.id is null or v_job.status <> 'PARKED' then
    perform holdfast.refuse('TK002', format('Job %s is %s%s: it waits for no decision.', p_job, v_job.status,
      case when v_task.id is null then ', and the batch is over' else '' end), 'Only jobs that are PARKED are resolved.');
  elsif (p_action = 'adopt') <> (p_external_id is not null) then
    perform holdfast.refuse('TK010', 'To adopt a job takes the id that the provider knows it by.', 'Give its external id, and no id otherwise.');
  elsif p_action = 'adopt' and exists (
    select from holdfast.batch_job j join holdfast.batch b on b.task_id = j.task_id
    where j.external_id = p_external_id and j.account = v_job.account
      and b.provider = (select o.provider from holdfast.batch o where o.task_id = p_task)) then
    perform holdfast.refuse('TK002', format('%s is another job already.', left(p_external_id, 100)), 'Look at the provider again.');
  elsif p_action in ('adopt', 'resubmit') and v_job.external_id is not null then
    perform holdfast.refuse('TK002', format('Job %s is known to the provider as %s.', p_job, v_job.external_id), 'Let it go on, or give up.');
  end if;
  v_to := case p_action when 'adopt' then 'SUBMITTED' when 'resubmit' then 'PLANNED' when 'give_up' then 'FAILED'
    when 'go_on' then case when v_job.ended_at is not null then 'ENDED' when v_job.external_id is not null then 'SUBMITTED' else 'INTENDED' end end;
  if v_to is null then
    perform holdfast.refuse('TK010', format('%s is not an action.', quote_nullable(p_action)), 'Choose go_on, adopt, resubmit or give_up.');
  end if;
  update holdfast.batch_job j set status = v_to, external_id = coalesce(j.external_id, p_external_id), due_at = holdfast.now(),
    transient_failures = 0, running = case v_to when 'PLANNED' then false when 'ENDED' then false when 'FAILED' then j.running else true end,
    submitted_at = case when v_to = 'SUBMITTED' then coalesce(j.submitted_at, holdfast.now()) else j.submitted_at end,
    finished_at = case when v_to = 'FAILED' then holdfast.now() end
  where j.task_id = p_task and j.number = p_job;
  update holdfast.inbox n set resolved_at = holdfast.now(), resolved_by = p_by, resolution = 'resolved', note = coalesce(p_note, p_action)
  where n.task_id = p_task and n.resolved_at is null and n.error ->> 'kind' = 'job_parked' and n.step = format('job %s', p_job);
  if v_task.lease_token is null and v_task.actor = 'worker' then
    perform holdfast.move(array[p_task], array['later'], array[holdfast.now()],
      array[jsonb_strip_nulls(jsonb_build_object('kind', 'job_resolved', 'job', p_job, 'action', p_action, 'by', p_by))]);
  end if;
  return v_to;
end $$;
