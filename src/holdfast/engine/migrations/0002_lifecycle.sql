-- Lifecycles as tables: what `declare` writes and every move is checked against.

-- Who acts next. It belongs to the state, and every task carries a copy.
create type holdfast.actor as enum ('owner', 'tasks', 'worker', 'clock', 'nobody');

-- How a finished task ended.
create type holdfast.outcome as enum ('done', 'partial', 'failed', 'cancelled');

create table holdfast.queue (
  name text primary key check (name ~ '^[[:alnum:]_.:-]{1,100}$'),
  paused_at timestamptz,
  paused_by text,
  created_at timestamptz not null default holdfast.now()
);

-- One row per version. A task points at the row it was submitted under, so the version needs no column of its own.
create table holdfast.lifecycle (
  id smallint primary key generated always as identity,
  name text not null,
  version smallint not null check (version >= 1),
  definition json not null,  -- not jsonb: the order in which it was written is the order in which it is drawn
  queue text not null references holdfast.queue,
  max_attempts int not null check (max_attempts >= 1),
  crash_budget int not null check (crash_budget >= 1),
  backoff interval not null check (backoff > interval '0'),
  backoff_most interval not null check (backoff_most >= backoff),
  rate_wait interval not null check (rate_wait > interval '0'),
  effects text,
  used bool not null default false,
  declared_at timestamptz not null default holdfast.now(),
  unique (name, version)
);

create table holdfast.state (
  lifecycle smallint not null references holdfast.lifecycle on delete cascade,
  name text not null,
  actor holdfast.actor not null,
  outcome holdfast.outcome,
  leasable bool not null,
  time_limit interval check (time_limit > interval '0'),
  limit_in_all interval check (limit_in_all >= time_limit),
  limit_per_task bool not null default false,
  primary key (lifecycle, name),
  unique (lifecycle, name, actor),
  constraint only_final_states_have_an_outcome check ((actor = 'nobody') = (outcome is not null)),
  constraint only_workers_hold_leases check (actor = 'worker' or not leasable),
  constraint final_states_have_no_limit check (actor <> 'nobody' or time_limit is null)
);

-- The matrix. from_state '' is birth. What a move must know of the state it leads to is copied here, so that a move
-- costs one look-up; the foreign key keeps the actor honest. `bump` is what it adds to the attempt.
create table holdfast.transition (
  lifecycle smallint not null,
  from_state text not null,
  verb text not null,
  to_state text not null,
  to_actor holdfast.actor not null,
  to_outcome holdfast.outcome,
  to_leasable bool not null,
  to_limit interval,
  to_limit_in_all interval,
  to_limit_per_task bool not null,
  bump smallint not null default 0 check (bump in (0, 1)),
  effects text,
  primary key (lifecycle, from_state, verb),
  foreign key (lifecycle, to_state, to_actor) references holdfast.state (lifecycle, name, actor) on delete cascade
);
