-- Pipelines as applications declare them, their jobs, and the stages of each job.

-- The newest declaration of a pipeline, and what its settings are: values for parameters that a job does not name. A stage
-- may change them; every change has a number.
create table holdfast.pipeline (
  name text primary key check (length(name) between 1 and 200),
  title text not null,
  stages jsonb not null,
  params jsonb not null,
  queue text,
  max_attempts int,
  time_limit interval,
  settings jsonb not null default '{}',
  settings_number int not null default 0,
  settings_by text,
  settings_at timestamptz,
  declared_at timestamptz not null default holdfast.now()
);

-- A job keeps the settings that it began with, so that it goes on as it began wherever it is taken up.
create table holdfast.pipeline_job (
  task_id uuid primary key,
  pipeline text not null,
  settings jsonb not null,
  settings_number int not null
);

-- A row per stage, as it was declared when the job was made: what is deployed meanwhile adds and skips nothing.
create table holdfast.pipeline_stage (
  task_id uuid not null references holdfast.pipeline_job on delete cascade,
  number int not null,
  name text not null,
  declared jsonb not null,
  status text not null default 'pending'
    check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'skipped')),
  reason text,
  errors jsonb not null default '[]',
  outputs jsonb not null default '[]',
  started_at timestamptz,
  finished_at timestamptz,
  attempt int,
  primary key (task_id, number),
  unique (task_id, name),
  check ((finished_at is null) = (status in ('pending', 'running')))
);
