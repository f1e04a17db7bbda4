-- What a worker reports at the end of an attempt, as one value: the functions of sql/settle.sql pass it on whole.

create type holdfast.settlement as (
  task_id uuid,
  attempt int,
  token uuid,
  outcome text,
  target text,
  delay interval,
  due_at timestamptz,
  category text,
  step text,
  body jsonb
);
