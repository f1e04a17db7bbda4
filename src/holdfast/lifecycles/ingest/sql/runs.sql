-- runs.sql: what users ask of a run, and the one thing they may change of it: its budget.

create or replace function holdfast.run_of(p_item uuid) returns uuid
language sql stable
as $$ select d.downstream from holdfast.dependency d where d.upstream = p_item and d.policy = 'gather' limit 1 $$;

-- What the items of a run have cost until now.
create or replace function holdfast.run_cost(p_run uuid) returns numeric
language sql stable set enable_seqscan = off
as $$
  select coalesce(sum(u.cost), 0) from holdfast.dependency d
  cross join lateral (
    select sum(u.cost_micros) as cost from holdfast.usage u where u.task_id = d.upstream offset 0) u
  where d.downstream = p_run and d.policy = 'gather'
$$;

-- Whether an item may begin another step: its run has no budget, or has not spent it. VOLATILE: after a lock it must see
-- what was committed before. What is under way when the budget is spent is finished, and passes it by what that costs.
create or replace function holdfast.may_spend(p_item uuid) returns bool
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_run uuid := holdfast.run_of(p_item);
  v_budget numeric := (select r.budget_micros from holdfast.ingest_run r where r.task_id = v_run);
begin
  return v_budget is null or holdfast.run_cost(v_run) < v_budget;
end $$;

-- Whether the run of an item has a budget at all, so that most need not ask again.
create or replace function holdfast.has_budget(p_item uuid) returns bool
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select exists (select from holdfast.ingest_run r where r.task_id = holdfast.run_of(p_item) and r.budget_micros is not null)
$$;

-- Another budget, or none. Items that wait for one go on if it allows. A worker that parks meanwhile holds its item and waits for
-- this row, then sees it; so the row comes last, and calls that set budgets go one after the other.
create or replace function holdfast.set_run_budget(p_run uuid, p_cents numeric, p_owner text default null) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  v_parked uuid[];
begin
  if p_cents is not null and not (p_cents >= 0 and p_cents < 1e12) then
    perform holdfast.refuse('TK010', 'A budget is an amount of cents, 0 or more.', 'Leave it out for none.');
  end if;
  perform holdfast.owner_of(p_run, p_owner);
  if not exists (select from holdfast.ingest_run r where r.task_id = p_run) then
    perform holdfast.refuse_missing(p_run, 'set the budget of');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('holdfast.set_run_budget ' || p_run, 0));
  perform holdfast.lock_parked(p_run);
  update holdfast.ingest_run r set budget_micros = p_cents * 10000 where r.task_id = p_run;
  v_parked := holdfast.lock_parked(p_run);  -- those who were just parking are among them now
  if p_cents is not null and holdfast.run_cost(p_run) >= p_cents * 10000 then
    return 0;
  end if;
  perform holdfast.move(v_parked, array_fill('go_on'::text, array[cardinality(v_parked)]),
                        array_fill(holdfast.now(), array[cardinality(v_parked)]),
                        array_fill('{"kind": "budget_raised"}'::jsonb, array[cardinality(v_parked)]));
  return cardinality(v_parked);
end $$;

-- The items of a run that wait for its budget, locked in the order of lock_children.
create or replace function holdfast.lock_parked(p_run uuid) returns uuid[]
language sql volatile
as $$
  select coalesce(array_agg(t.id), '{}') from (
    select t.id from (
      select d.upstream as id from holdfast.dependency d
      where d.downstream = p_run and d.policy = 'gather' and d.outcome is null order by d.upstream) d
    cross join lateral (
      select t.id from holdfast.task t where t.id = d.id and t.state = 'OVER_BUDGET' for update) t) t
$$;

-- How many items there are, and where. They sum up to the total.
create or replace function holdfast.run_counts(p_run uuid) returns jsonb
language sql stable set enable_seqscan = off
as $$
  select jsonb_build_object(
    'item_count_total', count(*),
    'item_count_pending', count(*) filter (where d.outcome is null and t.actor = 'worker' and t.lease_token is null),
    'item_count_running', count(*) filter (where d.outcome is null and t.lease_token is not null),
    'item_count_waiting', count(*) filter (where d.outcome is null and t.actor = 'owner'),
    'item_count_done', count(*) filter (where d.outcome in ('done', 'partial')),
    'item_count_failed', count(*) filter (where d.outcome = 'failed'),
    'item_count_cancelled', count(*) filter (where d.outcome = 'cancelled'))
  from holdfast.dependency d
  left join lateral (select t.actor, t.lease_token from holdfast.task t where t.id = d.upstream offset 0) t on true
  where d.downstream = p_run and d.policy = 'gather'
$$;

-- Runs with their counts, and each step with the number of items that have done it. One that is not there, or not this
-- owner's, is left out.
create or replace function holdfast.read_runs(p_runs uuid[], p_owner text default null) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'run_id', t.id, 'kind', t.name, 'status', t.state, 'owner', t.owner, 'created_at', t.created_at,
      'finished_at', t.finished_at, 'cost_cents', holdfast.run_cost(t.id) / 10000, 'budget_cents', r.budget_micros / 10000,
      'steps', (
        select coalesce(jsonb_object_agg(s.name, s.number), '{}') from (
          select s.name, count(*) as number from holdfast.dependency d
          cross join lateral (
            select s.name from holdfast.step s where s.task_id = d.upstream and s.done and s.name !~ '\[' offset 0) s
          where d.downstream = t.id and d.policy = 'gather' group by s.name) s)) || holdfast.run_counts(t.id)
  from unnest(p_runs) with ordinality i(id, place)
  cross join lateral holdfast.find_task(i.id) t
  join holdfast.ingest_run r on r.task_id = t.id
  where p_owner is null or t.owner = p_owner
  order by i.place
$$;

-- Items, in the order in which they were made, from one on. `step` is the last one that is done, by its name.
create or replace function holdfast.read_items(
  p_run uuid, p_after uuid default null, p_limit int default 50, p_status text default null, p_item uuid default null)
returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'item_id', t.id, 'run_id', coalesce(p_run, holdfast.run_of(t.id)), 'kind', t.name, 'status', t.state,
      'step', case when t.state in ('CONTENT_EXTRACTED', 'OVER_BUDGET') then coalesce(s.last, t.state) else t.state end,
      'name', coalesce(i.payload ->> 'name', i.payload ->> 'uri'), 'uri', i.payload ->> 'uri',
      'retry_count', f.retries, 'last_error_kind', coalesce(e.category, ''),
      'last_error', e.message, 'failed_step', case when t.state = 'FAILED' then e.step end,
      'cost_cents', coalesce(u.cost, 0) / 10000, 'tokens_in', coalesce(u.tokens_in, 0), 'tokens_out', coalesce(u.tokens_out, 0),
      'attempt', t.attempt, 'created_at', t.created_at, 'finished_at', t.finished_at,
      'retry_of', i.retry_of, 'result', t.result)
  from (
    select d.upstream as id from holdfast.dependency d
    where d.downstream = p_run and d.policy = 'gather' and (p_after is null or d.upstream > p_after)
    union all select p_item where p_item is not null) k
  cross join lateral holdfast.find_task(k.id) t
  cross join lateral (select i.payload, i.retry_of from holdfast.input i where i.id = t.id offset 0) i
  cross join lateral (
    select count(*) as retries from holdfast.step_event e
    where e.task_id = t.id and e.kind = 'retry_scheduled' and e.data ->> 'category' <> 'RateLimited') f
  left join lateral (
    select s.name as last from holdfast.step s where s.task_id = t.id and s.done order by s.at desc, array_position(
      array['FETCHED', 'CONTENT_EXTRACTED', 'CHUNKED', 'ENTITY_EXTRACTED', 'EMBEDDED', 'PERSISTED', 'INDEXED'], s.name) desc nulls last
    limit 1) s on true
  left join lateral (
    select e.data ->> 'category' as category, e.data ->> 'message' as message, e.step from holdfast.step_event e
    where e.task_id = t.id and e.kind in ('step_failed', 'retry_scheduled') order by e.number desc limit 1) e on true
  left join lateral (
    select sum(u.cost_micros) as cost, sum(u.tokens_in) as tokens_in, sum(u.tokens_out) as tokens_out
    from holdfast.usage u where u.task_id = t.id) u on true
  where p_status is null or t.state = p_status
  order by t.id limit least(p_limit, 1000)
$$;

-- What happened to an item, step by step. A failed step has its category, one that used a model its cost.
create or replace function holdfast.read_item_events(p_item uuid) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'number', e.number, 'at', e.at, 'kind', e.kind, 'step', nullif(e.step, ''), 'attempt', e.attempt,
      'error_kind', coalesce(d.it ->> 'category', ''), 'message', d.it ->> 'message', 'code', d.it ->> 'code',
      'retry_at', d.it ->> 'retry_at', 'model', u.model, 'tokens_in', coalesce(u.tokens_in, 0),
      'tokens_out', coalesce(u.tokens_out, 0), 'cost_cents', coalesce(u.cost_micros, 0) / 10000,
      'data', d.it - '{category,message,code,retry_at,step}'::text[])
  from holdfast.step_event e
  cross join lateral (select case when jsonb_typeof(e.data) = 'object' then e.data end as it) d
  left join lateral (
    select string_agg(distinct u.model, ', ') as model, sum(u.tokens_in) as tokens_in, sum(u.tokens_out) as tokens_out,
           sum(u.cost_micros) as cost_micros
    from holdfast.usage u where u.task_id = e.task_id and u.number = e.number) u on true
  where e.task_id = p_item order by e.number
$$;

-- A place for uploads, of this owner alone. What is not ingested within eight days is gone.
create or replace function holdfast.open_uploads(p_owner text, out prefix text, out now timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid := holdfast.uuid7();
begin
  if p_owner is null then
    perform holdfast.refuse('TK010', 'Uploads have an owner.', 'The local one has an empty name.');
  end if;
  prefix := format('%s/ingest/%s', holdfast.owner_folder(p_owner), v_id);
  now := holdfast.now();
  perform holdfast.delete_later(v_id, prefix, interval '8 days');
end $$;
