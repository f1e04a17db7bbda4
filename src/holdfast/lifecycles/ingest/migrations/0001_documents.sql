-- Documents, as they are searched. What is on its way through the steps lies in the object store; here is what came of it.

-- What a run may cost beside what its task says of it. Null: as much as it takes.
create table holdfast.ingest_run (
  task_id uuid primary key,
  budget_micros numeric check (budget_micros >= 0)
);

-- A document goes by its name, for its owner. `current` is the version that searchers see: the item that made it.
create table holdfast.document (
  id uuid primary key default holdfast.uuid7(),
  owner text not null,
  name text not null check (length(name) between 1 and 2000),
  current uuid,
  created_at timestamptz not null default holdfast.now()
);
create unique index document_name on holdfast.document (owner, md5(name));  -- a name may be longer than an index takes

-- One row per item that came as far as to be persisted. `recipe` is what it was made with: the same content by the same
-- recipe need not be made again.
create table holdfast.document_version (
  task_id uuid primary key,
  document uuid not null references holdfast.document on delete cascade,
  sha256 text not null,
  recipe text not null,
  about jsonb not null,
  chunks int not null,
  persisted_at timestamptz not null default holdfast.now(),
  published_at timestamptz,
  replaced_at timestamptz
);
create index document_version_document on holdfast.document_version (document, task_id);

-- Chunks of versions that are or will be searched. `live` since its version is the current one: only live ones are
-- in the indexes. The numbers of a vector are in `embedding`, or, where there is pgvector, in `vector` (sql/vectors.sql).
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
  live bool not null default false,
  primary key (version, number)
);
create index chunk_words on holdfast.chunk using gin (words) where live;
create index chunk_live on holdfast.chunk (owner, embedder) where live;

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
