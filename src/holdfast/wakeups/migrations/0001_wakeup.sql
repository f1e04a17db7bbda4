-- Which tasks workers were sent a message about, beside the task: publishing never rewrites its row.
--
-- A row is for one version of the task. Whatever gives the task back to the workers counts the version up, so that what was
-- published before says nothing about it.
create table holdfast.wakeup (
  task_id uuid primary key,
  version int not null,
  times int not null default 1,
  last_published_at timestamptz not null default holdfast.now(),
  again_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
create index wakeup_again on holdfast.wakeup (again_at, task_id);
