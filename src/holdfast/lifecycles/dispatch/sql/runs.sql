-- runs.sql: graphs and their runs, as they are shown. Takes no lock.

create or replace function holdfast.dags(p_name text default null) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select to_jsonb(d) || jsonb_build_object('ready', not exists (
    select from jsonb_array_elements(d.nodes) n where not exists (
      select from holdfast.worker w where n ->> 'task' = any (w.names) and holdfast.is_live(w))))
  from holdfast.dag d where p_name is null or d.name = p_name order by d.name
$$;

-- Runs; with their nodes and edges, if that is asked for. One that is not there, or not this owner's, is left out.
create or replace function holdfast.read_dags(p_runs uuid[], p_owner text default null, p_nodes bool default false) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select jsonb_build_object(
      'dag_id', t.id, 'name', t.name, 'declared', r.declared, 'state', t.state, 'outcome', t.outcome, 'owner', t.owner,
      'params', r.params, 'writes', r.writes, 'cutover', r.cutover, 'progress', n.progress,
      'error', case when t.finished_at is not null then coalesce(t.note ->> 'message', t.note ->> 'reason') end,
      'created_at', t.created_at, 'finished_at', t.finished_at, 'retry_of', i.retry_of, 'retried_as', r.retried_as)
    || case when p_nodes then jsonb_build_object('nodes', n.nodes, 'edges', e.edges) else '{}' end
  from unnest(p_runs) with ordinality k(id, place)
  cross join lateral holdfast.find_task(k.id) t
  join holdfast.dag_run r on r.task_id = t.id
  cross join lateral (select i.retry_of from holdfast.input i where i.id = t.id offset 0) i
  cross join lateral (
    select jsonb_build_object(
        'total', count(*), 'blocked', count(*) filter (where n.actor = 'tasks'),
        'queued', count(*) filter (where n.state = 'Queued'), 'running', count(*) filter (where n.state = 'Running'),
        'retrying', count(*) filter (where n.actor = 'clock'), 'completed', count(*) filter (where n.outcome in ('done', 'partial')),
        'failed', count(*) filter (where n.outcome = 'failed'), 'canceled', count(*) filter (where n.outcome = 'cancelled')) as progress,
      case when p_nodes then jsonb_agg(to_jsonb(n) - '{number,actor}'::text[] order by n.number) end as nodes,
      array_agg(n.name order by n.number) as names
    from (
      select n.number, n.name, n.task_id, d.name as task, d.state, d.actor, d.outcome, d.attempt, d.max_attempts,
             case when d.finished_at is null then d.due_at end as due_at, d.started_at, d.finished_at,
             coalesce(d.note ->> 'message', d.note ->> 'reason') as error, b.progress
      from holdfast.dag_node n
      cross join lateral holdfast.find_task(n.task_id) d
      left join lateral (
        select b.progress from holdfast.beat b where b.task_id = n.task_id and b.token = d.lease_token offset 0) b on true
      where n.run = t.id) n) n
  cross join lateral (
    select case when p_nodes then coalesce(jsonb_agg(jsonb_build_object(
      'from', n.names[(e.value ->> 0)::int], 'to', n.names[(e.value ->> 1)::int], 'on_failure', e.value ->> 2) order by e.place), '[]') end as edges
    from jsonb_array_elements(case when p_nodes then r.edges else '[]' end) with ordinality e(value, place)) e
  where p_owner is null or t.owner = p_owner
  order by k.place
$$;
