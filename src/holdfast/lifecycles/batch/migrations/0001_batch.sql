-- Batches: what each is made of, and the jobs that providers do for it. A job's row is the truth about it.

-- What workers offer: a kind of task at a provider, under the name that they know it by.
create table holdfast.batch_provider (
  task_type text not null check (length(task_type) between 1 and 100),
  provider text not null check (length(provider) between 1 and 100),
  name text not null,
  queue text,
  offer jsonb not null,
  declared_at timestamptz not null default holdfast.now(),
  answered_at timestamptz,
  primary key (task_type, provider)
);

create table holdfast.batch (
  task_id uuid primary key,
  task_type text not null,
  provider text not null,
  datasets jsonb not null default '[]',
  urls jsonb not null default '[]',
  models jsonb not null default '[]',
  again_of uuid,
  inputs int,
  invalid jsonb not null default '[]',
  planned_at timestamptz,
  result_key text,
  manifest_key text,
  check ((planned_at is null) = (inputs is null))
);

-- What a provider does, is to do, or perhaps does. `running`: for all we know it may be at work.
create table holdfast.batch_job (
  task_id uuid not null references holdfast.batch on delete cascade,
  number int not null,
  token text not null unique,
  account text not null,
  model text,
  inputs int not null check (inputs > 0),
  source text not null,
  filename text not null,
  inputs_key text not null,
  status text not null default 'PLANNED' check (status in (
    'PLANNED', 'INTENDED', 'PARKED', 'SUBMITTED', 'ENDED', 'COMPLETED', 'PARTIAL_COMPLETE', 'FAILED', 'CANCELLED')),
  running bool not null default false,
  external_id text,
  memo jsonb,
  provider_status text,
  outcome text,
  has_results bool,
  due_at timestamptz,
  tries int not null default 0,
  transient_failures int not null default 0,
  waiting_since timestamptz,
  intended_at timestamptz,
  tried_at timestamptz,
  missed_at timestamptz,
  submitted_at timestamptz,
  polled_at timestamptz,
  cancelled_at timestamptz,
  ended_at timestamptz,
  finished_at timestamptz,
  done int,
  ok int not null default 0,
  result jsonb,
  output_key text,
  cost_micros numeric not null default 0,
  error text,
  category text,
  primary key (task_id, number),
  check (status not in ('SUBMITTED', 'ENDED', 'COMPLETED', 'PARTIAL_COMPLETE') or external_id is not null),
  check (status not in ('PLANNED', 'ENDED', 'COMPLETED', 'PARTIAL_COMPLETE', 'CANCELLED') or not running),
  check (status not in ('INTENDED', 'SUBMITTED') or running),
  check ((finished_at is null) = (status in ('PLANNED', 'INTENDED', 'PARKED', 'SUBMITTED', 'ENDED'))),
  check (ok between 0 and inputs),
  check (status not in ('FAILED', 'CANCELLED') or ok = 0),
  check (status <> 'COMPLETED' or ok = inputs),
  check (status <> 'PARTIAL_COMPLETE' or (ok > 0 and ok < inputs))
);
-- What nobody has brought to its end; for who looks after providers.
create index batch_job_open on holdfast.batch_job (account, due_at)
  where status in ('PLANNED', 'INTENDED', 'PARKED', 'SUBMITTED', 'ENDED');

-- Who stops what a batch has left running.
create table holdfast.batch_stop (
  task_id uuid primary key,
  batch_id uuid not null unique references holdfast.batch on delete cascade
);

-- Rules over rows, and how a job is shown. The bodies are those of sql/, which every release brings anew.
create function holdfast.refuse_job_move() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.keep_jobs() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.job_state(p_type text, p_provider text, p_job holdfast.batch_job, p_whole bool) returns jsonb
language sql stable as 'select null::jsonb';

create trigger refuse_job_move before update on holdfast.batch_job for each row
  when (old.status is distinct from new.status or old.external_id is distinct from new.external_id or old.token <> new.token)
  execute function holdfast.refuse_job_move();

create constraint trigger keep_jobs after delete on holdfast.batch_job deferrable initially deferred
  for each row execute function holdfast.keep_jobs();

-- What a batch's jobs are, in the form that clients of each provider know. What is not there yet is null.
create view holdfast.batch_state as
select b.task_id, jsonb_build_object('task_type', b.task_type)
  || case when b.task_type = 'completion' then jsonb_build_object('input_dataset_ids', d.ids)
     else jsonb_build_object('provider', b.provider, 'dataset_ids', d.ids, 'invalid_urls', (
       select coalesce(jsonb_agg(i.one -> 'input' order by i.place), '[]')
       from jsonb_array_elements(b.invalid) with ordinality i(one, place))) end
  || case when b.task_type <> 'completion' and b.provider = 'SARVAM'
     then jsonb_build_object('gcs_map', coalesce(j.sources, '{}')) else '{}' end
  || jsonb_build_object('jobs', coalesce(j.jobs, '[]')) as provider_state
from holdfast.batch b
cross join lateral (
  select coalesce(jsonb_agg(d.one -> 'id' order by d.place), '[]') as ids
  from jsonb_array_elements(b.datasets) with ordinality d(one, place)) d
left join lateral (
  select jsonb_agg(holdfast.job_state(b.task_type, b.provider, j, n.number <= 200) order by j.number) as jobs,
         jsonb_object_agg(j.external_id, j.source) filter (where j.external_id is not null) as sources
  from holdfast.batch_job j
  cross join lateral (select count(*) as number from holdfast.batch_job n where n.task_id = b.task_id) n
  where j.task_id = b.task_id) j on true;
