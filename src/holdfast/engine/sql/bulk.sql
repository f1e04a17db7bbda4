-- bulk.sql: cancel or retry many tasks, page by page; each page is a transaction of its own. Called by operators, and by
-- users for their own tasks. What is done already does not fit any more, so a page may be asked for again by anyone.
-- A cancel locks all children, then the tasks, those that gather last and the youngest first, then what cancel locks; a
-- retry locks the inbox entries of the old tasks, then those, the youngest first, then what submit locks.

-- How many would be done, up to 10,000, and in which states they are.
create or replace function holdfast.bulk_look(
  p_action text, p_lifecycle text default null, p_state text default null, p_actor text default null,
  p_outcome text default null, p_queue text default null, p_name text default null, p_owner text default null,
  p_live bool default null, p_tag text default null)
returns table (number int, capped bool, groups jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
  select holdfast.check_bulk_tasks(p_action, p_outcome, p_live, 1);
  select cardinality(c.ids), c.next is not null, (
    select coalesce(jsonb_agg(to_jsonb(g) order by g.number desc, g.lifecycle, g.state), '[]') from (
      select l.name as lifecycle, t.state, count(*) as number
      from unnest(c.ids) i(id)
      cross join lateral holdfast.find_task(i.id) t
      cross join lateral (select l.name from holdfast.lifecycle l where l.id = t.lifecycle offset 0) l
      group by 1, 2) g)
  from holdfast.find_bulk_tasks(
    p_action, p_lifecycle, p_state, p_actor, p_outcome, p_queue, p_name, p_owner, p_tag, null, 10000) c
$$;

-- Cancel or retry up to `p_limit` that fit, the newest first, each for itself: the refusal of one does not undo the others.
-- `requested` are those of the cancelled ones that a worker holds, and ends. More that may fit come before `next`.
create or replace function holdfast.bulk(
  p_action text, p_by text, p_lifecycle text default null, p_state text default null, p_actor text default null,
  p_outcome text default null, p_queue text default null, p_name text default null, p_owner text default null,
  p_live bool default null, p_tag text default null, p_reason text default null, p_before uuid default null,
  p_limit int default 200)
returns table (done int, requested int, refused jsonb, next uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_ids uuid[];
begin
  perform holdfast.check_bulk_tasks(p_action, p_outcome, p_live, p_limit);
  perform holdfast.check_handling(p_by, p_reason);
  perform holdfast.need_read_committed();
  select c.ids, c.next into v_ids, bulk.next
  from holdfast.find_bulk_tasks(p_action, p_lifecycle, p_state, p_actor, p_outcome, p_queue, p_name, p_owner, p_tag, p_before, p_limit) c;
  if p_action = 'cancel' then
    -- With the parents that gather these tasks, and theirs. Were only the children of one page cancelled, a parent that
    -- is meant too would end by what became of them before its own page is reached.
    v_ids := array(
      with recursive task(id) as (
        select unnest(v_ids)
        union
        select d.downstream from task t
        cross join lateral (
          select d.downstream from holdfast.dependency d
          where d.upstream = t.id and d.policy = 'gather' and d.outcome is null offset 0) d
      )
      select t.id from task t);
    perform holdfast.lock_children(v_ids);
    perform from (
      select i.id from (select distinct unnest(v_ids) as id) i
      order by exists (select from holdfast.dependency d where d.downstream = i.id and d.policy = 'gather'), i.id desc) i
    cross join lateral (select from holdfast.task t where t.id = i.id for update) t;
    -- Locked, then looked at again: what has moved meanwhile may fit no more, and of the parents only some ever did.
    v_ids := array(
      select t.id from (select distinct unnest(v_ids) as id) i
      cross join lateral (select * from holdfast.task t where t.id = i.id offset 0) t
      where not t.cancel_requested and (p_state is null or t.state = p_state)
        and (p_actor is null or t.actor::text = p_actor) and (p_queue is null or t.queue = p_queue)
        and (p_name is null or t.name = p_name) and (p_owner is null or t.owner = p_owner)
        and (p_lifecycle is null or (select l.name from holdfast.lifecycle l where l.id = t.lifecycle) = p_lifecycle)
        and (p_tag is null or exists (select from holdfast.input i where i.id = t.id and i.tags @> array[p_tag])));
  else
    perform holdfast.lock_ended(v_ids);
    v_ids := array(select i.id from unnest(v_ids) i(id) where not holdfast.was_retried(i.id));
  end if;
  select jsonb_array_length(h.handled), h.requested, h.refused into done, requested, refused
  from holdfast.handle_each(p_action, v_ids, null, p_by, p_reason, null) h;
  return next;
end $$;

-- Up to `p_most` tasks before another with which there is something to do, the newest first, and from where to go on. A
-- retry is for what failed or was cancelled.
create or replace function holdfast.find_bulk_tasks(
  p_action text, p_lifecycle text, p_state text, p_actor text, p_outcome text, p_queue text, p_name text, p_owner text,
  p_tag text, p_before uuid, p_most int, out ids uuid[], out next uuid)
language sql stable
as $$
  select array(select i.id from unnest(m.ids) with ordinality i(id, place)
               where case p_action when 'retry' then not holdfast.was_retried(i.id)
                     else not (select t.cancel_requested from holdfast.task t where t.id = i.id) end
               order by i.place), m.next
  from (select case when p_outcome is not null then array[p_outcome]
                    when p_action = 'retry' then array['failed', 'cancelled'] end as outcomes) o
  cross join lateral holdfast.find_tasks(
    p_lifecycle, p_state, p_actor, o.outcomes, p_queue, p_name, p_owner, p_action = 'cancel', p_tag, p_before, p_most) m
$$;

create or replace function holdfast.was_retried(p_id uuid) returns bool
language sql stable
as $$ select exists (select from holdfast.input i where i.retry_of = p_id) $$;

create or replace function holdfast.check_bulk_tasks(p_action text, p_outcome text, p_live bool, p_limit int) returns void
language plpgsql
as $$
begin
  if p_action is null or p_action not in ('cancel', 'retry') then
    perform holdfast.refuse('TK010', format('Tasks cannot be handled with %s.', quote_nullable(left(p_action, 100))),
                            'It is cancel or retry.');
  elsif p_action = 'cancel' and (p_outcome is not null or p_live is false) then
    perform holdfast.refuse('TK010', 'What has ended cannot be cancelled.', 'Leave the outcome out: cancel is for what is live.');
  elsif p_action = 'retry' and (p_outcome not in ('failed', 'cancelled') or p_live) then
    perform holdfast.refuse('TK010', 'Only what failed or was cancelled is retried.', 'Name one of these outcomes, or none for both.');
  end if;
  perform holdfast.check_limit(p_limit, 500, 'tasks cannot be handled');
end $$;
