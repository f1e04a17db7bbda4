-- explain.sql: why a task is where it is: who acts next, since when, what it waits for, and what can be done about it.
-- Called by `why`, the API and the dashboard. Takes no lock.

create or replace function holdfast.explain(p_id uuid)
returns table (reason text, actor holdfast.actor, state text, since timestamptz, until timestamptz, sentence text, fix text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  t record;
begin
  select t.*, greatest(t.lease_expires_at, (
           select b.expires_at from holdfast.beat b where b.task_id = t.id and b.token = t.lease_token)) as lease_until,
         coalesce((select nullif(w.label, '') from holdfast.worker w where w.id = t.worker_id), t.worker_id) as worker,
         q.paused_at, q.paused_by, s.error as refusal, s.until as set_back_until
    into t
  from holdfast.task t
  left join holdfast.queue q on q.name = t.queue
  left join holdfast.setback s on s.task_id = t.id and s.times > 0
  where t.id = p_id;
  if not found then
    return query select 'final', d.actor, d.state, d.finished_at, null::timestamptz,
      format('It ended as %s%s.', d.state, ': ' || holdfast.one_line(case
        when d.outcome = 'cancelled' then coalesce(d.note ->> 'reason', d.note ->> 'message', d.note ->> 'kind')
        else coalesce(d.note ->> 'message', d.note ->> 'reason', d.note ->> 'kind') end)),
      case when d.outcome <> 'done' then holdfast.explain_retry(d.id, d.outcome, l.name) else '' end
    from holdfast.task_done d join holdfast.lifecycle l on l.id = d.lifecycle
    where d.id = p_id;
    if not found then
      perform holdfast.refuse_missing(p_id, 'explain');
    end if;
    return;
  end if;
  return query select r.reason, case r.reason when 'owner' then 'owner' else t.actor end, t.state, t.entered_at, r.until, r.sentence, r.fix
  from (
    select case
      when t.refusal is not null then holdfast.explain_as('backoff', t.set_back_until,
        format('Its effects refuse what comes next (%s); that is tried again from %s on.', holdfast.one_line(t.refusal), t.set_back_until),
        'See the inbox, and mend the effects of its lifecycle.')
      when t.lease_token is null and t.deadline <= v_now then holdfast.explain_as('scheduled', t.deadline,
        format('Its time limit has passed at %s; the next sweep moves it on.', t.deadline),
        'Nothing. If it stays, no process is sweeping: start one.')
      when t.actor = 'owner' then holdfast.explain_owner(t.lifecycle, t.state, t.note, t.deadline)
      when t.actor = 'tasks' then holdfast.explain_tasks(p_id, t.lifecycle, t.state)
      when t.lease_until < v_now then holdfast.explain_as('leased', t.lease_until,
        format('Worker %s has been silent since its lease ended at %s.', t.worker, t.lease_until),
        'Nothing: the next sweep gives it to another worker. If it stays, no process is sweeping: start one.')
      when t.lease_token is not null and t.cancel_requested then holdfast.explain_as('cancel_pending', t.lease_until,
        format('Cancelling was asked; worker %s learns of it from its next heartbeat.', t.worker),
        'Nothing: it ends with the handler, or at the latest when the lease does.')
      when t.lease_token is not null then holdfast.explain_as('leased', t.lease_until,
        format('Worker %s works on it; its lease lasts until %s.', t.worker, t.lease_until), 'Nothing, or cancel it.')
      -- A person was asked. The owner of the task may answer, and anyone who has the link.
      when t.due_at > v_now and t.note ->> 'kind' = 'question' then holdfast.explain_as('owner', t.due_at,
        format('%s Asked since %s, until %s.', t.note ->> 'message',
               (select e.at from holdfast.event e where e.task_id = p_id and e.version = t.version), t.due_at),
        format('Answer it: holdfast answer %s --approve, or --deny.', p_id))
      when t.due_at > v_now or t.actor = 'clock' then holdfast.explain_due(t.verb, t.note, t.due_at, t.attempt)
      when t.parked = 'unknown' then holdfast.explain_unknown(t.queue, t.name)
      when t.paused_at is not null then holdfast.explain_as('queue_paused', null,
        format('Queue %s is paused since %s%s.', t.queue, t.paused_at, coalesce(' by ' || nullif(t.paused_by, ''), '')),
        format('Resume it: holdfast queues resume %s', t.queue))
      when t.parked = 'limit' then holdfast.explain_limit(t.limit_key)
      else holdfast.explain_ready(t.queue, t.name) end as r
  ) r_, lateral (select (r_.r).*) r;
end $$;

-- How a task that ended badly runs again: the command that is not refused. A node of a graph runs again in its run while
-- that goes on, together with what was cancelled because of it, and afterwards with the run.
create or replace function holdfast.explain_retry(p_id uuid, p_outcome holdfast.outcome, p_lifecycle text) returns text
language plpgsql stable
as $$
declare
  v_entry holdfast.inbox;
  v_retried uuid;
  v_run uuid;
  v_cause uuid;
begin
  select * into v_entry from holdfast.inbox n
  where n.task_id = p_id and p_outcome = 'failed' order by n.id desc limit 1;
  v_retried := coalesce(v_entry.retried_as, (select i.id from holdfast.input i where i.retry_of = p_id order by i.id desc limit 1));
  if v_retried is not null then
    return format('It was retried as %1$s: holdfast why %1$s', v_retried);
  elsif p_lifecycle = 'dag' then
    return format('Run again what did not complete, as a new run: holdfast dag retry %s', p_id);
  end if;
  select d.downstream into v_run from holdfast.dependency d
  where d.upstream = p_id and d.policy = 'gather'
    and (select t.lifecycle from holdfast.tasks t where t.id = d.downstream) = 'dag'
  order by d.downstream desc limit 1;
  if v_run is not null and (select t.id from holdfast.task t where t.id = v_run) is null then
    return format('It is a node of run %1$s. Run again what did not complete of that, as a new run: holdfast dag retry %1$s', v_run);
  elsif v_run is not null and p_outcome <> 'partial' then
    v_cause := holdfast.first_cause(p_id);
    return format('It is a node of run %s, which goes on. Run %s again in it: holdfast retry %s --dependents', v_run,
                  case when v_cause = p_id then 'it' else 'what ended first' end, v_cause);
  elsif v_entry.id is not null and v_entry.resolution is null then
    return format('It waits in the inbox as %s. Run it again, as a new task: holdfast inbox retry %s', v_entry.id, p_id);
  end if;
  return format('Run it again, as a new task: holdfast retry %s', p_id);
end $$;

-- The task because of which this one was cancelled or skipped, itself if it ended of its own.
create or replace function holdfast.first_cause(p_id uuid) returns uuid
language sql stable
as $$
  with recursive because(id, depth) as (
    select p_id, 0
    union all
    select d.upstream, b.depth + 1 from because b
    cross join lateral (
      select d.upstream from holdfast.dependency d
      where d.downstream = b.id and d.policy in ('cancel', 'skip') and d.outcome in ('failed', 'cancelled')
        and (select q.note ->> 'kind' from holdfast.task_done q where q.id = b.id) in ('skipped', 'upstream_ended')
      order by d.upstream limit 1) d
  )
  select b.id from because b order by b.depth desc limit 1
$$;

create or replace function holdfast.explain_owner(p_lifecycle smallint, p_state text, p_note jsonb, p_deadline timestamptz)
returns holdfast.explanation
language sql stable
as $$
  select holdfast.explain_as(
    case when p_note ->> 'kind' = 'files_missing' then 'files_missing' else 'owner' end, p_deadline,
    case when p_note ->> 'kind' = 'files_missing'
      then format('Files are missing: %s.', coalesce(
        (select string_agg(m, ', ') from jsonb_array_elements_text(p_note -> 'missing') m), 'see the note'))
      else format('Its owner acts next%s.', coalesce(': ' || holdfast.one_line(
        holdfast.declared_state(p_lifecycle, p_state) -> 'display' ->> 'message'), ''))
      end || coalesce(' Until ' || p_deadline || '.', ''),
    format('Possible now: %s.', holdfast.possible_verbs(p_lifecycle, p_state)))
$$;

create or replace function holdfast.explain_unknown(p_queue text, p_name text) returns holdfast.explanation
language sql stable
as $$
  select case when exists (
      select from holdfast.worker w where p_queue = any (w.queues) and holdfast.is_live(w)
        and (w.names is null or p_name = any (w.names)))
    then holdfast.explain_as('limit_reached', null,
      format('It was set aside by a worker that does not know %s; one that does takes it up at its next claim.', p_name),
      'Nothing. Workers that know different tasks are better off with queues of their own.')
    else holdfast.explain_as('unknown_task', null,
      format('No worker that serves queue %s knows a task called %s.', p_queue, p_name),
      'Start a worker that has it, or cancel the task.') end
$$;

create or replace function holdfast.explain_tasks(p_id uuid, p_lifecycle smallint, p_state text)
returns holdfast.explanation
language sql stable
as $$
  select case when count(*) = 0
    then holdfast.explain_as('dependency', null, 'All it waited for has ended; it is about to go on.', 'Nothing.')
    else holdfast.explain_as('dependency', null,
    format('It waits for %s other task%s, the first is %s.',
           case when count(*) > 100 then 'more than 100' else count(*)::text end,
           case when count(*) = 1 then '' else 's' end, (
             select format('%s (%s, %s)', t.name, t.id, t.state) from holdfast.task t where t.id = min(d.upstream::text)::uuid)),
    format('See why that one waits: holdfast why %s', min(d.upstream::text))) end
  from (select d.upstream from holdfast.dependency d
        where d.downstream = p_id and d.outcome is null and (d.policy = 'gather') = ((
          select x.to_state from holdfast.transition x
          where x.lifecycle = p_lifecycle and x.from_state = p_state and x.verb = 'unblock') is null)
        limit 101) d
$$;

create or replace function holdfast.explain_due(p_verb text, p_note jsonb, p_due timestamptz, p_attempt int)
returns holdfast.explanation
language sql stable
as $$
  select case
    when p_note ->> 'category' = 'RateLimited' or p_note ->> 'kind' = 'rate_budget'
    then holdfast.explain_as('rate_budget', p_due, format('It was asked to slow down%s and goes on at %s.',
                                               coalesce(' by ' || (p_note ->> 'budget'), ''), p_due),
             'Raise the budget, if the provider allows more.')
    when p_due <= holdfast.now()
    then holdfast.explain_as('scheduled', p_due, format('Its time came at %s; the next sweep moves it on.', p_due),
             'Nothing. If it stays, no process is sweeping: start one.')
    when p_verb in ('retry', 'lost')
    then holdfast.explain_as('backoff', p_due, format('Attempt %s failed (%s); it is tried again at %s.', p_attempt,
                                      coalesce(holdfast.one_line(p_note ->> 'message'), p_note ->> 'kind', 'no message'), p_due),
             'Nothing, or cancel it.')
    when p_verb = 'later' and p_note ->> 'message' is not null
    then holdfast.explain_as(case p_note ->> 'kind' when 'person' then 'owner' when 'provider_poll' then 'provider_poll' else 'scheduled' end,
             p_due, format('%s It is looked at again at %s.', p_note ->> 'message', p_due), 'Nothing, or cancel it.')
    when p_note ->> 'kind' = 'provider_poll'
    then holdfast.explain_as('provider_poll', p_due,
             format('The provider is working on it; it is asked again at %s.', p_due),
             'Nothing, or cancel it.')
    else holdfast.explain_as('scheduled', p_due, format('It is due at %s.', p_due), 'Nothing, or cancel it.')
    end
$$;

create or replace function holdfast.explain_limit(p_key text) returns holdfast.explanation
language sql stable
as $$
  select case when t.taken < s.allowed
    then holdfast.explain_as('limit_reached', null,
      format('A place for the key %s is free; the next sweep gives it away.', p_key),
      'Nothing. If it stays, no process is sweeping: start one.')
    else holdfast.explain_as('limit_reached', null,
      format('Only %s task%s with the key %s may be with workers or next in line at once, and %s %s.', s.allowed,
             case when s.allowed = 1 then '' else 's' end, p_key, t.taken, case when t.taken = 1 then 'is' else 'are' end),
      format('Wait, or allow more: holdfast.limit_concurrency(%L, %s).', p_key, s.allowed + 1)) end
  from holdfast.slot s
  cross join lateral (
    select count(*) as taken from holdfast.task t
    where t.limit_key = p_key and t.parked is null and t.actor = 'worker') t
  where s.key = p_key
$$;

create or replace function holdfast.explain_ready(p_queue text, p_name text) returns holdfast.explanation
language sql stable
as $$
  select case
    when count(*) = 0
    then holdfast.explain_as('no_worker', null, format('No worker serves queue %s.', p_queue),
             format('Start one: holdfast worker --app module:hf --queue %s', p_queue))
    when count(*) filter (where w.names is null or p_name = any (w.names)) = 0 then holdfast.explain_unknown(p_queue, p_name)
    else holdfast.explain_as('limit_reached', null,
             format('It is next in line for queue %s, whose workers have %s in all.', p_queue,
                    case sum(w.slots) when 1 then '1 slot' else sum(w.slots) || ' slots' end),
             'Wait, or start more workers.')
    end
  from holdfast.worker w where p_queue = any (w.queues) and holdfast.is_live(w)
$$;

-- A message as a part of a sentence: its first line, without the full stop.
create or replace function holdfast.one_line(p_message text) returns text
language sql immutable
as $$ select nullif(rtrim(split_part(ltrim(p_message, E' \n\r\t'), E'\n', 1), E'. \r\t'), '') $$;

create or replace function holdfast.explain_as(p_reason text, p_until timestamptz, p_sentence text, p_fix text)
returns holdfast.explanation
language sql immutable
as $$ select p_reason, p_until, p_sentence, p_fix $$;
