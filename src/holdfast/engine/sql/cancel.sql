-- cancel.sql: a task that no worker holds is cancelled at once; the holder of another learns of it with its next heartbeat.
-- Called by owners and operators, one task per transaction. Locks its children before the task itself, as a child that
-- ends does; then the tasks that wait for it.

-- effect: cancelled, requested (a worker holds it), or too_late (it has ended, or its time limit has passed).
create or replace function holdfast.cancel(p_id uuid, p_reason text default null, p_by text default null)
returns table (effect text, state text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_task record;
  v_note jsonb := jsonb_strip_nulls(jsonb_build_object('kind', 'cancelled', 'reason', p_reason, 'by', p_by));
begin
  perform holdfast.check_value(v_note);
  perform holdfast.lock_children(array[p_id]);
  select t.lifecycle, t.state, t.lease_token, t.cancel_requested, t.deadline,
         (select x.to_actor from holdfast.transition x
          where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'limit') = 'nobody' as limit_ends
    into v_task
  from holdfast.task t where t.id = p_id for update;
  if not found then
    return query select 'too_late', t.state from holdfast.task_done t where t.id = p_id;
    if not found then
      perform holdfast.refuse_missing(p_id, 'cancel');
    end if;
  elsif v_task.lease_token is null and v_task.deadline <= holdfast.now() and v_task.limit_ends then
    perform holdfast.move(array[p_id], array['limit'], null, array[holdfast.time_limit_note(v_task.lifecycle, v_task.state)]);
    return query select 'too_late', t.state from holdfast.task_done t where t.id = p_id;
  elsif v_task.lease_token is null then
    perform holdfast.move(array[p_id], array['cancel'], null, array[v_note]);
    return query select 'cancelled', t.state from holdfast.task_done t where t.id = p_id;
  else
    if not v_task.cancel_requested then
      perform holdfast.move(array[p_id], array['ask_cancel'], null, array[v_note]);
    end if;
    return query select 'requested', v_task.state;
  end if;
end $$;

-- A note, and in it what was said when cancelling was asked for: that goes along to the end that follows.
create or replace function holdfast.cancel_note(p_id uuid, p_note jsonb) returns jsonb
language sql stable
as $$
  select case when jsonb_typeof(p_note) = 'object' then p_note else '{}' end || coalesce((select e.data from holdfast.event e where e.task_id = p_id and e.verb = 'ask_cancel'
                   order by e.version desc limit 1), '{"kind": "cancelled"}')
$$;
