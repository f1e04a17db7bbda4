-- move.sql: the one way in which tasks that this transaction has locked go from one state to the next.
-- Called by every verb but submit, claim and checkpoint. Locks the tasks that wait for those that end, dependents before
-- parents; every look at others is a statement of its own, so that it sees what was committed while we waited.

-- Move each task by its verb. What a move means for the row follows from the verb, here and nowhere else. A due time of
-- null leaves it as it was. Answers who has ended (and who of them badly), who now waits for other tasks, and which
-- limits have room.
create or replace function holdfast.apply_moves(
  p_id uuid[], p_verb text[], p_due timestamptz[], p_note jsonb[],
  p_result jsonb[] default null, p_token uuid[] default null, p_hash bytea[] default null,
  out ended uuid[], out badly uuid[], out waiting uuid[], out limits text[])
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  v_ended int;
  v_moved int;
  v_limits text[];
begin
  select e.ended, e.badly, e.limits, coalesce(cardinality(e.ended), 0) into ended, badly, limits, v_ended
  from holdfast.end_tasks(p_id, null, p_token, p_verb, p_note, p_result, p_hash) e;
  if v_ended = cardinality(p_id) then
    return;
  end if;
  with m as materialized (
    select t.id, t.actor, t.limit_key, i.move, i.due, i.note as new_note, x.to_state, x.to_actor, x.bump,
           case when x.to_state <> t.state then v_now + l.time_limit
                when i.move = 'limit' then null
                when x.to_limit_in_all is not null then least(v_now + l.time_limit, t.entered_at + x.to_limit_in_all)
                else t.deadline end as to_deadline
    from unnest(p_id, p_verb, p_due, p_note) i(id, move, due, note)
    cross join lateral (select * from holdfast.task t where t.id = i.id offset 0) t
    cross join lateral (
      select * from holdfast.transition x
      where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = i.move offset 0) x
    cross join lateral (
      select case when x.to_limit_per_task then coalesce(t.time_limit, x.to_limit) else x.to_limit end as time_limit) l
  ), forgotten as (
    delete from holdfast.setback s where s.task_id = any (array(select m.id from m))
  ), moved as (
    update holdfast.task t set
      from_state = t.state, verb = m.move, version = t.version + 1, note = m.new_note,
      state = m.to_state, actor = m.to_actor, deadline = m.to_deadline,
      entered_at = case when m.to_state = t.state then t.entered_at else v_now end,
      due_at = coalesce(m.due, t.due_at),
      timed_out = m.move = 'limit' or (t.timed_out and m.to_state = t.state),
      cancel_requested = t.cancel_requested or m.move = 'ask_cancel',
      attempt = t.attempt + m.bump,
      failures = t.failures + (m.move = 'retry' and m.new_note ->> 'step' is null)::int,
      crashes = t.crashes + (m.move = 'lost')::int,
      limited_since = case when m.move in ('park', 'admit', 'ask_cancel') then t.limited_since
                           when m.new_note ->> 'category' = 'RateLimited'
                             then coalesce(holdfast.limited_since(t.id, t.limited_since), v_now) end,
      lease_token = case when m.move = 'ask_cancel' then t.lease_token end,
      lease_expires_at = case when m.move = 'ask_cancel' then t.lease_expires_at end,
      parked = case when m.to_actor <> 'worker' or m.move = 'ask_cancel' then null
                    when m.move = 'park' then 'unknown'
                    when t.limit_key is null or (m.move = 'admit' and t.parked = 'limit') then null
                    else 'limit' end
    from m where t.id = m.id
      and t.id = any (array(select m.id from m))  -- bounds the scan whatever the join order
  )
  select count(*), array_agg(m.id) filter (where m.to_actor = 'tasks'),
         array_agg(distinct m.limit_key) filter (where m.limit_key is not null and m.move not in ('admit', 'ask_cancel'))
    into v_moved, waiting, v_limits
  from m;
  limits := limits || v_limits;
  if v_ended + v_moved <> cardinality(p_id) then
    raise exception 'This move is not declared: %.',
      (select string_agg(distinct format('%s from %s', i.verb, coalesce(t.state, 'nowhere')), ', ')
       from unnest(p_id, p_verb) i(id, verb) left join holdfast.task t on t.id = i.id)
      using errcode = 'TK002', hint = 'Declare it in the lifecycle, or use a verb that it has.';
  end if;
end $$;

-- Those of these tasks whose verb ends them leave the live table for that of the finished ones. Where an attempt is given,
-- it and the token are the fence, and those whose lifecycle has effects stay; without one the caller has locked them. The
-- youngest go first, as everywhere.
create or replace function holdfast.end_tasks(
  p_id uuid[], p_attempt int[], p_token uuid[], p_verb text[], p_note jsonb[], p_result jsonb[], p_hash bytea[],
  out ended uuid[], out badly uuid[], out limits text[], out states text[], out versions int[],
  out attempts int[], out tokens uuid[])
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
begin
  with m as materialized (
    select t.*, i.move, i.note as new_note, i.result, i.held, i.hash, x.to_state, x.to_outcome
    from (select distinct on (i.id, i.held, i.number) *
          from unnest(p_id, p_attempt, p_token, p_verb, p_note, p_result, p_hash)
            i(id, number, held, move, note, result, hash)
          order by i.id desc, i.held, i.number) i
    cross join lateral (
      select * from holdfast.task t
      where t.id = i.id and (i.number is null or (t.attempt = i.number and t.lease_token = i.held)) for update) t
    cross join lateral (
      select x.to_state, x.to_outcome from holdfast.transition x
      where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = i.move and x.to_actor = 'nobody'
        and (i.number is null or x.effects is null) offset 0) x
  ), gone as (
    delete from holdfast.task t where t.id = any (array(select m.id from m))
  ), done as (
    insert into holdfast.task_done (
      id, lifecycle, name, owner, state, actor, from_state, verb, version, note, queue, priority, due_at, deadline,
      entered_at, time_limit, timed_out, cancel_requested, attempt, max_attempts, failures, crashes, limited_since,
      worker_id, limit_key, created_at, started_at, finished_at, outcome, token, body_hash, result)
    select m.id, m.lifecycle, m.name, m.owner, m.to_state, 'nobody', m.state, m.move, m.version + 1, m.new_note, m.queue,
           m.priority, m.due_at, m.deadline, v_now, m.time_limit, m.move = 'limit', m.cancel_requested, m.attempt,
           m.max_attempts, m.failures, m.crashes, m.limited_since, m.worker_id, m.limit_key, m.created_at, m.started_at,
           v_now, m.to_outcome, m.held, m.hash, m.result
    from m
  ), failed as (
    insert into holdfast.inbox (task_id, lifecycle, name, owner, state, step, category, signature, error)
    select m.id, e.lifecycle, m.name, m.owner, m.state, e.error ->> 'step', coalesce(e.error ->> 'category', 'Fatal'),
           holdfast.signature(e.lifecycle, m.name, e.error), e.error
    from m cross join lateral (
      select coalesce(m.new_note, m.result) as error,
             (select l.name from holdfast.lifecycle l where l.id = m.lifecycle) as lifecycle) e
    where m.to_outcome = 'failed' and m.actor = 'worker'
  )
  select array_agg(m.id), array_agg(m.id) filter (where m.to_outcome in ('failed', 'cancelled')),
         array_agg(distinct m.limit_key) filter (where m.limit_key is not null),
         array_agg(m.to_state), array_agg(m.version + 1), array_agg(m.attempt), array_agg(m.held)
    into ended, badly, limits, states, versions, attempts, tokens
  from m;
  if ended is not null and exists (select from holdfast.setback) then
    delete from holdfast.setback s where s.task_id = any (ended);
  end if;
end $$;

-- Since when a task is asked to slow down, unless it has got on with a step meanwhile.
create or replace function holdfast.limited_since(p_id uuid, p_since timestamptz) returns timestamptz
language sql stable
as $$
  select p_since where not exists (
    select from holdfast.step s where s.task_id = p_id and s.done and s.at > p_since)
$$;

-- Move, and let follow what follows.
create or replace function holdfast.move(
  p_id uuid[], p_verb text[], p_due timestamptz[], p_note jsonb[],
  p_result jsonb[] default null, p_token uuid[] default null, p_hash bytea[] default null)
returns void
language plpgsql
as $$
begin
  if cardinality(p_id) > 0 then
    perform holdfast.cascade(a.ended, a.badly, a.waiting, a.limits)
    from holdfast.apply_moves(p_id, p_verb, p_due, p_note, p_result, p_token, p_hash) a;
  end if;
end $$;

-- Tasks that waited for those that ended go on or end in turn, children of a parent that ended badly are cancelled, and
-- the next in line takes a place that became free. A loop, not a recursion: a chain of ten thousand may end at once.
create or replace function holdfast.cascade(
  p_ended uuid[], p_badly uuid[], p_waiting uuid[], p_limits text[], p_admit bool default true) returns void
language plpgsql
as $$
declare
  v_next record;
begin
  loop
    v_next := holdfast.find_cascade(p_ended, p_badly, p_waiting);
    exit when v_next.id is null;
    select a.ended, a.badly, a.waiting, p_limits || a.limits into p_ended, p_badly, p_waiting, p_limits
    from holdfast.apply_each(v_next.id, v_next.verb, v_next.note, v_next.result, false) a;
  end loop;
  if p_limits is not null and p_admit then
    perform holdfast.admit(p_limits);
  end if;
end $$;

-- Apply all of these moves; if the effects of one refuse, apply them one by one and set that one aside: it must not undo
-- the others, nor what they waited for. A lock that is not to be had is raised, or leaves its task as it is.
create or replace function holdfast.apply_each(
  p_id uuid[], p_verb text[], p_note jsonb[], p_result jsonb[], p_skip_locked bool,
  out ended uuid[], out badly uuid[], out waiting uuid[], out limits text[], out moved int)
language plpgsql
as $$
#variable_conflict use_variable
declare
  v record;
begin
  begin
    select a.ended, a.badly, a.waiting, a.limits into ended, badly, waiting, limits
    from holdfast.apply_moves(p_id, p_verb, null, p_note, p_result) a;
    moved := cardinality(p_id);
    return;
  exception
    when deadlock_detected or serialization_failure then
      raise;
    when others then
      if sqlstate = '55P03' and not p_skip_locked then
        raise;
      end if;
  end;
  moved := 0;
  for i in 1 .. cardinality(p_id) loop
    begin
      select a.* into v from holdfast.apply_moves(p_id[i:i], p_verb[i:i], null, p_note[i:i], p_result[i:i]) a;
      ended := ended || v.ended;
      badly := badly || v.badly;
      waiting := waiting || v.waiting;
      limits := limits || v.limits;
      moved := moved + 1;
    exception
      when deadlock_detected or serialization_failure then
        raise;
      when lock_not_available then
        if not p_skip_locked then
          raise;
        end if;
      when others then
        perform holdfast.quarantine(p_id[i], p_verb[i], sqlerrm);
    end;
  end loop;
end $$;

-- Which tasks move because these have ended, or because they have just begun to wait for others.
create or replace function holdfast.find_cascade(
  p_ended uuid[], p_badly uuid[], p_waiting uuid[], out id uuid[], out verb text[], out note jsonb[], out result jsonb[])
language plpgsql
as $$
#variable_conflict use_column
declare
  v_check uuid[] := coalesce(p_waiting, '{}');
  v_orphans uuid[] := '{}';
  v_locked uuid[];
begin
  if p_ended is not null then
    with released as (
      update holdfast.dependency d
      set outcome = (select q.outcome from holdfast.task_done q where q.id = d.upstream)
      where d.upstream = any (p_ended) and d.outcome is null
      returning d.downstream
    )
    select v_check || coalesce(array_agg(distinct t.downstream), '{}') into v_check from released t;
  end if;
  if p_badly is not null then
    select coalesce(array_agg(d.upstream), '{}') into v_orphans
    from unnest(p_badly) e(id)
    cross join lateral (
      select d.upstream from holdfast.dependency d
      where d.downstream = e.id and d.policy = 'gather' and d.outcome is null offset 0) d;
  end if;
  if p_waiting is not null then  -- an orphan whose cancelling was refused comes back here
    select v_orphans || coalesce(array_agg(d.upstream), '{}') into v_orphans
    from unnest(p_waiting) w(id)
    cross join lateral (
      select d.upstream, d.downstream from holdfast.dependency d
      where d.upstream = w.id and d.policy = 'gather' offset 0) d
    where (select q.outcome from holdfast.task_done q where q.id = d.downstream) in ('failed', 'cancelled');
  end if;
  if cardinality(v_check || v_orphans) = 0 then
    return;
  end if;
  perform holdfast.need_read_committed();

  -- Lock, then look: what a rival committed before it gave us the lock is seen only by a new statement. By id alone: a
  -- state in this condition would be the one before somebody moved it, and the row would not be waited for. FOR UPDATE,
  -- because a transaction that submits a child holds KEY SHARE on its parent. Dependents before parents: everybody goes from the
  -- leaves to the root.
  select array_agg(t.id) into v_locked
  from (select c.id from (select distinct unnest(v_check || v_orphans) as id) c
        order by exists (select from holdfast.dependency d where d.downstream = c.id and d.policy = 'gather'), c.id) c
  cross join lateral (select t.id from holdfast.task t where t.id = c.id for update) t;
  select array_agg(f.id), array_agg(f.verb), array_agg(f.note), array_agg(f.result) into id, verb, note, result
  from unnest(v_locked) l(id)
  cross join lateral (select * from holdfast.task t where t.id = l.id offset 0) t
  cross join lateral (select t.id = any (v_orphans) and not t.cancel_requested as orphaned) o
  cross join lateral (
    select t.id, case when t.lease_token is null then 'cancel' else 'ask_cancel' end as verb,
           jsonb_build_object('kind', 'parent_ended', 'reason', format('Its parent %s ended badly.', (
             select min(d.downstream::text) from holdfast.dependency d where d.upstream = t.id and d.policy = 'gather')))
             as note, null::jsonb as result
    where o.orphaned
    union all
    select v.* from holdfast.resolve_blocked(t.id) v where t.actor::text = 'tasks' and not o.orphaned
  ) f
  where f.verb is not null;
end $$;

-- Lock the open children of these tasks, and theirs, from the leaves up: so does a child that ends.
create or replace function holdfast.lock_children(p_id uuid[]) returns void
language plpgsql
as $$
begin
  perform from (
    with recursive family(id, depth) as (
      select d.upstream, 1 from unnest(p_id) i(id)
      cross join lateral (
        select d.upstream from holdfast.dependency d
        where d.downstream = i.id and d.policy = 'gather' and d.outcome is null offset 0) d
      union all
      select d.upstream, f.depth + 1 from family f
      cross join lateral (
        select d.upstream from holdfast.dependency d
        where d.downstream = f.id and d.policy = 'gather' and d.outcome is null offset 0) d
    )
    select f.id from family f group by f.id order by max(f.depth) desc, f.id) c
  cross join lateral (select from holdfast.task t where t.id = c.id for update) t;
end $$;

-- What becomes of a locked task that waits for others: null while it has to wait on.
create or replace function holdfast.resolve_blocked(p_id uuid, out id uuid, out verb text, out note jsonb, out result jsonb)
language plpgsql
as $$
#variable_conflict use_variable
declare
  v_gathers bool;
  v_bad record;
begin
  select p_id, (select x.to_state from holdfast.transition x
                where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'unblock') is null
    into id, v_gathers
  from holdfast.task t where t.id = p_id;
  if v_gathers then
    if exists (select from holdfast.dependency d
               where d.downstream = p_id and d.policy = 'gather' and d.outcome is null) then
      return;
    end if;
    select jsonb_object_agg(c.outcome, c.number),
           case when bool_and(c.outcome = 'done') is not false then 'done'
                when bool_and(c.outcome in ('failed', 'cancelled')) then 'fail' else 'partial' end
      into result, verb
    from (select d.outcome, count(*) as number from holdfast.dependency d
          where d.downstream = p_id and d.policy = 'gather' group by d.outcome) c;
    return;
  end if;
  select d.policy, d.upstream, d.outcome into v_bad from holdfast.dependency d
  where d.downstream = p_id and d.policy in ('cancel', 'skip') and d.outcome in ('failed', 'cancelled')
  order by d.policy, d.upstream limit 1;
  if found then
    verb := v_bad.policy;
    note := jsonb_build_object('kind', case v_bad.policy when 'skip' then 'skipped' else 'upstream_ended' end,
                               'upstream', v_bad.upstream, 'outcome', v_bad.outcome,
                               'reason', format('It waited for %s, which %s.', v_bad.upstream,
                                 case v_bad.outcome when 'failed' then 'failed' else 'was cancelled' end));
  elsif not exists (select from holdfast.dependency d
                    where d.downstream = p_id and d.policy <> 'gather' and d.outcome is null) then
    verb := 'unblock';
  end if;
end $$;

-- A task whose move was refused by its lifecycle's effects: it is tried again later, does not stand in the way of others
-- meanwhile, and it stands in the inbox.
create or replace function holdfast.quarantine(p_id uuid, p_verb text, p_error text) returns void
language plpgsql
as $$
declare
  v_first bool;
begin
  insert into holdfast.setback as s (task_id, verb, error, until)
  values (p_id, p_verb, p_error, holdfast.now() + interval '10 seconds')
  on conflict (task_id) do update set verb = excluded.verb, error = excluded.error, times = s.times + 1,
    until = holdfast.now() + holdfast.doubled('10 seconds', s.times, '1 hour')
  returning s.times = 1 into v_first;
  if v_first then
    perform holdfast.add_to_inbox(p_id, jsonb_build_object('kind', 'effects_refused', 'verb', p_verb, 'message', p_error));
  end if;
end $$;

-- What a person must see of a task, beside the failure that ends it.
create or replace function holdfast.add_to_inbox(p_id uuid, p_error jsonb, p_state text default null) returns void
language sql
as $$
  insert into holdfast.inbox (task_id, lifecycle, name, owner, state, step, category, signature, error)
  select t.id, l.name, t.name, t.owner, coalesce(p_state, t.state), p_error ->> 'step', 'Fatal',
         holdfast.signature(l.name, t.name, p_error), p_error
  from holdfast.find_task(p_id) t join holdfast.lifecycle l on l.id = t.lifecycle
$$;

-- "Lock, then look" needs a snapshot per statement.
create or replace function holdfast.need_read_committed() returns void
language plpgsql
as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise exception 'This needs a transaction at READ COMMITTED, not at %.', upper(current_setting('transaction_isolation'))
      using errcode = 'TK010', hint = 'begin isolation level read committed; or: alter role <role> set'
        ' default_transaction_isolation = ''read committed''.';
  end if;
end $$;
