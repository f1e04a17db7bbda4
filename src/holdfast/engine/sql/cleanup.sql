-- cleanup.sql: files are kept for a while and then deleted. A move plans it; a process that serves deletes, when the time has come.
-- Takes the rows that are due, one process each.

-- Where the files of an owner are. One whose name is no plain word goes by its hash.
create or replace function holdfast.owner_folder(p_owner text) returns text
language sql stable
as $$
  select 'users/' || case
    when p_owner = '' then '~local'  -- no name of an owner begins like that
    when p_owner ~ '^[A-Za-z0-9_-]{1,64}$' then p_owner
    else '~' || encode(sha256(convert_to(p_owner, 'UTF8')), 'hex') end
$$;

-- Everything below this prefix is kept for so long.
create or replace function holdfast.delete_later(p_task uuid, p_prefix text, p_after interval) returns void
language sql
as $$
  insert into holdfast.cleanup (task_id, prefix, kept_until, due_at)
  values (p_task, p_prefix, holdfast.now() + p_after, holdfast.now() + p_after)
$$;

-- Folders whose files are due to be deleted. The process that takes one has five minutes for it, then another one tries.
create or replace function holdfast.take_cleanups(p_n int default 20)
returns table (id uuid, task_id uuid, prefix text)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  update holdfast.cleanup c set due_at = holdfast.now() + interval '5 minutes', tries = c.tries + 1
  where c.id = any (array(
    select c.id from holdfast.cleanup c where c.done_at is null and c.due_at <= holdfast.now()
    order by c.due_at, c.id limit p_n for update skip locked))
  returning c.id, c.task_id, c.prefix
$$;

-- How it went. What failed is tried again, at growing distances, for as long as it takes.
create or replace function holdfast.end_cleanup(p_id uuid, p_objects bigint, p_error text default null) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  update holdfast.cleanup c set error = left(p_error, 1000),
    objects = case when p_error is null then p_objects end,
    done_at = case when p_error is null then holdfast.now() end,
    due_at = case when p_error is null then c.due_at
                  else holdfast.now() + holdfast.doubled('1 minute', c.tries - 1, '1 hour') end
  where c.id = p_id and c.done_at is null
$$;
