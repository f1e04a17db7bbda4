-- The inbox tells by itself what failed where, whose it was, and what became of it: a list reads no task.
--
-- Entries of tasks that are forgotten already, and those that the functions before this release still write, say
-- nothing of their task.
alter table holdfast.inbox
  add column lifecycle text,
  add column name text,
  add column owner text,
  add column state text,
  add column step text,
  add column retried_as uuid,
  add column diff jsonb;

update holdfast.inbox n
set lifecycle = l.name, name = t.name, owner = t.owner, state = t.state, step = n.error ->> 'step'
from (select d.id, d.lifecycle, d.name, d.owner, d.from_state as state from holdfast.task_done d
      union all select t.id, t.lifecycle, t.name, t.owner, t.state from holdfast.task t) t
join holdfast.lifecycle l on l.id = t.lifecycle
where t.id = n.task_id;

update holdfast.inbox n
set retried_as = substring(n.note from '^Retried as ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.$')::uuid
where n.resolution = 'retried';

alter table holdfast.inbox
  add constraint an_entry_is_retried_resolved_or_discarded check (resolution in ('retried', 'resolved', 'discarded')),
  add constraint who_is_handled_says_how_and_when check ((resolved_at is null) = (resolution is null)),
  add constraint only_a_retry_makes_a_task check (retried_as is null or resolution = 'retried');

-- Ids are in the order of time, so each of these is a list, newest first.
drop index holdfast.inbox_open;
create index inbox_open on holdfast.inbox (id) where resolved_at is null;
create index inbox_open_signature on holdfast.inbox (signature, id) where resolved_at is null;
create index inbox_open_category on holdfast.inbox (category, id) where resolved_at is null;
create index inbox_open_lifecycle on holdfast.inbox (lifecycle, id) where resolved_at is null;
