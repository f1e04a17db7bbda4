-- complete.sql: what a worker reports at the end of attempts, as one call; and why a worker is refused, in words.
-- Called over HTTP, where a worker sends the events of an attempt along with its outcome.

-- Record the events and settle, both or neither, each task for itself. status: ok; repeat (the same answer as before); lost
-- (the lease), stale (the attempt). What no lifecycle allows is raised, and then nothing of the call was written.
create or replace function holdfast.complete(
  p_id uuid[], p_attempt int[], p_token uuid[], p_outcome text[], p_category text[] default null,
  p_step text[] default null, p_delay interval[] default null, p_body jsonb[] default null,
  p_event_task uuid[] default '{}', p_event_kind text[] default '{}', p_event_step text[] default null,
  p_event_data jsonb[] default null)
returns table (task_id uuid, status text, state text, version int, attempt int, due_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_settled record;
  v_place int;
begin
  if exists (select from unnest(p_id) i(id) group by i.id having count(*) > 1) then
    perform holdfast.refuse('TK010', 'A task stands twice in one call.', 'An attempt ends once: send each task once.');
  end if;
  if cardinality(p_event_kind) > 0 then
    -- All that settle will lock, in its order: the children first, then the youngest first.
    perform holdfast.lock_children(p_id);
    perform from (select unnest(p_id) as id order by 1 desc) i
    cross join lateral (select from holdfast.task t where t.id = i.id for update) t;
    perform holdfast.record(e.id, e.attempt, e.token, e.step, e.kind, e.data) from (
      select array_agg(i.id order by e.place) as id, array_agg(i.attempt order by e.place) as attempt,
             array_agg(i.token order by e.place) as token, array_agg(e.step order by e.place) as step,
             array_agg(e.kind order by e.place) as kind, array_agg(e.data order by e.place) as data
      from unnest(p_event_task, p_event_kind, p_event_step, p_event_data) with ordinality e(task, kind, step, data, place)
      join unnest(p_id, p_attempt, p_token) i(id, attempt, token) on i.id = e.task) e;
  end if;
  for v_settled in select * from holdfast.settle(p_id, p_attempt, p_token, p_outcome, p_delay => p_delay,
                                                 p_category => p_category, p_step => p_step, p_body => p_body) loop
    v_place := array_position(p_id, v_settled.task_id);
    if v_settled.status = 'lost' then
      -- Answered, not raised: the refusal is counted.
      return query select v_settled.task_id, case when t.attempt = p_attempt[v_place] then 'lost' else 'stale' end,
                          t.state, t.version, t.attempt, null::timestamptz
      from (select 1) one left join holdfast.task t on t.id = v_settled.task_id;
    elsif v_settled.status in ('ok', 'repeat') then
      return query select v_settled.task_id, v_settled.status, v_settled.state, v_settled.version, v_settled.attempt,
                          v_settled.due_at;
    elsif v_settled.status = 'refused' then
      perform holdfast.refuse('TK002', format('The effects of its lifecycle refuse the end of task %s.', v_settled.task_id),
                              'Send it alone to see why; nothing of this call was written.');
    else
      perform holdfast.refuse('TK002', format('From where task %s is, %s leads nowhere.', v_settled.task_id,
                                              p_outcome[v_place]), 'See what its lifecycle declares.');
    end if;
  end loop;
end $$;

-- Say why this task could not be claimed.
create or replace function holdfast.refuse_claim(p_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_why record;
begin
  select * into v_why from holdfast.explain(p_id);
  if v_why.actor = 'nobody' then
    perform holdfast.refuse('TK008', format('Task %s is %s.', p_id, v_why.state), 'Drop the wake-up that named it.');
  elsif v_why.reason in ('leased', 'cancel_pending') then
    perform holdfast.refuse('TK007', v_why.sentence, 'Drop the wake-up that named it: the worker that holds the task settles it.');
  end if;
  perform holdfast.refuse('TK006', format('Task %s is %s. %s', p_id, v_why.state, v_why.sentence), v_why.fix);
end $$;
