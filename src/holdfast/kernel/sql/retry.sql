-- retry.sql: a finished task runs again, as a new task that remembers the old one. Nothing leaves a final state.
-- Called by owners and operators. Reads the old task, which never changes; marks its inbox entry as handled.

-- The steps that were completed before `from_step` began are inherited (all of them without one), and so is the payload
-- unless another is given.
create or replace function holdfast.retry(
  p_id uuid, p_from_step text default null, p_payload jsonb default null, p_by text default null)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
set timezone = 'UTC'
as $$
declare
  v_old record;
  v_number int;
  v_new uuid;
begin
  select t.*, l.name as machine, i.payload, i.tags, i.trace into v_old from holdfast.task_done t
  join holdfast.lifecycle l on l.id = t.lifecycle join holdfast.input i on i.id = t.id
  where t.id = p_id;
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
  v_new := holdfast.submit(
    v_old.name, coalesce(p_payload, v_old.payload), v_old.machine, v_old.queue, v_old.priority,
    max_attempts => v_old.max_attempts, owner => v_old.owner, limit_key => v_old.limit_key,
    time_limit => case when holdfast.takes_time_limit(v_old.machine) then v_old.time_limit end, tags => v_old.tags, trace => v_old.trace);
  update holdfast.input i set retry_of = p_id where i.id = v_new;
  with inherited as (
    insert into holdfast.step (task_id, name, done, attempt, token, result, at)
    select v_new, s.name, true, s.attempt, s.token, s.result, s.at
    from holdfast.step s
    cross join lateral (
      select max(e.number) as number from holdfast.step_event e
      where e.task_id = p_id and e.step = s.name and e.kind in ('step_completed', 'step_inherited')) e
    where s.task_id = p_id and s.done and (v_number is null or e.number < v_number)
    order by e.number
    returning name, at, attempt
  )
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select v_new, row_number() over (order by i.at, i.name), i.name, 'step_inherited', i.attempt,
         jsonb_build_object('from', p_id)
  from inherited i;
  update holdfast.inbox n set resolved_at = holdfast.now(), resolved_by = p_by, resolution = 'retried',
    note = format('Retried as %s.', v_new)
  where n.task_id = p_id and n.resolved_at is null;
  return v_new;
end $$;

grant execute on function holdfast.retry(uuid, text, jsonb, text) to holdfast_app;
