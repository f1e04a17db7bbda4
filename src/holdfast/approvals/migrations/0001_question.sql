-- Questions: what a task asks a person, and what it was told. A question is a step of its task, by name.
create table holdfast.question (
  id uuid primary key default holdfast.uuid7(),
  task_id uuid not null,
  step text not null,
  owner text not null,
  question text not null check (length(question) between 1 and 2000),
  attempt int not null,
  token uuid not null,
  -- Whoever has the secret may answer. It is kept for as long as the task may need to tell it again, its hash for ever.
  secret text,
  hash bytea not null unique check (octet_length(hash) = 32),
  asked_at timestamptz not null default holdfast.now(),
  until timestamptz not null,
  answered_at timestamptz,
  answered_by text,
  answer jsonb,
  unique (task_id, step),
  constraint an_answer_is_whole check ((answered_at is null) = (answer is null))
);
create index question_open on holdfast.question (id) where answered_at is null;
create index question_owner on holdfast.question (owner, id) where answered_at is null;
