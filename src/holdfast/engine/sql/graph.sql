-- graph.sql: who waits for whom, as edges that are written when a task is submitted.
-- Called by submit. Locks the tasks that are waited for, the youngest first, so that none ends meanwhile unnoticed. What
-- follows when one of them ends is in move.sql.

-- What is waited for must exist, and come before. The tasks that are waited for are locked against ending meanwhile.
create or replace function holdfast.check_waits(
  p_tasks int, p_parent uuid[], p_parent_place int[],
  p_waits_place int[], p_waits_for uuid[], p_waits_for_place int[], p_waits_policy text[])
returns void
language plpgsql
as $$
declare
  v_missing uuid;
begin
  perform holdfast.need_read_committed();
  if exists (select from unnest(p_waits_place, p_waits_for, p_waits_for_place) w(place, id, for_place)
             where w.place is null or w.place not between 1 and p_tasks
                or (w.id is null) = (w.for_place is null) or w.for_place not between 1 and w.place - 1)
     or exists (select from unnest(p_parent_place) with ordinality w(for_place, place)
                where w.for_place not between 1 and w.place - 1) then
    raise exception 'A task can wait only for tasks that exist, or that come earlier in the same call.'
      using errcode = 'TK020', hint = 'Order the tasks so that each comes after those it waits for: that excludes cycles.';
  end if;
  if exists (select from unnest(p_waits_policy) p where p not in ('cancel', 'skip', 'ignore')) then
    raise exception 'The policy of a dependency is cancel, skip or ignore.' using errcode = 'TK020',
      hint = 'It says what becomes of the waiting task when the other one ends badly.';
  end if;
  if p_waits_for is not null and p_parent is not null then  -- two halves of a cycle must see each other
    perform from (select distinct w as id from unnest(p_waits_for || p_parent) w where w is not null order by 1 desc) w
    cross join lateral (select from holdfast.task t where t.id = w.id for no key update) t;
  else
    perform from (select distinct w as id from unnest(p_waits_for || p_parent) w where w is not null order by 1 desc) w
    cross join lateral (select from holdfast.task t where t.id = w.id for key share) t;
  end if;
  select w into v_missing from unnest(p_waits_for) w where w is not null
    and (select t.version from holdfast.task t where t.id = w) is null
    and (select t.version from holdfast.task_done t where t.id = w) is null limit 1;
  if found then
    raise exception 'Task % does not exist, so nothing can wait for it.', v_missing
      using errcode = 'TK020', hint = 'Submit it first, or in the same call.';
  end if;
  select w into v_missing from unnest(p_parent) w where w is not null
    and (select t.version from holdfast.task t where t.id = w) is null limit 1;
  if found then
    raise exception 'Task % cannot get children: it has ended, or never was.', v_missing
      using errcode = 'TK020', hint = 'Submit children together with their parent, or while it still runs.';
  end if;
end $$;

create or replace function holdfast.write_waits(
  p_id uuid[], p_created bool[], p_waiting uuid[], p_parent uuid[], p_parent_place int[],
  p_waits_place int[], p_waits_for uuid[], p_waits_for_place int[], p_waits_policy text[])
returns void
language plpgsql
as $$
begin
  if exists (select from unnest(p_waits_place) w(place)
             where p_created[w.place] and p_id[w.place] <> all (coalesce(p_waiting, '{}'))) then
    raise exception 'Tasks of this lifecycle cannot wait for others.' using errcode = 'TK020',
      hint = 'Give it a state for that: blocked=''BLOCKED'' and blocked(''BLOCKED'', unblock=...).';
  end if;
  insert into holdfast.dependency (upstream, downstream, policy, outcome)
  select e.upstream, e.downstream, e.policy, (select q.outcome from holdfast.task_done q where q.id = e.upstream)
  from (
    select coalesce(w.id, p_id[w.for_place]) as upstream, p_id[w.place] as downstream,
           coalesce(w.policy, 'cancel') as policy
    from unnest(p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy) w(place, id, for_place, policy)
    where p_created[w.place]
    union all
    select i.id, coalesce(i.parent, p_id[i.parent_place]), 'gather'
    from unnest(p_id, p_created, p_parent, p_parent_place) i(id, created, parent, parent_place)
    where i.created and coalesce(i.parent, p_id[i.parent_place]) is not null
  ) e
  order by 1, 2 on conflict do nothing;
  if p_waits_place is not null and (p_parent is not null or p_parent_place is not null) then
    perform holdfast.refuse_cycles(p_id, p_created);
  end if;
  if exists (select from unnest(p_waiting) w(id)
             where (select d.policy from holdfast.dependency d where d.downstream = w.id limit 1) is null) then
    raise exception 'This task gathers its children, and there are none.' using errcode = 'TK020',
      hint = 'Submit its children in the same call, with their parent''s place.';
  end if;
end $$;

-- Whether a live task ever waits for its children.
create or replace function holdfast.gathers(p_id uuid) returns bool
language sql stable
as $$
  select exists (
    select from holdfast.task t
    join holdfast.state s on s.lifecycle = t.lifecycle and s.actor = 'tasks'
    join holdfast.transition x on x.lifecycle = s.lifecycle and x.from_state = s.name and x.verb = 'done'
    where t.id = p_id)
$$;

-- A new task is waited for only by the parent that gathers it. If it waits, directly or not, for that parent, both would
-- wait for ever.
create or replace function holdfast.refuse_cycles(p_id uuid[], p_created bool[]) returns void
language plpgsql
as $$
declare
  v_child uuid;
begin
  with recursive child as (
    select d.upstream as id, d.downstream as parent
    from unnest(p_id, p_created) i(id, created)
    cross join lateral (
      select d.* from holdfast.dependency d where d.upstream = i.id and d.policy = 'gather' offset 0) d
    where i.created and holdfast.gathers(d.downstream)
  ), waits as (
    select distinct c.parent as root, c.parent as id from child c
    union
    select w.root, d.downstream from waits w
    cross join lateral (
      select d.downstream from holdfast.dependency d where d.upstream = w.id and d.outcome is null
        and (d.policy <> 'gather' or holdfast.gathers(d.downstream)) offset 0) d
  )
  select c.id into v_child from child c join waits w on w.root = c.parent and w.id = c.id limit 1;
  if found then
    raise exception 'A child would wait for the parent that waits for it.'
      using errcode = 'TK020', hint = 'Let it wait for other children instead.';
  end if;
end $$;

-- The numbers 1 to n of these names, each behind those it comes after: an edge goes from one number to another. Where that
-- cannot be, the circle is named. (Kahn; plain loops over arrays, since a chain of thousands is as many rounds.)
create or replace function holdfast.topological_order(p_names text[], p_from int[], p_to int[]) returns int[]
language plpgsql immutable
as $$
declare
  v_order int[] := '{}';
  v_waits int[];  -- how many each still comes after
  v_next int[];   -- the ends of the edges, by their beginning: those of i are v_first[i] + 1 .. v_first[i + 1]
  v_first int[];
  v_done int := 0;
  v_at int;
begin
  select array_agg(coalesce(e.number, 0)::int order by i.n) into v_waits from generate_series(1, cardinality(p_names)) i(n)
  left join (select e.t, count(*) as number from unnest(p_to) e(t) group by e.t) e on e.t = i.n;
  select array_agg(f.number::int order by f.n) into v_first from (
    select i.n, sum(coalesce(e.number, 0)) over (order by i.n) as number from generate_series(0, cardinality(p_names)) i(n)
    left join (select e.f, count(*) as number from unnest(p_from) e(f) group by e.f) e on e.f = i.n) f;
  v_next := array(select e.t from unnest(p_from, p_to) e(f, t) order by e.f, e.t);
  v_order := array(select i.n from generate_series(1, cardinality(p_names)) i(n) where v_waits[i.n] = 0);
  while v_done < coalesce(cardinality(v_order), 0) loop
    v_done := v_done + 1;
    v_at := v_order[v_done];
    for k in v_first[v_at] + 1 .. v_first[v_at + 1] loop
      v_waits[v_next[k]] := v_waits[v_next[k]] - 1;
      if v_waits[v_next[k]] = 0 then
        v_order[cardinality(v_order) + 1] := v_next[k];
      end if;
    end loop;
  end loop;
  if v_done < cardinality(p_names) then
    perform holdfast.refuse_circle(p_names, p_from, p_to, v_waits);
  end if;
  return v_order;
end $$;

-- Those that still wait all come after another such: going back from any of them, one is met twice.
create or replace function holdfast.refuse_circle(p_names text[], p_from int[], p_to int[], p_waits int[]) returns void
language plpgsql
as $$
declare
  v_at int := (select min(i.n) from unnest(p_waits) with ordinality i(left_over, n) where i.left_over > 0);
  v_way int[] := '{}';
begin
  while v_at <> all (v_way) loop
    v_way := v_at || v_way;
    v_at := (select min(e.f) from unnest(p_from, p_to) e(f, t) where e.t = v_at and p_waits[e.f] > 0);
  end loop;
  v_way := v_way[1:array_position(v_way, v_at)];
  raise exception 'They wait for each other: %.', (
      select string_agg(w.name, ' -> ' order by w.place) from (
        select p_names[v.n] as name, v.place from unnest(v_at || v_way) with ordinality v(n, place) limit 20) w)
    using errcode = 'TK045', hint = 'Take one of these edges away.';
end $$;
