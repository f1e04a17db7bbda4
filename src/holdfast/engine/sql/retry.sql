-- retry.sql: a finished task runs again, as a new task that remembers the old one. Nothing leaves a final state.
-- Called by owners and operators. Locks the open inbox entries of the old task by id, then the old task, then what submit
-- locks. Marks its inbox entries as handled.

-- The steps that were completed before `from_step` began are inherited, and so is the payload unless another is given.
-- Without a `from_step` all of them are, unless the payload is another: they were made from the old one. The lifecycle's
-- effects are called (`retried`), and may leave some of them out.
create or replace function holdfast.retry(
  p_id uuid, p_from_step text default null, p_payload jsonb default null, p_by text default null,
  p_note text default null)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_new uuid[];
begin
  perform holdfast.lock_ended(array[p_id]);
  perform holdfast.check_retry(p_id, p_from_step);
  v_new := holdfast.submit_again(array[p_id], p_payload);
  perform holdfast.link_retries(array[p_id], v_new, p_by, p_from_step, p_payload, p_note);
  return v_new[1];
end $$;

-- Lock finished tasks, which never change, so that a caller that retries them at the same time sees the retry: their open inbox
-- entries by id, since not every task has one, then the tasks themselves, the youngest first.
create or replace function holdfast.lock_ended(p_ids uuid[]) returns void
language plpgsql
as $$
begin
  perform holdfast.lock_entries(p_ids);
  perform from (select i.id from unnest(p_ids) i(id) order by i.id desc) i
  cross join lateral (select from holdfast.task_done t where t.id = i.id for update) t;
end $$;

-- Refuse what has not ended, what was never there, and a step that it never came to.
create or replace function holdfast.check_retry(p_id uuid, p_from_step text) returns void
language plpgsql
as $$
declare
  v_lifecycle smallint := (select t.lifecycle from holdfast.task_done t where t.id = p_id);
begin
  if v_lifecycle is null then
    if exists (select from holdfast.task t where t.id = p_id) then
      raise exception 'Task % has not ended.', p_id using errcode = 'TK002', hint = 'Cancel it first, or let it run.';
    end if;
    perform holdfast.refuse_missing(p_id, 'retry');
  end if;
  if exists (select from holdfast.transition x join holdfast.transition y on y.lifecycle = x.lifecycle and y.from_state = x.to_state
             where x.lifecycle = v_lifecycle and x.from_state = '' and x.verb = 'submit' and x.to_actor = 'tasks' and y.verb = 'done') then
    perform holdfast.refuse('TK002', format('Task %s gathers others, and is nothing without them.', p_id),
                            'Retry those of them that failed. A run of a graph goes again as a whole: holdfast dag retry ID');
  end if;
  if p_from_step is not null and not exists (
       select from holdfast.step_event e where e.task_id = p_id and e.step = p_from_step and e.step <> '') then
    raise exception 'Task % never came to a step %.', p_id, quote_literal(p_from_step) using errcode = 'TK015',
      hint = format('Its steps are: %s.', (
        select coalesce(string_agg(s.name, ', ' order by s.at), 'none') from holdfast.step s where s.task_id = p_id));
  end if;
end $$;

-- The same tasks again, each at the place of the old one; the first perhaps with another payload. Parents and dependencies
-- are as submit_many takes them.
create or replace function holdfast.submit_again(
  p_old uuid[], p_payload jsonb default null, p_parent uuid[] default null, p_parent_place int[] default null,
  p_waits_place int[] default null, p_waits_for uuid[] default null, p_waits_for_place int[] default null,
  p_waits_policy text[] default null) returns uuid[]
language plpgsql
as $$
declare
  v record;
begin
  select array_agg(l.name order by i.place) as lifecycle, array_agg(t.name order by i.place) as name,
         array_agg(case when i.place = 1 then coalesce(p_payload, n.payload) else n.payload end order by i.place) as payload,
         array_agg(t.queue order by i.place) as queue, array_agg(t.priority::int order by i.place) as priority,
         array_agg(t.max_attempts order by i.place) as max_attempts, array_agg(t.owner order by i.place) as owner,
         array_agg(t.limit_key order by i.place) as limit_key,
         array_agg(case when t.time_limit is not null and holdfast.takes_time_limit(l.name) then t.time_limit end order by i.place) as time_limit,
         array_agg(to_jsonb(n.tags) order by i.place) as tags, array_agg(n.trace order by i.place) as trace
    into v
  from unnest(p_old) with ordinality i(id, place)
  cross join lateral (select * from holdfast.task_done t where t.id = i.id offset 0) t
  cross join lateral (select l.name from holdfast.lifecycle l where l.id = t.lifecycle offset 0) l
  cross join lateral (select n.payload, n.tags, n.trace from holdfast.input n where n.id = i.id offset 0) n;
  return array(select s.id from holdfast.submit_many(
    v.lifecycle, v.name, v.payload, v.queue, v.priority, p_max_attempts => v.max_attempts, p_owner => v.owner,
    p_parent => p_parent, p_parent_place => p_parent_place, p_limit_key => v.limit_key, p_time_limit => v.time_limit,
    p_waits_place => p_waits_place, p_waits_for => p_waits_for, p_waits_for_place => p_waits_for_place,
    p_waits_policy => p_waits_policy, p_tags => v.tags, p_trace => v.trace) s order by s.place);
end $$;

-- Each new task remembers the old one, inherits its steps, and stands in its inbox entries. A step to begin with, and
-- another payload, are the first one's.
create or replace function holdfast.link_retries(
  p_old uuid[], p_new uuid[], p_by text, p_from_step text default null, p_payload jsonb default null, p_note text default null)
returns void
language plpgsql
as $$
declare
  v_number int;
  v_diff jsonb;
begin
  v_diff := (select holdfast.diff(i.payload, p_payload) from holdfast.input i where i.id = p_old[1] and i.payload <> p_payload);
  if p_from_step is not null then
    v_number := (select e.number from holdfast.step_event e
                 where e.task_id = p_old[1] and e.step = p_from_step and e.step <> '' order by e.number limit 1);
  elsif v_diff is not null then
    v_number := 0;
  end if;
  update holdfast.input i set retry_of = p_old[array_position(p_new, i.id)] where i.id = any (p_new);
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select r.new, 1, '', 'requeued', 1, jsonb_build_object(
    'from', r.old, 'by', p_by, 'from_step', case when r.place = 1 then p_from_step end, 'diff', case when r.place = 1 then v_diff end)
  from unnest(p_old, p_new) with ordinality r(old, new, place);
  with kept as (
    select r.old, r.new, s.name, s.attempt, s.token, s.result, s.at, e.number
    from unnest(p_old, p_new) with ordinality r(old, new, place)
    cross join lateral (select * from holdfast.step s where s.task_id = r.old and s.done offset 0) s
    cross join lateral (
      select max(e.number) as number from holdfast.step_event e
      where e.task_id = r.old and e.step = s.name and e.kind in ('step_completed', 'step_inherited')) e
    where v_number is null or r.place > 1 or e.number < v_number
  ), inherited as (
    insert into holdfast.step (task_id, name, done, attempt, token, result, at)
    select k.new, k.name, true, k.attempt, k.token, k.result, k.at from kept k order by k.new, k.number
  )
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select k.new, 1 + row_number() over (partition by k.new order by k.number, k.name), k.name, 'step_inherited', k.attempt,
         jsonb_build_object('from', k.old)
  from kept k;
  perform holdfast.run_effects(array_agg(l.effects), array_agg((
      t.id, l.name, t.name, t.owner, 'retried', null, t.state, t.state, t.attempt, null,
      jsonb_build_object('from', r.old, 'from_step', case when r.place = 1 then p_from_step end))::holdfast.moved order by r.place))
  from unnest(p_old, p_new) with ordinality r(old, new, place)
  cross join lateral (select * from holdfast.task t where t.id = r.new offset 0) t
  join holdfast.lifecycle l on l.id = t.lifecycle where l.effects is not null
  having count(*) > 0;
  update holdfast.inbox n set resolved_at = holdfast.now(), resolved_by = p_by, resolution = 'retried', note = p_note,
    retried_as = r.new, diff = case when r.place = 1 then v_diff end
  from unnest(p_old, p_new) with ordinality r(old, new, place)
  where n.task_id = r.old and n.resolved_at is null;
end $$;

-- What was changed, as a list of {path, before?, after?}: the path is a JSON pointer, a side that has nothing there is
-- missing. Long values are cut, and so is the list: its last element then tells how many `more` there are.
create or replace function holdfast.diff(p_before jsonb, p_after jsonb) returns jsonb
language sql immutable
as $$
  with recursive pair(path, before, after, depth) as (
    select '', p_before, p_after, 0
    union all
    select p.path || '/' || replace(replace(k.key, '~', '~0'), '/', '~1'), k.before, k.after, p.depth + 1
    from pair p
    cross join lateral (
      select case when jsonb_typeof(p.before) = jsonb_typeof(p.after) then jsonb_typeof(p.before) end as kind) t
    cross join lateral (
      select o.key, p.before -> o.key as before, p.after -> o.key as after
      from (select jsonb_object_keys(case t.kind when 'object' then p.before else '{}' end) as key
            union select jsonb_object_keys(case t.kind when 'object' then p.after else '{}' end)) o
      union all
      select a.place::text, p.before -> a.place, p.after -> a.place
      from generate_series(0, case t.kind when 'array'
        then greatest(jsonb_array_length(p.before), jsonb_array_length(p.after)) else 0 end - 1) a(place)) k
    where p.depth < 20 and k.before is distinct from k.after
  ), change as (
    select p.path, holdfast.shorten(p.before) as before, holdfast.shorten(p.after) as after,
           row_number() over (order by p.path) as place, count(*) over () as number
    from pair p
    where p.before is distinct from p.after
      and (p.depth = 20 or jsonb_typeof(p.before) is distinct from jsonb_typeof(p.after)
           or jsonb_typeof(p.before) not in ('object', 'array'))
  )
  select coalesce(jsonb_agg(case when c.place > 100 then jsonb_build_object('more', c.number - 100)
    else jsonb_build_object('path', c.path)
      || case when c.before is null then '{}' else jsonb_build_object('before', c.before) end
      || case when c.after is null then '{}' else jsonb_build_object('after', c.after) end end order by c.place), '[]')
  from change c where c.place <= 101
$$;

-- A value that is shown beside others: as it is, or the beginning of its text.
create or replace function holdfast.shorten(p_value jsonb) returns jsonb
language sql immutable
as $$
  select case when length(p_value #>> '{}') > 200 then to_jsonb(left(p_value #>> '{}', 200) || '…') else p_value end
$$;
