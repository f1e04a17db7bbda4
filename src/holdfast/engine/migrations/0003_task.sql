-- Tasks: small live rows that change, and beside them what is only ever added.
--
-- A live task is one row of `task`; the move that ends it takes it to `task_done` in the same statement. Payloads,
-- events, steps and finished tasks are partitioned by the day in their uuid v7, so that forgetting a day is a drop.

create table holdfast.task (
  id uuid primary key,
  lifecycle smallint not null,  -- no foreign key: every birth is checked against the matrix anyway
  name text not null,
  owner text not null default '',

  -- Where it is, and the move that led there. Whoever moves it writes the state it left and counts the version up.
  state text not null,
  actor holdfast.actor not null,
  from_state text not null default '',
  verb text not null default 'submit',
  version int not null default 0,
  note jsonb,

  -- When somebody acts next, and until when.
  queue text not null,
  priority smallint not null default 0 check (priority between 0 and 9),
  due_at timestamptz not null default holdfast.now(),
  deadline timestamptz,
  entered_at timestamptz not null default holdfast.now(),
  time_limit interval,
  timed_out bool not null default false,
  cancel_requested bool not null default false,

  -- What it may still cost.
  attempt int not null default 1 check (attempt >= 1),
  max_attempts int not null check (max_attempts >= 1),
  failures int not null default 0,
  crashes int not null default 0,
  limited_since timestamptz,

  -- Who holds it, or why nobody may.
  lease_token uuid,
  lease_expires_at timestamptz,
  worker_id text,
  limit_key text,
  parked text check (parked in ('limit', 'unknown')),

  created_at timestamptz not null default holdfast.now(),
  started_at timestamptz,

  constraint a_live_task_is_not_final check (actor <> 'nobody'),
  constraint only_workers_hold_leases check (lease_token is null or actor = 'worker'),
  constraint a_lease_is_whole check ((lease_token is null) = (lease_expires_at is null)),
  constraint who_is_parked_waits_for_a_worker check (parked is null or (actor = 'worker' and lease_token is null))
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

create index task_ready on holdfast.task (queue, priority, due_at, id)
  where actor = 'worker' and lease_token is null and parked is null;
create index task_leased on holdfast.task (id) where lease_token is not null;  -- not on the expiry: beats would move it
create index task_clock on holdfast.task (due_at, id) where actor = 'clock';
create index task_deadline on holdfast.task (deadline, id) where deadline is not null;
create index task_waiting on holdfast.task (limit_key, priority desc, due_at, id) where parked = 'limit';
create index task_admitted on holdfast.task (limit_key)
  where limit_key is not null and parked is null and actor = 'worker';
create index task_unknown on holdfast.task (queue, name, id) where parked = 'unknown';

create table holdfast.task_done (
  like holdfast.task including defaults,
  finished_at timestamptz not null default holdfast.now(),
  outcome holdfast.outcome not null,
  -- The accepted settle: the same again gets the same answer, anything else is refused.
  token uuid,
  body_hash bytea,
  result jsonb,
  primary key (id),
  constraint a_finished_task_is_final check (actor = 'nobody' and lease_token is null and parked is null)
) partition by range (id);

create table holdfast.input (
  id uuid primary key,
  payload jsonb not null,
  retry_of uuid
) partition by range (id);

create table holdfast.event (
  task_id uuid not null,
  version int not null,
  at timestamptz not null default holdfast.now(),
  xid xid8 not null default pg_current_xact_id(),
  verb text not null,
  from_state text not null,
  to_state text not null,
  attempt int not null,
  worker_id text,
  data jsonb,
  primary key (task_id, version)
) partition by range (task_id);

-- Heartbeats never rewrite a task. The token names the lease; an attempt may have many.
create table holdfast.beat (
  task_id uuid primary key,
  token uuid not null,
  expires_at timestamptz not null,
  progress jsonb
) with (fillfactor = 50);

create table holdfast.step (
  task_id uuid not null,
  name text not null,
  done bool not null,
  failures int not null default 0,
  attempt int not null,
  token uuid not null,
  result jsonb,
  at timestamptz not null default holdfast.now(),
  primary key (task_id, name)
) partition by range (task_id);

create table holdfast.step_event (
  task_id uuid not null,
  number int not null,
  step text not null,
  kind text not null,
  attempt int not null,
  at timestamptz not null default holdfast.now(),
  data jsonb,
  primary key (task_id, number)
) partition by range (task_id);

-- The edges of the graph. `gather` leads from a child to the parent that gathers it; the others from a task to one
-- that waits for it. The outcome is written when the upstream task ends, so "is any still open?" is one index look-up.
create table holdfast.dependency (
  upstream uuid not null,
  downstream uuid not null,
  policy text not null check (policy in ('cancel', 'skip', 'ignore', 'gather')),
  outcome holdfast.outcome,
  primary key (upstream, downstream)
);
create index dependency_downstream on holdfast.dependency (downstream, policy, outcome);

create table holdfast.key (
  owner text not null,
  key text not null,
  task_id uuid not null,
  body_hash bytea not null,
  created_at timestamptz not null default holdfast.now(),
  primary key (owner, key)
);

-- How many tasks with the same key may be admitted (waiting for a worker, or with one) at once.
create table holdfast.slot (
  key text primary key,
  allowed int not null check (allowed >= 1)
);

-- A token bucket: `tokens` as of `at`, one more every `every`, never more than `capacity`.
create table holdfast.budget (
  name text primary key,
  capacity numeric not null check (capacity > 0),
  every interval not null check (every > interval '0'),
  tokens numeric not null check (tokens >= 0),
  at timestamptz not null,
  blocked_until timestamptz,
  line timestamptz not null
);

create table holdfast.inbox (
  id uuid primary key default holdfast.uuid7(),
  task_id uuid not null,
  category text not null,
  signature text not null,
  error jsonb,
  at timestamptz not null default holdfast.now(),
  resolved_at timestamptz,
  resolved_by text,
  resolution text,
  note text
);
create index inbox_task on holdfast.inbox (task_id);
create index inbox_open on holdfast.inbox (signature, at) where resolved_at is null;

-- Tasks whose move the effects of their lifecycle refused, and until when they are left alone.
create table holdfast.setback (
  task_id uuid primary key,
  verb text not null,
  error text not null,
  times int not null default 1,
  until timestamptz not null
);

create table holdfast.worker (
  id text primary key,
  label text not null,
  queues text[] not null,
  names text[],
  slots int not null check (slots >= 1),
  started_at timestamptz not null default holdfast.now(),
  seen_at timestamptz not null default holdfast.now()
);

create type holdfast.explanation as (reason text, until timestamptz, sentence text, fix text);

-- What a worker is given with a claim.
create type holdfast.lease as (
  task_id uuid,
  attempt int,
  token uuid,
  expires_at timestamptz,
  lifecycle text,
  name text,
  owner text,
  state text,
  queue text,
  priority smallint,
  due_at timestamptz,
  deadline timestamptz,
  timed_out bool,
  max_attempts int,
  version int,
  payload jsonb
);

-- What a lifecycle's own function (`effects`) is told of a move or of a completed step.
create type holdfast.moved as (
  task_id uuid,
  lifecycle text,
  name text,
  owner text,
  verb text,
  step text,
  from_state text,
  to_state text,
  attempt int,
  token uuid,
  data jsonb
);

-- Rules over rows. The bodies are those of sql/enforce.sql, which every release brings anew.
create function holdfast.refuse_move() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.refuse_change() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.record_moves() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.check_ends() returns trigger language plpgsql as 'begin return null; end';

-- What needs the row as it was. Only a condition, so a legal move costs nothing here. A lease is born by a claim on a
-- free task; claims, checkpoints and the wish to cancel are the only moves that leave a lease behind.
create trigger refuse_move before update on holdfast.task
for each row when (
  new.id <> old.id
  or new.lifecycle <> old.lifecycle
  or new.version <> old.version + 1
  or new.from_state <> old.state
  or new.name <> old.name
  or new.owner <> old.owner
  or new.attempt not in (old.attempt, old.attempt + 1)
  or (new.attempt <> old.attempt and new.verb not in ('retry', 'lost', 'due'))
  or (new.verb = 'claim') <> (new.lease_token is not null and new.lease_token is distinct from old.lease_token)
  or (new.verb = 'claim' and old.lease_token is not null)
  or (new.verb = 'ask_cancel' and new.lease_token is distinct from old.lease_token)
  or (new.lease_token is not null and new.verb not in ('claim', 'ask_cancel') and left(new.verb, 3) <> 'to:')
) execute function holdfast.refuse_move();

create trigger record_births after insert on holdfast.task
referencing new table as moved for each statement execute function holdfast.record_moves();
create trigger record_moves after update on holdfast.task
referencing new table as moved for each statement execute function holdfast.record_moves();
create trigger check_ends after insert on holdfast.task_done
referencing new table as moved for each statement execute function holdfast.check_ends();
create trigger record_ends after insert on holdfast.task_done
referencing new table as moved for each statement execute function holdfast.record_moves();
create trigger refuse_change before update on holdfast.task_done
for each row execute function holdfast.refuse_change();
create trigger refuse_change before update on holdfast.event
for each row execute function holdfast.refuse_change();

-- The partition for everything that no day's partition takes. Statement triggers of the parent do not see rows that are
-- written into a partition by name, so a partition of finished tasks has the triggers too.
create table holdfast.task_done_rest partition of holdfast.task_done default;
create table holdfast.input_rest partition of holdfast.input default;
create table holdfast.event_rest partition of holdfast.event default;
create table holdfast.step_rest partition of holdfast.step default;
create table holdfast.step_event_rest partition of holdfast.step_event default;
create trigger check_ends after insert on holdfast.task_done_rest
referencing new table as moved for each statement execute function holdfast.check_ends();
create trigger record_ends after insert on holdfast.task_done_rest
referencing new table as moved for each statement execute function holdfast.record_moves();

-- Live and finished tasks as one.
create view holdfast.tasks as
select t.id, l.name as lifecycle, l.version as lifecycle_version, t.name, t.owner, t.state, t.actor,
       null::holdfast.outcome as outcome,
       t.version, t.queue, t.priority, t.due_at, t.deadline, t.entered_at, t.attempt, t.max_attempts, t.failures, t.crashes,
       t.lease_expires_at, t.worker_id, t.cancel_requested, t.timed_out, t.limit_key, t.parked, t.note,
       t.created_at, t.started_at, null::timestamptz as finished_at, null::jsonb as result
from holdfast.task t join holdfast.lifecycle l on l.id = t.lifecycle
union all
select t.id, l.name, l.version, t.name, t.owner, t.state, t.actor, t.outcome,
       t.version, t.queue, t.priority, t.due_at, t.deadline, t.entered_at, t.attempt, t.max_attempts, t.failures, t.crashes,
       t.lease_expires_at, t.worker_id, t.cancel_requested, t.timed_out, t.limit_key, t.parked, t.note,
       t.created_at, t.started_at, t.finished_at, t.result
from holdfast.task_done t join holdfast.lifecycle l on l.id = t.lifecycle;
