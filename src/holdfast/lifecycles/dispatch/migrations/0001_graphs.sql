-- Graphs of tasks as applications declare them, and their runs.

-- The newest declaration of a graph: its nodes, each behind those it comes after, and the edges between them by name.
create table holdfast.dag (
  name text primary key check (length(name) between 1 and 100),
  title text not null,
  nodes jsonb not null,
  edges jsonb not null,
  params jsonb not null,
  writes jsonb not null,
  cutover text not null check (cutover in ('auto', 'manual')),
  declared_at timestamptz not null default holdfast.now()
);

-- A run, beside its task. It keeps the edges that it began with, as [from, to, policy] by the numbers of its nodes, what it
-- was asked for, and the generations that it writes. `retried_as` is the run that goes on where this one failed.
create table holdfast.dag_run (
  task_id uuid primary key,
  declared bool not null,
  body_hash bytea not null,
  params jsonb not null,
  edges jsonb not null,
  writes jsonb not null,
  cutover text not null,
  retried_as uuid
);

-- Which task is which node. A run that goes on for another has the tasks of the other for the nodes that are done.
create table holdfast.dag_node (
  run uuid not null references holdfast.dag_run on delete cascade,
  number int not null,
  name text not null,
  task_id uuid not null,
  primary key (run, number)
);
create index dag_node_task on holdfast.dag_node (task_id);

-- A node is retried within its run, or with it: the body is that of sql/retrying.sql.
create function holdfast.check_node_retry() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger check_node_retry after update of retry_of on holdfast.input
  for each row when (new.retry_of is not null) execute function holdfast.check_node_retry();
