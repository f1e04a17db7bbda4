-- retry.sql: a finished task runs again, as a new task that remembers the old one. Nothing leaves a final state.
-- Called by owners and operators. Locks the open inbox entries of the old task by id, then the old task, which never
-- changes, so that who retries many sees it; then what submit locks. Marks its inbox entries as handled.

-- The steps that were completed before `from_step` began are inherited, and so is the payload unless another is given.
-- Without a `from_step` all of them are, unless the payload is another: they were made from the old one. The lifecycle's
-- effects are told (`retried`), and may leave some of them out.
create or replace function holdfast.retry(
  p_id uuid, p_from_step text default null, p_payload jsonb default null, p_by text default null,
  p_note text default null)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
set timezone = 'UTC'
as $$
declare
  v_old record;
  v_number int;
  v_diff jsonb;
  v_new uuid;
begin
  perform holdfast.lock_entries(array[p_id]);
  select t.*, l.name as machine, i.payload, i.tags, i.trace into v_old from holdfast.task_done t
  join holdfast.lifecycle l on l.id = t.lifecycle join holdfast.input i on i.id = t.id
  where t.id = p_id for update of t;
  if not found then
    perform t.id from holdfast.task t where t.id = p_id;
    if found then
      raise exception 'Task % has not ended.', p_id using errcode = 'TK002', hint = 'Cancel it first, or let it run.';
    end if;
    perform holdfast.refuse_missing(p_id, 'retry');
  end if;
  if p_from_step is not null then
    select e.number into v_number from holdfast.step_event e
    where e.task_id = p_id and e.step = p_from_step and e.step <> '' order by e.number limit 1;
    if not found then
      raise exception 'Task % never came to a step %.', p_id, quote_literal(p_from_step) using errcode = 'TK015',
        hint = format('Its steps are: %s.', (
          select coalesce(string_agg(s.name, ', ' order by s.at), 'none') from holdfast.step s where s.task_id = p_id));
    end if;
  end if;
  if p_payload <> v_old.payload then
    v_diff := holdfast.diff(v_old.payload, p_payload);
    if p_from_step is null then
      v_number := 0;
    end if;
  end if;
  v_new := holdfast.submit(
    v_old.name, coalesce(p_payload, v_old.payload), v_old.machine, v_old.queue, v_old.priority,
    max_attempts => v_old.max_attempts, owner => v_old.owner, limit_key => v_old.limit_key,
    time_limit => case when holdfast.takes_time_limit(v_old.machine) then v_old.time_limit end, tags => v_old.tags, trace => v_old.trace);
  update holdfast.input i set retry_of = p_id where i.id = v_new;
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  values (v_new, 1, '', 'requeued', 1, jsonb_build_object(
    'from', p_id, 'by', p_by, 'from_step', p_from_step, 'diff', v_diff));
  with kept as (
    select s.name, s.attempt, s.token, s.result, s.at, e.number
    from holdfast.step s
    cross join lateral (
      select max(e.number) as number from holdfast.step_event e
      where e.task_id = p_id and e.step = s.name and e.kind in ('step_completed', 'step_inherited')) e
    where s.task_id = p_id and s.done and (v_number is null or e.number < v_number)
  ), inherited as (
    insert into holdfast.step (task_id, name, done, attempt, token, result, at)
    select v_new, k.name, true, k.attempt, k.token, k.result, k.at from kept k order by k.number
  )
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select v_new, 1 + row_number() over (order by k.number, k.name), k.name, 'step_inherited', k.attempt,
         jsonb_build_object('from', p_id)
  from kept k;
  perform holdfast.run_effects(array[l.effects], array[(
      v_new, v_old.machine, v_old.name, v_old.owner, 'retried', null, t.state, t.state, t.attempt, null,
      jsonb_build_object('from', p_id, 'from_step', p_from_step))::holdfast.moved])
  from holdfast.task t join holdfast.lifecycle l on l.id = t.lifecycle where t.id = v_new and l.effects is not null;
  update holdfast.inbox n set resolved_at = holdfast.now(), resolved_by = p_by, resolution = 'retried', note = p_note,
    retried_as = v_new, diff = v_diff
  where n.task_id = p_id and n.resolved_at is null;
  return v_new;
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
    select p.path, holdfast.cut(p.before) as before, holdfast.cut(p.after) as after,
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
create or replace function holdfast.cut(p_value jsonb) returns jsonb
language sql immutable
as $$
  select case when length(p_value #>> '{}') > 200 then to_jsonb(left(p_value #>> '{}', 200) || '…') else p_value end
$$;

grant execute on function holdfast.retry(uuid, text, jsonb, text, text) to holdfast_app;
