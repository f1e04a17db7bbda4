-- Webhooks: endpoints that are told what happens to tasks, where each stands in the feed, and what is sent to it.
create table holdfast.webhook (
  id uuid primary key default holdfast.uuid7(),
  name text not null unique check (length(name) between 1 and 200),
  url text not null check (length(url) between 1 and 2000),
  secret text not null,
  -- What it is told of: kinds of events, and of which tasks; null is any.
  kinds text[] not null check (
    cardinality(kinds) > 0 and kinds <@ array['completed', 'partial', 'failed', 'cancelled', 'moved']),
  lifecycle text,
  task_name text,
  owner text,
  cursor text not null,
  paused_at timestamptz,
  disabled_at timestamptz,
  disabled_why text,
  missed_at timestamptz,  -- when moves were gone from the feed before they could be read
  created_at timestamptz not null default holdfast.now(),
  created_by text not null default ''
);

-- One event for one endpoint. The body is written once, so that every try sends the same.
create table holdfast.webhook_delivery (
  id uuid primary key default holdfast.uuid7(),
  webhook_id uuid not null references holdfast.webhook on delete cascade,
  task_id uuid not null,
  version int not null,
  kind text not null,
  body text not null,
  state text not null default 'pending' check (state in ('pending', 'done', 'failed')),
  tries int not null default 0,
  due_at timestamptz not null default holdfast.now(),
  taken uuid,  -- by whom, until `due_at`
  status int,
  error text,
  made_at timestamptz not null default holdfast.now(),
  ended_at timestamptz,
  unique (webhook_id, task_id, version)
);
create index webhook_delivery_due on holdfast.webhook_delivery (webhook_id, due_at, id) where state = 'pending';
create index webhook_delivery_list on holdfast.webhook_delivery (webhook_id, id);
create index webhook_delivery_made on holdfast.webhook_delivery (made_at, id);
