-- jobs.sql: what applications declare, what users ask of jobs, and the settings of a pipeline.

-- What a pipeline is, as its application says at each start. Its settings stay, but for those that no stage takes any more,
-- or takes as another kind of value.
create or replace function holdfast.declare_pipeline(
  p_name text, p_title text, p_stages jsonb, p_params jsonb, p_queue text default null, p_max_attempts int default null,
  p_time_limit interval default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform holdfast.check_value(p_stages, p_params);
  if jsonb_typeof(p_stages) is distinct from 'array' or jsonb_array_length(p_stages) = 0 then
    perform holdfast.refuse('TK010', format('%s has no stages.', p_name), 'Give it at least one.');
  end if;
  insert into holdfast.pipeline as p (name, title, stages, params, queue, max_attempts, time_limit)
  values (p_name, p_title, p_stages, p_params, p_queue, p_max_attempts, p_time_limit)
  on conflict (name) do update set
    title = excluded.title, stages = excluded.stages, params = excluded.params, queue = excluded.queue,
    max_attempts = excluded.max_attempts, time_limit = excluded.time_limit, declared_at = holdfast.now(),
    settings = holdfast.keep_fitting_settings(p.settings, excluded.params),
    settings_number = p.settings_number + (p.settings <> holdfast.keep_fitting_settings(p.settings, excluded.params))::int
  where (p.title, p.stages, p.params, p.queue, p.max_attempts, p.time_limit) is distinct from
        (excluded.title, excluded.stages, excluded.params, excluded.queue, excluded.max_attempts, excluded.time_limit);
end $$;

create or replace function holdfast.keep_fitting_settings(p_settings jsonb, p_params jsonb) returns jsonb
language sql immutable
as $$
  select coalesce(jsonb_object_agg(s.key, s.value), '{}') from jsonb_each(p_settings) s
  where holdfast.is_kind(s.value, coalesce(p_params -> s.key, p_params -> '**') -> 'kinds')
$$;

create or replace function holdfast.pipelines(p_name text default null) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select to_jsonb(p) - '{queue,max_attempts,time_limit}'::text[] || jsonb_build_object(
    'limit_seconds', extract(epoch from p.time_limit),
    'ready', exists (select from holdfast.worker w where p.name = any (w.names) and holdfast.is_live(w)))
  from holdfast.pipeline p where p_name is null or p.name = p_name order by p.name
$$;

create or replace function holdfast.find_pipeline(p_name text) returns holdfast.pipeline
language plpgsql
as $$
declare
  v_pipeline holdfast.pipeline;
begin
  select * into v_pipeline from holdfast.pipeline p where p.name = p_name;
  if not found then
    perform holdfast.refuse('TK010', format('There is no pipeline %L.', p_name), format('There are: %s.', coalesce(
      (select string_agg(p.name, ', ' order by p.name) from holdfast.pipeline p), 'none; start a worker that declares one')));
  end if;
  return v_pipeline;
end $$;

-- A job of a pipeline that is known. Raises TK010 if it is not, or for parameters that no stage takes.
create or replace function holdfast.make_job(
  p_pipeline text, p_params jsonb, p_owner text, p_key text default null, p_trace text default null,
  p_time_limit interval default null, p_tags text[] default '{}', out job uuid, out created bool)
language sql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select s.id, s.created from holdfast.find_pipeline(p_pipeline) p
  cross join lateral holdfast.submit_many(
    array['pipeline'], array[p.name], array[p_params], p_queue => array[p.queue], p_max_attempts => array[p.max_attempts],
    p_owner => array[p_owner], p_key => array[p_key], p_time_limit => array[coalesce(p_time_limit, p.time_limit)],
    p_tags => array[nullif(to_jsonb(p_tags), '[]')], p_trace => array[p_trace]) s
$$;

-- Jobs with their stages. One that is not there, or not this owner's, is left out.
create or replace function holdfast.read_jobs(p_jobs uuid[], p_owner text default null) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'job_id', t.id, 'pipeline', t.name, 'status', t.state, 'owner', t.owner, 'attempt', t.attempt,
      'cancel_requested', t.cancel_requested, 'error', case when t.finished_at is not null then n.message end,
      'waits', case when t.finished_at is null and t.due_at > holdfast.now() then
        jsonb_build_object('until', t.due_at, 'reason', coalesce(n.message, t.note ->> 'kind')) end,
      'params', case when jsonb_typeof(i.payload) = 'object' then i.payload else '{}' end, 'settings', coalesce(j.settings, '{}'),
      'stages', coalesce(s.stages, '[]'), 'summary', m.summary, 'cost_cents', coalesce(u.cost, 0) / 10000,
      'progress', b.progress, 'retry_of', i.retry_of, 'created_at', t.created_at, 'started_at', t.started_at, 'finished_at', t.finished_at)
  from unnest(p_jobs) with ordinality k(id, place)
  cross join lateral holdfast.find_task(k.id) t
  cross join lateral (select coalesce(t.note ->> 'message', t.note ->> 'reason') as message) n
  cross join lateral (select i.payload, i.retry_of from holdfast.input i where i.id = t.id offset 0) i
  left join lateral (select b.progress from holdfast.beat b where b.task_id = t.id and b.token = t.lease_token offset 0) b on true
  left join holdfast.pipeline_job j on j.task_id = t.id
  left join lateral (
    select jsonb_agg(jsonb_build_object(
        'name', s.name, 'status', s.status, 'reason', s.reason, 'errors', s.errors, 'started_at', s.started_at,
        'finished_at', s.finished_at, 'settings', (
          select p.result -> 'settings' from holdfast.step p where p.task_id = s.task_id and p.name = s.name and p.done),
        'outputs', (select coalesce(jsonb_agg(o - 'key'), '[]') from jsonb_array_elements(s.outputs) o)) order by s.number) as stages
    from holdfast.pipeline_stage s where s.task_id = t.id) s on true
  left join lateral (
    select p.result -> 'result' as summary from holdfast.pipeline_stage s
    join holdfast.step p on p.task_id = s.task_id and p.name = s.name and p.done
    where s.task_id = t.id and lower(s.name) = 'summary') m on true
  left join lateral (select sum(u.cost_micros) as cost from holdfast.usage u where u.task_id = t.id) u on true
  where (p_owner is null or t.owner = p_owner)
    and t.lifecycle in (select l.id from holdfast.lifecycle l where l.name = 'pipeline')
  order by k.place
$$;

-- The files that a job has made, each where it lies, and until when they are kept.
create or replace function holdfast.read_outputs(p_job uuid) returns table (output jsonb, kept_until timestamptz, now timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select o.value || jsonb_build_object('stage', s.name), (select max(c.kept_until) from holdfast.cleanup c where c.task_id = p_job), holdfast.now()
  from holdfast.pipeline_stage s cross join lateral jsonb_array_elements(s.outputs) with ordinality o(value, place)
  where s.task_id = p_job order by s.number, o.place
$$;

-- Other settings for the jobs to come: `p_change` is laid over them, null takes one away. Answers what they are then.
create or replace function holdfast.set_pipeline_settings(p_name text, p_change jsonb, p_by text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_pipeline holdfast.pipeline;
  v_settings jsonb;
begin
  perform holdfast.check_value(p_change);
  perform from holdfast.pipeline p where p.name = p_name for update;
  v_pipeline := holdfast.find_pipeline(p_name);
  if jsonb_typeof(p_change) is distinct from 'object' then
    perform holdfast.refuse('TK010', 'Settings are an object.', 'Write {"name": value}; null takes one away.');
  end if;
  v_settings := (select coalesce(jsonb_object_agg(s.key, s.value), '{}') from jsonb_each(v_pipeline.settings || p_change) s
                 where jsonb_typeof(p_change -> s.key) is distinct from 'null');
  perform holdfast.check_params(p_name, v_pipeline.params, v_settings, v_pipeline.params);  -- none is missing
  update holdfast.pipeline p set settings = v_settings, settings_number = p.settings_number + 1, settings_by = p_by,
    settings_at = holdfast.now()
  where p.name = p_name and p.settings <> v_settings;
  return v_settings;
end $$;
