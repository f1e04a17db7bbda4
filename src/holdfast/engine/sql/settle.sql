-- settle.sql: the ways in which a worker ends its lease, and what follows from each.
-- Called by workers. Locks the tasks, the youngest first; the token and the attempt in the WHERE are the fence. Waits two
-- seconds for a lock: another transaction may hold a task for as long as it likes, and a worker goes on.

-- outcome: done, partial, moved (`to`), later (at `due`, or after `delay`), failed (`category`, in `step` if it was one),
-- cancelled. The body is the result, or the error {code?, message}, or why it waits
-- {kind?, message?, steps?}: of `steps` that others do, one that is done is not waited for.
-- status: ok; repeat (this very settle was accepted before: the same answer); lost (the lease); undeclared (the move);
-- unknown_state; refused (by the lifecycle's effects; alone in a call it is raised). What is not ok has changed nothing.
create or replace function holdfast.settle(
  p_id uuid[], p_attempt int[], p_token uuid[], p_outcome text[], p_to text[] default null,
  p_delay interval[] default null, p_due timestamptz[] default null, p_category text[] default null,
  p_step text[] default null, p_body jsonb[] default null)
returns table (task_id uuid, status text, state text, version int, attempt int, due_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_over record;
  v_ended uuid[];
  v_tokens uuid[];
  v_rest holdfast.settlement[];
begin
  perform holdfast.check_lengths(cardinality(p_id), coalesce(cardinality(p_attempt), 0), coalesce(cardinality(p_token), 0),
    coalesce(cardinality(p_outcome), 0), cardinality(p_to), cardinality(p_delay), cardinality(p_due),
    cardinality(p_category), cardinality(p_step), cardinality(p_body));
  perform holdfast.check_settle(p_outcome, p_delay, p_due, p_category, p_step, p_body);
  if p_outcome <@ array['done', 'partial'] then
    -- By far the most common: one statement ends them all but those whose effects may refuse. Whatever it leaves is
    -- looked into below.
    select * into v_over from holdfast.end_tasks(p_id, p_attempt, p_token, p_outcome, null, p_body, null);
    perform holdfast.cascade(v_over.ended, v_over.badly, null, v_over.limits);
    return query select o.id, 'ok', o.state, o.version, o.attempt, null::timestamptz
    from unnest(v_over.ended, v_over.states, v_over.versions, v_over.attempts) o(id, state, version, attempt);
    v_ended := v_over.ended;
    v_tokens := v_over.tokens;
    if cardinality(v_ended) = cardinality(p_id) then
      return;
    end if;
  end if;
  select array_agg((i.id, i.attempt, i.token, i.outcome, i.target, i.delay, i.due, i.category, i.step, i.body)::holdfast.settlement)
    into v_rest
  from unnest(p_id, p_attempt, p_token, p_outcome, p_to, p_delay, p_due, p_category, p_step, p_body)
    i(id, attempt, token, outcome, target, delay, due, category, step, body)
  left join unnest(v_ended, v_tokens) o(id, token) on o.id = i.id and o.token = i.token where o.id is null;
  return query select s.* from holdfast.settle_each(v_rest, cardinality(p_id) = 1) s;
end $$;

-- The same for any mixture of outcomes: lock, then decide about each. One that came in a list (not alone) must not undo
-- the others if its effects refuse.
create or replace function holdfast.settle_each(p_settlements holdfast.settlement[], p_alone bool)
returns table (task_id uuid, status text, state text, version int, attempt int, due_at timestamptz)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_id uuid[];
  v_held uuid[];
  v_verb text[];
  v_due timestamptz[];
  v_note jsonb[];
  v_result jsonb[];
  v_token uuid[];
  v_hash bytea[];
  v_status text[];
  v_tokens uuid[];
  v_effects bool;
  i int;
begin
  if exists (select from unnest(p_settlements) s where s.outcome in ('failed', 'cancelled')) then
    perform holdfast.lock_children(array(select s.task_id from unnest(p_settlements) s));  -- open ones may end with them
  end if;
  select array_agg(r.id), array_agg(r.status), array_agg(r.token),
         array_agg(r.id) filter (where r.status = 'ok'), array_agg(r.verb) filter (where r.status = 'ok'),
         array_agg(r.due) filter (where r.status = 'ok'), array_agg(r.note) filter (where r.status = 'ok'),
         array_agg(r.result) filter (where r.status = 'ok'), array_agg(r.token) filter (where r.status = 'ok'),
         array_agg(r.hash) filter (where r.status = 'ok'), bool_or(r.effects)
    into v_id, v_status, v_tokens, v_held, v_verb, v_due, v_note, v_result, v_token, v_hash, v_effects
  from (
    select i.task_id as id, i.token, d.verb, d.due, d.note,
           case when i.outcome in ('done', 'partial', 'moved') then i.body end as result,
           case when i.outcome not in ('done', 'partial') then  -- their results are kept, and say as much
             holdfast.settlement_hash(i.whole) end as hash,
           x.effects is not null as effects,
           case when x.to_state is not null then 'ok'
                when i.outcome = 'moved' and s.name is null then 'unknown_state' else 'undeclared' end as status
    from (select distinct on (s.task_id, s.token, s.attempt) s.*, s as whole from unnest(p_settlements) s
          order by s.task_id desc, s.token, s.attempt) i  -- the youngest first: children before their parents
    cross join lateral (
      select t.lifecycle, t.state, t as whole from holdfast.task t
      where t.id = i.task_id and t.lease_token = i.token and t.attempt = i.attempt for update) t
    cross join lateral holdfast.decide(t.whole, i.whole) d
    left join lateral (
      select x.to_state, x.effects from holdfast.transition x
      where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = d.verb offset 0) x on true
    left join lateral (
      select s.name from holdfast.state s where s.lifecycle = t.lifecycle and s.name = i.target offset 0) s on true
  ) r;

  perform holdfast.block_budgets(array_agg(n.note ->> 'budget'), array_agg(n.due)) from unnest(v_note, v_due) n(note, due)
  where n.note ->> 'category' = 'RateLimited' and n.note ? 'budget' and n.note ? 'retry_at';
  if v_effects and not p_alone then
    -- By their owners: what effects lock beside a task is, as a rule, its owner's.
    for i in select h.place from unnest(v_held) with ordinality h(id, place)
             cross join lateral (select t.owner from holdfast.task t where t.id = h.id offset 0) t order by t.owner, h.place loop
      begin
        perform holdfast.log_failures(v_held[i:i], v_verb[i:i], v_due[i:i], v_note[i:i], v_token[i:i]);
        perform holdfast.move(v_held[i:i], v_verb[i:i], v_due[i:i], v_note[i:i], v_result[i:i], v_token[i:i], v_hash[i:i]);
      exception
        when deadlock_detected or serialization_failure or lock_not_available then
          raise;
        when others then
          v_status[array_position(v_id, v_held[i])] := 'refused';
      end;
    end loop;
  elsif v_held is not null then
    perform holdfast.log_failures(v_held, v_verb, v_due, v_note, v_token);
    perform holdfast.move(v_held, v_verb, v_due, v_note, v_result, v_token, v_hash);
  end if;

  return query
  select s.id, s.status, coalesce(d.state, t.state), coalesce(d.version, t.version), coalesce(d.attempt, t.attempt),
         t.due_at
  from unnest(v_id, v_status) s(id, status)
  left join lateral (select * from holdfast.task t where t.id = s.id offset 0) t on true
  left join lateral (select * from holdfast.task_done d where d.id = s.id and t.id is null offset 0) d on true;

  if coalesce(cardinality(v_id), 0) < cardinality(p_settlements) then
    return query
    with late as materialized (
      select i.task_id as id, case when d.id is null then 'lost' else 'repeat' end as status, d.state, d.version, d.attempt
      from unnest(p_settlements) i
      left join lateral (
        select * from holdfast.task_done d
        where d.id = i.task_id and d.token = i.token and d.attempt = i.attempt
          and case when d.body_hash is null then d.verb = i.outcome and d.result is not distinct from i.body
                   else d.body_hash = holdfast.settlement_hash(i) end
        offset 0) d on true
      where not exists (select from unnest(v_id, v_tokens) h(id, token) where h.id = i.task_id and h.token = i.token)
    ), counted as (
      insert into holdfast.tally (name, number)
      select 'lost', count(*) from late l where l.status = 'lost' having count(*) > 0
    )
    select l.id, l.status, l.state, l.version, l.attempt, null::timestamptz from late l;
  end if;
end $$;

-- What follows from a settlement, the same for every lifecycle: the verb, when it is due, and what is noted.
create or replace function holdfast.decide(
  t holdfast.task, s holdfast.settlement, out verb text, out due timestamptz, out note jsonb)
language plpgsql
as $$
#variable_conflict use_variable
declare
  v_now timestamptz := holdfast.now();
  v_asked timestamptz := coalesce(s.due_at, v_now + s.delay);
  v_tries int;
  v_most int;
  v_since timestamptz;
begin
  due := v_now;
  if s.outcome in ('done', 'partial') then
    verb := s.outcome;
    return;
  elsif s.outcome = 'moved' then
    verb := 'to:' || s.target;
    due := coalesce(v_asked, v_now);
    if (select x.to_outcome from holdfast.transition x
        where x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'to:' || s.target) is null then
      note := s.body;
      if t.cancel_requested then
        verb := 'cancel';
        note := holdfast.cancel_note(t.id, note);
      end if;
    end if;
    return;
  elsif s.outcome = 'cancelled' then
    verb := case when t.cancel_requested then 'cancel' end;
    note := holdfast.cancel_note(t.id, s.body);
    return;
  end if;

  note := coalesce(s.body, '{}') || jsonb_strip_nulls(jsonb_build_object('step', s.step));
  if s.outcome = 'later' then
    verb := 'later';
    due := v_asked;  -- without one it keeps its place in the queue
    -- What somebody else was to do may be done meanwhile: they saw a worker here, and left the task alone.
    if jsonb_typeof(s.body -> 'steps') = 'array' and exists (
      select from holdfast.step o where o.task_id = t.id and o.done and s.body -> 'steps' ? o.name) then
      due := v_now;
    end if;
  else
    -- Without a category it is a surprise: tried again, but not often.
    note := note || jsonb_build_object('category', coalesce(s.category, 'Transient'));
    if s.category = 'RateLimited' then
      v_since := holdfast.limited_since(t.id, t.limited_since);
      verb := case when v_now - v_since > (select l.rate_wait from holdfast.lifecycle l where l.id = t.lifecycle)
                   then 'fail' else 'later' end;
    elsif s.category is not null and s.category <> 'Transient' then
      verb := 'fail';
    else
      v_tries := 1 + case when s.step is null then t.failures else coalesce((
        select o.failures from holdfast.step o where o.task_id = t.id and o.name = s.step), 0) end;
      v_most := case when s.category is null then least(t.max_attempts, 3) else t.max_attempts end;
      verb := case when v_tries < v_most then 'retry' else 'fail' end;
    end if;
    if verb <> 'fail' then
      -- Asked to slow down, and not for how long, it waits as long again as it has waited.
      due := coalesce(v_asked, v_now + case when s.category = 'RateLimited'
        then greatest(holdfast.backoff(t.lifecycle, 1),
                      least(coalesce(v_now - v_since, interval '0'), holdfast.backoff(t.lifecycle, 60)))
        else holdfast.backoff(t.lifecycle, v_tries) end);
      note := note || jsonb_build_object('retry_at', due);
    end if;
  end if;
  -- A task that is to be cancelled ends here instead of waiting for another attempt.
  if t.cancel_requested and verb <> 'fail' then
    verb := 'cancel';
    note := holdfast.cancel_note(t.id, note);
  end if;
end $$;

-- How long a task waits after so many tries: up to a tenth longer by chance.
create or replace function holdfast.backoff(p_lifecycle smallint, p_tries int) returns interval
language sql volatile
as $$
  select holdfast.doubled(l.backoff, p_tries - 1, l.backoff_most) * (1 + random() * 0.1)
  from holdfast.lifecycle l where l.id = p_lifecycle
$$;

-- Twice as long each time, up to the most. (In seconds, since an interval cannot be doubled sixty times.)
create or replace function holdfast.doubled(p_first interval, p_times int, p_most interval) returns interval
language sql immutable
as $$
  select make_interval(secs => least(extract(epoch from p_most)::float8,
                                     extract(epoch from p_first)::float8 * power(2, least(p_times, 60))))
$$;

-- A failed step counts, and says so beside the task's own events.
create or replace function holdfast.log_failures(
  p_id uuid[], p_verb text[], p_due timestamptz[], p_note jsonb[], p_token uuid[]) returns void
language plpgsql
as $$
begin
  if not exists (select from unnest(p_note) n where n ? 'category') then
    return;
  end if;
  insert into holdfast.step as s (task_id, name, done, failures, attempt, token)
  select i.id, i.note ->> 'step', false, 1, t.attempt, i.token
  from unnest(p_id, p_verb, p_note, p_token) i(id, verb, note, token)
  cross join lateral (select t.attempt from holdfast.task t where t.id = i.id offset 0) t
  where i.note ? 'category' and i.note ? 'step' and i.verb in ('retry', 'fail')
  on conflict (task_id, name) do update set failures = s.failures + 1;
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select i.id, holdfast.last_step_event(i.id) + row_number() over (partition by i.id order by k.kind = 'step_failed' desc),
         coalesce(i.note ->> 'step', ''), k.kind, t.attempt, i.note
  from unnest(p_id, p_verb, p_note) i(id, verb, note)
  cross join lateral (select t.attempt from holdfast.task t where t.id = i.id offset 0) t
  cross join lateral (
    select 'step_failed' as kind where i.note ->> 'category' <> 'RateLimited' or i.verb = 'fail'
    union all select 'retry_scheduled' where i.verb in ('retry', 'later')
    union all select 'item_failed' where i.verb = 'fail') k
  where i.note ? 'category';
end $$;

-- Timestamps as seconds: their text depends on the session's time zone.
create or replace function holdfast.settlement_hash(s holdfast.settlement) returns bytea
language sql stable
as $$
  select holdfast.body_hash(jsonb_build_array(
    s.outcome, s.target, extract(epoch from s.delay), extract(epoch from s.due_at), s.category, s.step, s.body))
$$;

create or replace function holdfast.check_settle(
  p_outcome text[], p_delay interval[], p_due timestamptz[], p_category text[], p_step text[], p_body jsonb[])
returns void
language plpgsql stable
as $$
declare
  v_bad text;
begin
  if not p_outcome <@ array['done', 'partial', 'moved', 'later', 'failed', 'cancelled'] then
    select coalesce(o, 'null') into v_bad from unnest(p_outcome) o
    where coalesce(o, '') not in ('done', 'partial', 'moved', 'later', 'failed', 'cancelled') limit 1;
    perform holdfast.refuse('TK010', format('%L is not an outcome.', v_bad),
                            'Outcomes are done, partial, moved, later, failed and cancelled.');
  end if;
  if not array_remove(p_category, null) <@ array['RateLimited', 'Transient', 'SchemaInvalid', 'Fatal'] then
    select c into v_bad from unnest(p_category) c
    where c not in ('RateLimited', 'Transient', 'SchemaInvalid', 'Fatal') limit 1;
    perform holdfast.refuse('TK010', format('%L is not a category.', v_bad),
                            'A failure is RateLimited, Transient, SchemaInvalid or Fatal; null if that is unknown.');
  end if;
  if (p_delay is not null or p_due is not null) and exists (
    select from unnest(p_delay, p_due) i(delay, due) where not holdfast.is_soon(i.delay, i.due)) then
    perform holdfast.refuse('TK010', 'A task cannot wait for less than nothing, or for more than a hundred years.',
                            'Give a delay of zero or more.');
  end if;
  if p_step is not null then
    perform holdfast.check_steps(p_step);
  end if;
  if p_body is not null then
    perform holdfast.check_value(variadic p_body);
  end if;
end $$;

-- Settle, then claim up to n (perhaps none): one round trip, one commit. Answers the settlements that were not accepted, each with its status, and
-- the leases; of what went well nothing is reported.
create or replace function holdfast.turn(
  p_id uuid[], p_attempt int[], p_token uuid[], p_outcome text[], p_to text[],
  p_delay interval[], p_due timestamptz[], p_category text[], p_step text[], p_body jsonb[],
  p_queues text[], p_n int, p_lease interval, p_worker text, p_names text[] default null,
  p_since timestamptz default null, p_since_id uuid default null)
returns table (task_id uuid, status text, lease holdfast.lease)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  if cardinality(p_id) > 0 then
    return query
    select s.task_id, s.status, null::holdfast.lease
    from holdfast.settle(p_id, p_attempt, p_token, p_outcome, p_to, p_delay, p_due, p_category, p_step, p_body) s
    where s.status not in ('ok', 'repeat');
  end if;
  if p_n <> 0 or p_n is null then
    return query select null::uuid, null, c from holdfast.claim(p_queues, p_n, p_lease, p_worker, p_names, p_since, p_since_id) c;
  end if;
end $$;
