-- Documents, as they are searched. What is on its way through the steps lies in the object store; here is what came of it.

-- What a run may cost beside what its task says of it. Null: as much as it takes.
create table holdfast.ingest_run (
  task_id uuid primary key,
  budget_micros numeric check (budget_micros >= 0)
);

-- A document goes by its name, for its owner. `current` is the version that searchers see: the item that made it. `fresh_at`
-- is when the newest word about it was fetched: whatever was fetched before that never shows again.
create table holdfast.document (
  id uuid primary key default holdfast.uuid7(),
  owner text not null,
  name text not null check (length(name) between 1 and 2000),
  current uuid,
  fresh_at timestamptz,
  created_at timestamptz not null default holdfast.now()
);
create unique index document_name on holdfast.document (owner, md5(name));  -- a name may be longer than an index takes
create unique index document_current on holdfast.document (current) where current is not null;
create index document_owner on holdfast.document (owner, id);

-- One row per item that came as far as to be persisted. `recipe` is what it was made with: the same content by the same
-- recipe need not be made again.
create table holdfast.document_version (
  task_id uuid primary key,
  document uuid not null references holdfast.document on delete cascade,
  sha256 text not null,
  recipe text not null,
  about jsonb not null,
  chunks int not null,
  fetched_at timestamptz not null,  -- a retry that inherits what was fetched inherits the moment too
  persisted_at timestamptz not null default holdfast.now(),
  published_at timestamptz,
  replaced_at timestamptz
);
create index document_version_document on holdfast.document_version (document, task_id);

-- Chunks of versions that are or will be searched. They are indexed as they are persisted, some at a time; which of them are
-- searched is one row of their document. The numbers of a vector are in `embedding`, or, where there is pgvector, in
-- `vector` (sql/vectors.sql).
create table holdfast.chunk (
  version uuid not null references holdfast.document_version on delete cascade,
  number int not null,
  owner text not null,
  starts int not null,
  ends int not null check (ends > starts),
  page int,
  text text not null,
  words tsvector generated always as (to_tsvector('pg_catalog.english', text)) stored,
  embedder text not null,
  dimensions int not null,
  embedding real[],
  primary key (version, number)
);
create index chunk_words on holdfast.chunk using gin (words);
create index chunk_owner on holdfast.chunk (owner, embedder);

-- Who and what is named in a version, each once.
create table holdfast.entity (
  version uuid not null references holdfast.document_version on delete cascade,
  kind text not null,
  value text not null,
  times int not null check (times > 0),
  starts int not null,
  primary key (version, kind, value)
);
create index entity_value on holdfast.entity (kind, value);
