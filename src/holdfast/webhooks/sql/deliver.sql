-- deliver.sql: who sends a delivery now, how that went, and when it is tried again.
-- Called by every process that serves. Locks the webhook, then its deliveries; what another holds is skipped. A process that
-- takes a delivery has a minute for it; one whose sender died is due again after that, under the same id.

-- Deliveries that are due, so many of one endpoint in flight at most: one that is slow holds up itself alone.
create or replace function holdfast.take_deliveries(p_n int, p_each int, p_lease interval default interval '1 minute')
returns table (id uuid, taken uuid, webhook_id uuid, url text, secret text, body text, tries int)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
  w record;
  v_now timestamptz := holdfast.now();
  v_taken uuid := gen_random_uuid();
  v_free int;
  v_left int := p_n;
begin
  for w in
    select o.id from holdfast.webhook o
    where o.disabled_at is null and o.paused_at is null and exists (
      select from holdfast.webhook_delivery d where d.webhook_id = o.id and d.state = 'pending' and d.due_at <= v_now)
    order by random()  -- the first process takes most: that is another one each time
  loop
    exit when v_left <= 0;
    perform from holdfast.webhook o
    where o.id = w.id and o.disabled_at is null and o.paused_at is null for no key update skip locked;
    continue when not found;
    select least(v_left, p_each - count(*)) into v_free from holdfast.webhook_delivery d
    where d.webhook_id = w.id and d.state = 'pending' and d.taken is not null and d.due_at > v_now;
    continue when v_free <= 0;
    return query
    update holdfast.webhook_delivery d set taken = v_taken, due_at = v_now + p_lease, tries = d.tries + 1
    from holdfast.webhook o
    where o.id = w.id and d.id = any (array(
      select d.id from holdfast.webhook_delivery d
      where d.webhook_id = w.id and d.state = 'pending' and d.due_at <= v_now
      order by d.due_at, d.id limit v_free for update skip locked))
    returning d.id, d.taken, o.id, o.url, o.secret, d.body, d.tries;
    get diagnostics v_free = row_count;
    v_left := v_left - v_free;
  end loop;
end $$;

-- How it went: the status of the answer, or what was wrong without one; and how long the endpoint asks to be left alone.
-- Answers the state of the delivery, or lost if another has it by now. An endpoint that says 410 is gone: it is disabled.
create or replace function holdfast.end_delivery(
  p_id uuid, p_taken uuid, p_status int, p_error text default null, p_wait interval default null)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_state text;
begin
  update holdfast.webhook w set disabled_at = holdfast.now(), disabled_why = 'It answered 410 Gone.'
  from holdfast.webhook_delivery d
  where p_status = 410 and d.id = p_id and d.taken = p_taken and w.id = d.webhook_id and w.disabled_at is null;
  update holdfast.webhook_delivery d set
    taken = null, status = p_status, error = left(p_error, 1000), state = n.state,
    ended_at = case when n.state <> 'pending' then holdfast.now() end,
    due_at = case when n.state = 'pending' then holdfast.now() + greatest(n.wait, p_wait) else d.due_at end
  from (
    select o.id, w.wait, case when p_status between 200 and 299 then 'done' when p_status = 410 or w.wait is null then 'failed'
                              else 'pending' end as state
    from holdfast.webhook_delivery o
    cross join lateral holdfast.webhook_wait(o.tries) w(wait)
    where o.id = p_id) n
  where d.id = p_id and d.taken = p_taken and d.state = 'pending'
  returning d.state into v_state;
  return coalesce(v_state, 'lost');
end $$;

-- How long to wait after so many tries: nine waits of some three days in all, as Standard Webhooks suggests; then null.
create or replace function holdfast.webhook_wait(p_tries int) returns interval
language sql volatile
as $$
  select (array['5 seconds', '5 minutes', '30 minutes', '2 hours', '5 hours', '10 hours', '14 hours', '20 hours',
                '24 hours']::interval[])[p_tries] * (1 + random() * 0.1)
$$;

-- A delivery that says nothing, to see whether it arrives. Answers its id.
create or replace function holdfast.test_webhook(p_id uuid) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  v_id uuid := holdfast.uuid7();
  v_stopped text;
begin
  perform holdfast.check_webhook(p_id);
  select case when w.disabled_at is not null then 'disabled' when w.paused_at is not null then 'paused' end into v_stopped
  from holdfast.webhook w where w.id = p_id;
  if v_stopped is not null then
    perform holdfast.refuse('TK010', format('The webhook is %s.', v_stopped), 'Resume it first: holdfast webhooks resume.');
  end if;
  insert into holdfast.webhook_delivery (id, webhook_id, task_id, version, kind, body)
  values (v_id, p_id, v_id, 0, 'webhook.test', jsonb_build_object(
    'type', 'webhook.test', 'timestamp', holdfast.now(), 'data', jsonb_build_object('webhook_id', p_id)));
  return v_id;
end $$;

-- Send a delivery again, whatever became of it, under the same id.
create or replace function holdfast.redeliver(p_webhook uuid, p_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update holdfast.webhook_delivery d set state = 'pending', tries = 0, due_at = holdfast.now(), taken = null, ended_at = null
  where d.id = p_id and d.webhook_id = p_webhook;
  if not found then
    perform holdfast.refuse('TK073', format('The webhook has no delivery %s.', p_id), 'See holdfast webhooks deliveries.');
  end if;
end $$;

-- What was sent to a webhook and what is to be, the newest first.
create or replace function holdfast.deliveries(
  p_webhook uuid, p_state text default null, p_before uuid default null, p_limit int default 50)
returns table (id uuid, webhook_id uuid, task_id uuid, version int, kind text, state text, tries int, due_at timestamptz,
               status int, error text, made_at timestamptz, ended_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_webhook(p_webhook);
  select d.id, d.webhook_id, d.task_id, d.version, d.kind, d.state, d.tries, d.due_at, d.status, d.error, d.made_at,
         d.ended_at
  from holdfast.webhook_delivery d
  where d.webhook_id = p_webhook and (p_state is null or d.state = p_state) and (p_before is null or d.id < p_before)
  order by d.id desc limit least(p_limit, 1000)
$$;

-- Deliveries that were made long ago, whatever became of them.
create or replace function holdfast.forget_deliveries(p_older interval default interval '30 days', p_n int default 1000)
returns int
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from holdfast.webhook_delivery d where d.id = any (array(
      select d.id from holdfast.webhook_delivery d where d.made_at < holdfast.now() - p_older
      order by d.made_at, d.id limit p_n for update skip locked))
    returning d.id
  )
  select count(*)::int from gone
$$;
