-- complete.sql: what a worker reports at the end of an attempt, as one call; and why a worker is refused, in words.
-- Called over HTTP, where a worker sends the events of its attempt along with the outcome.

-- Record the events and settle, both or neither. Raises what stands in the way; the same again has the same answer.
create or replace function holdfast.complete(
  p_id uuid, p_attempt int, p_token uuid, p_outcome text, p_category text default null, p_step text default null,
  p_delay interval default null, p_body jsonb default null,
  p_event_kind text[] default '{}', p_event_step text[] default null, p_event_data jsonb[] default null)
returns table (task_id uuid, status text, state text, version int, attempt int, due_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_events int := coalesce(cardinality(p_event_kind), 0);
  v_settled record;
begin
  if v_events > 0 then
    perform holdfast.lock_children(array[p_id]);  -- before the task itself, as everybody does
    perform holdfast.record(array_fill(p_id, array[v_events]), array_fill(p_attempt, array[v_events]),
                            array_fill(p_token, array[v_events]), p_event_step, p_event_kind, p_event_data);
  end if;
  select * into v_settled from holdfast.settle(
    array[p_id], array[p_attempt], array[p_token], array[p_outcome], p_delay => array[p_delay],
    p_category => array[p_category], p_step => array[p_step], p_body => array[p_body]) s;
  if v_settled.status = 'lost' then
    -- Answered, not raised: the refusal is counted.
    return query select p_id, case when t.attempt = p_attempt then 'lost' else 'stale' end, t.state, t.version, t.attempt,
                        null::timestamptz
    from (select 1) one left join holdfast.task t on t.id = p_id;
  elsif v_settled.status in ('ok', 'repeat') then
    return query select v_settled.task_id, v_settled.status, v_settled.state, v_settled.version, v_settled.attempt,
                        v_settled.due_at;
  else
    perform holdfast.refuse('TK002', format('From where task %s is, %s leads nowhere.', p_id, p_outcome),
                            'See what its lifecycle declares.');
  end if;
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
    perform holdfast.refuse('TK007', v_why.sentence, 'Drop the wake-up that named it: whoever holds the task settles it.');
  end if;
  perform holdfast.refuse('TK006', format('Task %s is %s. %s', p_id, v_why.state, v_why.sentence), v_why.fix);
end $$;

grant execute on function
  holdfast.complete(uuid, int, uuid, text, text, text, interval, jsonb, text[], text[], jsonb[]),
  holdfast.refuse_claim(uuid) to holdfast_app;
