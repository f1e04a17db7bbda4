-- graphs.sql: graphs of tasks are declared, and started. A run is a task of the lifecycle `dag` that gathers its nodes, which
-- are ordinary tasks; all of it is made in one call, with the generations of the datasets that it writes, or none of it is.
-- Called by anybody, in a transaction of their own if they like. Locks what submit locks, then what a generation does.

-- What a graph is, as its application says at each start. Nodes: {name, task, params, queue, max_attempts, priority}; edges:
-- {from, to, on_failure}; writes: {dataset: replace or extends}.
create or replace function holdfast.declare_dag(
  p_name text, p_title text, p_nodes jsonb, p_edges jsonb, p_params jsonb, p_writes jsonb default '{}',
  p_cutover text default 'auto') returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_graph record;
begin
  perform holdfast.check_value(p_nodes, p_edges, p_params, p_writes);
  perform holdfast.check_writes(p_writes, p_cutover);
  v_graph := holdfast.sorted_graph(p_name, p_nodes, p_edges);
  perform holdfast.make_queue(q.name) from (
    select distinct n ->> 'queue' as name from jsonb_array_elements(p_nodes) n where n ->> 'queue' is not null order by 1) q;
  insert into holdfast.dag as d (name, title, nodes, edges, params, writes, cutover)
  values (p_name, p_title, v_graph.nodes, p_edges, p_params, p_writes, p_cutover)
  on conflict (name) do update set
    title = excluded.title, nodes = excluded.nodes, edges = excluded.edges, params = excluded.params,
    writes = excluded.writes, cutover = excluded.cutover, declared_at = holdfast.now()
  where (d.title, d.nodes, d.edges, d.params, d.writes, d.cutover) is distinct from
        (excluded.title, excluded.nodes, excluded.edges, excluded.params, excluded.writes, excluded.cutover);
end $$;

-- The nodes, each behind those it comes after, and the edges by number: [from, to, policy]. Raises TK010 for what is not a graph
-- and TK045 for a circle.
create or replace function holdfast.sorted_graph(p_name text, p_nodes jsonb, p_edges jsonb, out nodes jsonb, out edges jsonb)
language plpgsql
as $$
declare
  v_names text[];
  v_from int[];
  v_to int[];
  v_order int[];
  v_problem text;
begin
  if p_name is null or length(p_name) not between 1 and 100 then
    v_problem := 'the name of a graph has 1 to 100 characters';
  elsif jsonb_typeof(p_nodes) is distinct from 'array' or jsonb_typeof(p_edges) is distinct from 'array' then
    v_problem := 'nodes and edges are lists';
  elsif jsonb_array_length(p_nodes) not between 1 and 5000 or jsonb_array_length(p_edges) > 20000 then
    v_problem := format('it has %s nodes and %s edges', jsonb_array_length(p_nodes), jsonb_array_length(p_edges));
  end if;
  if v_problem is null then
    v_names := array(select n.value ->> 'name' from jsonb_array_elements(p_nodes) with ordinality n(value, place) order by n.place);
    v_problem := coalesce(
      (select 'a node has no name, or one of more than 100 characters' from unnest(v_names) n(name)
       where n.name is null or length(n.name) not between 1 and 100 limit 1),
      (select format('%L is the name of two nodes', n.name) from unnest(v_names) n(name) group by n.name having count(*) > 1
       order by 1 limit 1),
      (select format('node %L has no task', n ->> 'name') from jsonb_array_elements(p_nodes) n
       where length(n ->> 'task') between 1 and 200 is not true limit 1),
      (select format('an edge leads from %L to %L, and %L is not a node', e ->> 'from', e ->> 'to', w.name)
       from jsonb_array_elements(p_edges) e cross join lateral (values (e ->> 'from'), (e ->> 'to')) w(name)
       left join unnest(v_names) n(name) on n.name = w.name where n.name is null limit 1),
      (select format('there are two edges from %L to %L', e ->> 'from', e ->> 'to') from jsonb_array_elements(p_edges) e
       group by e ->> 'from', e ->> 'to' having count(*) > 1 limit 1),
      (select format('the edge from %L to %L has the policy %L', e ->> 'from', e ->> 'to', e ->> 'on_failure')
       from jsonb_array_elements(p_edges) e where e ->> 'on_failure' not in ('cancel', 'skip', 'ignore') limit 1));
  end if;
  if v_problem is not null then
    perform holdfast.refuse('TK010', format('Graph %s: %s.', quote_nullable(left(p_name, 100)), v_problem),
      'It has 1 to 5,000 nodes of different names, each with its task, and up to 20,000 edges between them;'
      ' the policy of an edge is cancel, skip or ignore.');
  end if;
  select array_agg(f.place::int), array_agg(t.place::int) into v_from, v_to
  from jsonb_array_elements(p_edges) e
  join unnest(v_names) with ordinality f(name, place) on f.name = e ->> 'from'
  join unnest(v_names) with ordinality t(name, place) on t.name = e ->> 'to';
  v_order := holdfast.topological_order(v_names, v_from, v_to);
  nodes := (select jsonb_agg(n.value order by o.place) from jsonb_array_elements(p_nodes) with ordinality n(value, place)
            join unnest(v_order) with ordinality o(n, place) on o.n = n.place);
  edges := (select coalesce(jsonb_agg(jsonb_build_array(f.place, t.place, coalesce(e ->> 'on_failure', 'cancel')) order by t.place, f.place), '[]')
            from jsonb_array_elements(p_edges) e
            join (select v_names[o.n] as name, o.place from unnest(v_order) with ordinality o(n, place)) f on f.name = e ->> 'from'
            join (select v_names[o.n] as name, o.place from unnest(v_order) with ordinality o(n, place)) t on t.name = e ->> 'to');
end $$;

create or replace function holdfast.check_writes(p_writes jsonb, p_cutover text) returns void
language plpgsql
as $$
begin
  if jsonb_typeof(p_writes) is distinct from 'object' or exists (
       select from jsonb_each(p_writes) w
       where jsonb_typeof(w.value) <> 'string' or w.value #>> '{}' not in ('replace', 'extends') or length(w.key) not between 1 and 200)
     or (select count(*) from jsonb_object_keys(p_writes)) > 20 then
    perform holdfast.refuse('TK010', 'What a graph writes are up to 20 datasets.',
                            'Write {"prices": "replace"}, or "extends" for one that goes on from the newest generation.');
  elsif p_cutover is null or p_cutover not in ('auto', 'manual') then
    perform holdfast.refuse('TK010', format('The cutover is not %s.', quote_nullable(left(p_cutover, 100))), 'It is auto or manual.');
  end if;
end $$;

-- Start a run of a declared graph, and answer its id. The same key, with the same parameters, answers the same run. Raises
-- TK010 for a graph that is not declared, and for parameters that no node takes.
create or replace function holdfast.run_dag(
  p_dag text, p_params jsonb default '{}', p_owner text default '', p_key text default null, p_by text default '')
returns uuid
language sql security definer set search_path = pg_catalog, pg_temp
as $$ select s.run from holdfast.start_dag(p_dag, p_params, p_owner, p_key, p_by) s $$;

-- The same with tags, a priority and a trace; and whether this call made it.
create or replace function holdfast.start_dag(
  p_dag text, p_params jsonb default '{}', p_owner text default '', p_key text default null, p_by text default '',
  p_tags text[] default '{}', p_priority int default null, p_trace text default null, out run uuid, out created bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set jit = off
as $$
declare
  v_dag holdfast.dag;
  v_graph record;
begin
  perform holdfast.check_value(p_params);
  select * into v_dag from holdfast.dag d where d.name = p_dag;
  if not found then
    perform holdfast.refuse('TK010', format('There is no graph %s.', quote_nullable(left(p_dag, 100))), format('There are: %s.', coalesce(
      (select string_agg(d.name, ', ' order by d.name) from holdfast.dag d), 'none; start a worker that declares one')));
  end if;
  perform holdfast.check_params(p_dag, v_dag.params, p_params, '{}');
  v_graph := holdfast.sorted_graph(p_dag, v_dag.nodes, v_dag.edges);
  select o.run, o.created into run, created from holdfast.open_dag(
    p_dag, true, holdfast.body_hash(jsonb_build_array('dag', p_dag, p_params)), p_params, (
      select jsonb_agg(n.value || jsonb_build_object(
          'payload', (select coalesce(jsonb_object_agg(g.key, g.value), '{}') from jsonb_each(p_params) g
                      where n.value -> 'params' ? g.key or (n.value -> 'params' ? '**' and v_dag.params ? '**' and not v_dag.params ? g.key)),
          'priority', coalesce(p_priority, (n.value ->> 'priority')::int)) order by n.place)
      from jsonb_array_elements(v_graph.nodes) with ordinality n(value, place)),
    v_graph.edges, v_dag.writes, v_dag.cutover, p_owner, p_key, p_by, p_tags, p_trace) o;
end $$;

-- A graph that was never declared, and is run once: nodes {name, task, payload, queue, max_attempts, priority}, of which those
-- that say nothing are run as a live worker says of their task. Raises TK010 and TK045.
create or replace function holdfast.start_graph(
  p_name text, p_nodes jsonb, p_edges jsonb default '[]', p_writes jsonb default '{}', p_cutover text default 'auto',
  p_owner text default '', p_key text default null, p_by text default '', p_tags text[] default '{}',
  p_trace text default null, out run uuid, out created bool)
language sql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set jit = off
as $$
  select holdfast.check_writes(p_writes, p_cutover);
  select o.run, o.created from holdfast.sorted_graph(p_name, p_nodes, p_edges) g
  cross join lateral holdfast.open_dag(
    p_name, false, holdfast.body_hash(jsonb_build_array('graph', p_name, p_nodes, p_edges, p_writes, p_cutover)), '{}', (
      select jsonb_agg(coalesce(k.known, '{}') || jsonb_strip_nulls(n.value - 'payload')
                       || jsonb_build_object('payload', coalesce(n.value -> 'payload', '{}')) order by n.place)
      from jsonb_array_elements(g.nodes) with ordinality n(value, place)
      left join (select t.name, holdfast.known_task(t.name) as known
                 from (select distinct n ->> 'task' as name from jsonb_array_elements(p_nodes) n) t) k on k.name = n.value ->> 'task'),
    g.edges, p_writes, p_cutover, p_owner, p_key, p_by, p_tags, p_trace) o
$$;

-- The run with its nodes, which come in order, as one call; its generations; and what is remembered of it.
create or replace function holdfast.open_dag(
  p_name text, p_declared bool, p_hash bytea, p_params jsonb, p_nodes jsonb, p_edges jsonb, p_writes jsonb, p_cutover text,
  p_owner text, p_key text, p_by text, p_tags text[], p_trace text, out run uuid, out created bool)
language plpgsql
as $$
declare
  v record;
  v_id uuid[];
begin
  if p_key is not null then  -- what is deployed meanwhile makes no other run of the same request
    select k.task_id, false into run, created from holdfast.key k where k.owner = coalesce(p_owner, '') and k.key = p_key;
  end if;
  if run is null then
    select count(*)::int as number, array_agg(n.value ->> 'task' order by n.place) as task,
           array_agg(n.value -> 'payload' order by n.place) as payload, array_agg(n.value ->> 'queue' order by n.place) as queue,
           array_agg((n.value ->> 'priority')::int order by n.place) as priority,
           array_agg((n.value ->> 'max_attempts')::int order by n.place) as max_attempts,
           array_agg(n.value ->> 'name' order by n.place) as name
      into v
    from jsonb_array_elements(p_nodes) with ordinality n(value, place);
    select array_agg(s.id order by s.place), bool_or(s.created) filter (where s.place = 1) into v_id, created
    from holdfast.submit_many(
      'dag'::text || array_fill('dispatch'::text, array[v.number]), p_name || v.task, p_params || v.payload,
      p_queue => null::text || v.queue, p_priority => null::int || v.priority, p_max_attempts => null::int || v.max_attempts,
      p_key => case when p_key is not null then p_key || array_fill(null::text, array[v.number]) end,
      p_owner => array_fill(coalesce(p_owner, ''), array[v.number + 1]),
      p_parent_place => null::int || array_fill(1, array[v.number]),
      p_waits_place => (select array_agg((e ->> 1)::int + 1) from jsonb_array_elements(p_edges) e),
      p_waits_for_place => (select array_agg((e ->> 0)::int + 1) from jsonb_array_elements(p_edges) e),
      p_waits_policy => (select array_agg(e ->> 2) from jsonb_array_elements(p_edges) e),
      p_tags => case when cardinality(p_tags) > 0 then array_fill(to_jsonb(p_tags), array[v.number + 1]) end,
      p_trace => case when p_trace is not null then array_fill(p_trace, array[v.number + 1]) end) s;
    run := v_id[1];
  end if;
  if not created then
    if (select r.body_hash from holdfast.dag_run r where r.task_id = run) is distinct from p_hash then
      perform holdfast.refuse('TK019', format('Key %L: another task was submitted with it.', p_key),
                              'Use a new key for a new request; the same key only for exactly the same one.');
    end if;
    return;
  end if;
  insert into holdfast.dag_run (task_id, declared, body_hash, params, edges, writes, cutover)
  select run, p_declared, p_hash, p_params, p_edges, coalesce(jsonb_agg(jsonb_build_object(
           'dataset', w.key, 'mode', w.value, 'dataset_id', g.dataset_id, 'version', g.version) order by w.key), '[]'), p_cutover
  from (select * from jsonb_each_text(p_writes) w order by w.key) w
  cross join lateral holdfast.open_generation(
    coalesce(p_owner, ''), w.key, run, w.value = 'extends', p_cutover, coalesce(p_by, '')) g;
  insert into holdfast.dag_node (run, number, name, task_id)
  select open_dag.run, n.number, n.name, v_id[n.number + 1] from unnest(v.name) with ordinality n(name, number);
end $$;

-- What a move of a run writes beside it: its end is that of the generations it was building.
create or replace function holdfast.dag_effects(p_moved holdfast.moved[]) returns void
language sql
as $$
  select holdfast.finish_generations(r.id, r.outcome::text) from (
    select d.id, d.outcome from unnest(p_moved) m
    cross join lateral (select d.id, d.outcome from holdfast.task_done d where d.id = m.task_id offset 0) d
    join holdfast.dag_run r on r.task_id = d.id and r.writes <> '[]'
    order by d.id) r
$$;
