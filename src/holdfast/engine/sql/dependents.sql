-- dependents.sql: a task that ended badly runs again, and with it the tasks that were cancelled or skipped because of it.
-- Called by owners and operators. Locks the open inbox entries of all of them by id, then them, the youngest first; then what
-- the new tasks wait for and the parents that still gather, the youngest first; a task that ends meanwhile is seen, or waits.

-- Each old task with the new one that runs instead. Among them the edges are as they were; whatever else they waited for, they
-- wait for still, or for what was retried of it since. The first does not wait for what ended badly. A parent that still
-- gathers gathers the new ones in place of the old.
create or replace function holdfast.retry_dependents(
  p_id uuid, p_from_step text default null, p_payload jsonb default null, p_by text default null, p_note text default null)
returns table (old uuid, new uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_old uuid[];
  v_new uuid[];
  v_parent uuid[];
  v record;
begin
  perform holdfast.check_retry(p_id, p_from_step);
  v_old := holdfast.ended_with(p_id);
  perform holdfast.lock_ended(v_old);
  -- Locked, then looked at again: what somebody has retried meanwhile is left out, and what has ended since came too late.
  v_old := array(select i.id from unnest(holdfast.ended_with(p_id)) with ordinality i(id, place)
                 where i.id = any (v_old) order by i.place);
  -- Of all that the new tasks wait for: where it is one of them its place, otherwise the task.
  select array_agg(w.place) as place, array_agg(case when w.for_place is null then w.upstream end) as waits_for,
         array_agg(w.for_place) as for_place, array_agg(w.policy) as policy
    into v
  from (
    select array_position(v_old, i.id) as place, array_position(v_old, d.upstream) as for_place, d.policy,
           case when d.outcome in ('failed', 'cancelled') then holdfast.newest_retry(d.upstream) else d.upstream end as upstream
    from unnest(v_old) i(id)
    cross join lateral (
      select * from holdfast.dependency d where d.downstream = i.id and d.policy <> 'gather' offset 0) d
    where i.id <> p_id or d.policy = 'ignore' or d.outcome in ('done', 'partial') or d.outcome is null
      or holdfast.newest_retry(d.upstream) <> d.upstream) w;
  v_parent := array(
    select (select min(d.downstream::text)::uuid from holdfast.dependency d where d.upstream = i.id and d.policy = 'gather')
    from unnest(v_old) with ordinality i(id, place) order by i.place);
  perform from (select distinct w as id from unnest(v.waits_for || v_parent) w where w is not null order by 1 desc) w
  cross join lateral (select from holdfast.task t where t.id = w.id for no key update) t;
  v_parent := array(select (select t.id from holdfast.task t where t.id = p.id)  -- a parent that has ended is none any more
                    from unnest(v_parent) with ordinality p(id, place) order by p.place);
  delete from holdfast.dependency d using unnest(v_old, v_parent) o(id, parent)
  where d.upstream = o.id and d.downstream = o.parent and d.policy = 'gather';
  v_new := holdfast.submit_again(
    v_old, p_payload, case when cardinality(array_remove(v_parent, null)) > 0 then v_parent end, null,
    v.place, case when v.place is not null then v.waits_for end, v.for_place, v.policy);
  perform holdfast.link_retries(v_old, v_new, p_by, p_from_step, p_payload, p_note);
  return query select o.old, o.new from unnest(v_old, v_new) o(old, new);
end $$;

-- A finished task and those that ended only because it, or one of them, ended badly; each behind those it waited for. What
-- was retried already is left out.
create or replace function holdfast.ended_with(p_id uuid) returns uuid[]
language plpgsql stable
as $$
declare
  v_ids uuid[];
  v_from int[];
  v_to int[];
begin
  with recursive because as (
    select p_id as id
    union
    select d.downstream from because b
    cross join lateral (
      select d.downstream from holdfast.dependency d
      where d.upstream = b.id and d.policy in ('cancel', 'skip') and d.outcome in ('failed', 'cancelled') offset 0) d
    where (select q.note ->> 'kind' from holdfast.task_done q where q.id = d.downstream) in ('skipped', 'upstream_ended')
      and (select i.id from holdfast.input i where i.retry_of = d.downstream limit 1) is null
  )
  select array_agg(b.id) into v_ids from because b;
  select array_agg(array_position(v_ids, d.upstream)), array_agg(array_position(v_ids, i.id)) into v_from, v_to
  from unnest(v_ids) i(id)
  cross join lateral (select d.upstream from holdfast.dependency d where d.downstream = i.id and d.policy <> 'gather' offset 0) d
  where d.upstream = any (v_ids) and i.id <> p_id;
  return array(select v_ids[o.n] from unnest(holdfast.topological_order(v_ids::text[], v_from, v_to)) with ordinality o(n, place)
               order by o.place);
end $$;

-- What runs in place of a task, and in place of that.
create or replace function holdfast.newest_retry(p_id uuid) returns uuid
language sql stable
as $$
  with recursive again(id, times) as (
    select p_id, 0
    union all
    select i.id, a.times + 1 from again a
    cross join lateral (select i.id from holdfast.input i where i.retry_of = a.id offset 0) i
  )
  select a.id from again a order by a.times desc, a.id desc limit 1
$$;
