-- Schedules: what is started at which times, and one row for each time at which something was.
create table holdfast.schedule (
  name text primary key check (name ~ '^[[:alnum:]_.:-]{1,80}$'),
  owner text not null default '',
  cron text not null,
  timezone text not null,
  starts text not null check (starts in ('task', 'dag')),
  -- Of a task what submit takes; of a graph its name and parameters. `payload` is what either is given.
  target jsonb not null,
  -- The field of the payload that is told the due time.
  at_field text,
  missed text not null check (missed in ('latest', 'all', 'skip')),
  definition bytea not null,
  declared_at timestamptz not null default holdfast.now(),
  -- When an application that declares it was last there.
  seen_at timestamptz not null default holdfast.now(),
  -- The next due time; null if it never comes. `set_at` is when that was computed: later than now if the clock was put back.
  next_at timestamptz,
  set_at timestamptz not null default holdfast.now(),
  last_at timestamptz,
  last_task uuid,
  paused_at timestamptz,
  paused_by text,
  -- What stood in the way of the last start, and when it is tried again.
  error text,
  error_at timestamptz,
  failures int not null default 0,
  try_at timestamptz,
  created_at timestamptz not null default holdfast.now()
);
create index schedule_next on holdfast.schedule (next_at, name) where paused_at is null;

-- Kept when a schedule is removed: one that is declared again under its name does not run a second time for a time that
-- had its run.
create table holdfast.schedule_run (
  name text not null,
  due_at timestamptz not null,
  kind text not null check (kind in ('due', 'missed', 'backfill', 'now')),
  task_id uuid not null,
  by text not null default '',
  at timestamptz not null default holdfast.now(),
  primary key (name, due_at, task_id)
);
create unique index one_run_per_due_time on holdfast.schedule_run (name, due_at) where kind <> 'now';
