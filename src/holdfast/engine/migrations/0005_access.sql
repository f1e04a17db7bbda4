-- Who may call the server: keys, of which only the hash is kept.
create table holdfast.api_key (
  id uuid primary key default holdfast.uuid7(),
  name text not null check (length(name) between 1 and 200),
  hash bytea not null unique check (octet_length(hash) = 32),
  roles text[] not null check (cardinality(roles) > 0 and roles <@ array['user', 'worker', 'operator']),
  owner text not null check (length(owner) <= 200),
  created_at timestamptz not null default holdfast.now(),
  revoked_at timestamptz
);
create index api_key_live on holdfast.api_key (id) where revoked_at is null;

-- What happened how often, for the metrics. Only ever added to, so that counting locks nothing; the sweep sums it up.
create table holdfast.tally (
  id bigint primary key generated always as identity,
  name text not null,
  number bigint not null check (number > 0)
);

-- Lists of tasks: those of one owner, those that ended in one state, and what a task was retried as.
create index task_owner on holdfast.task (owner, id) where owner <> '';
create index task_done_owner on holdfast.task_done (owner, id) where owner <> '';
create index task_done_state on holdfast.task_done (lifecycle, state, id);
create index input_retry_of on holdfast.input (retry_of, id) where retry_of is not null;
