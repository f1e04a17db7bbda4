-- retrying.sql: a run that did not complete goes on in a new one; and a node is not retried out of its run.
-- Called by owners and operators. Locks the old run's row, then the open inbox entries of its nodes, then what submit locks.

-- A new run in which only the nodes that did not complete run again; those that did are its nodes too, with what they
-- returned. It goes on with the generations that the old one was building.
create or replace function holdfast.retry_dag(p_run uuid, p_by text default null, p_note text default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_run holdfast.dag_run;
  v_open text;
  v_old uuid[];
  v_place int[];
  v_new uuid[];
  v_waits record;
begin
  select * into v_run from holdfast.dag_run r where r.task_id = p_run for update;
  if not found then
    perform holdfast.refuse('TK046', format('No run of a graph has the id %s.', p_run), 'holdfast dag ls lists them.');
  elsif v_run.retried_as is not null then
    perform holdfast.refuse('TK002', format('Run %s was retried as %s.', p_run, v_run.retried_as),
                            format('Look at that one: holdfast dag show %s', v_run.retried_as));
  end if;
  -- A run that goes on is not retried, nor one of which a node is still being stopped.
  if (select t.id from holdfast.task t where t.id = p_run) is not null then
    perform holdfast.refuse('TK002', format('Run %s has not ended.', p_run),
      'Cancel it first, or retry one of its nodes in it: holdfast retry NODE --dependents');
  end if;
  select n.name into v_open from holdfast.dag_node n
  where n.run = p_run and (select t.id from holdfast.task t where t.id = n.task_id) is not null order by n.number limit 1;
  if found then
    perform holdfast.refuse('TK002', format('Node %s of run %s is still being stopped.', v_open, p_run),
                            'Retry the run when its worker has let go of it.');
  end if;
  -- The root, then the nodes that did not complete, in their order; v_place is where each number stands.
  select array_agg(n.task_id order by n.number) filter (where not n.good),
         array_agg(case when not n.good then n.place::int end order by n.number)
    into v_old, v_place
  from (select n.number, n.task_id, d.good, 1 + sum((not d.good)::int) over (order by n.number) as place
        from holdfast.dag_node n
        cross join lateral (
          select d.outcome in ('done', 'partial') as good from holdfast.task_done d where d.id = n.task_id offset 0) d
        where n.run = p_run) n;
  if v_old is null then
    perform holdfast.refuse('TK002', format('Every node of run %s completed: nothing is left to run.', p_run), 'Start a new run.');
  end if;
  perform holdfast.lock_entries(v_old);
  select array_agg(v_place[(e ->> 1)::int]) as place, array_agg(v_place[(e ->> 0)::int]) as for_place, array_agg(e ->> 2) as policy,
         array_agg(case when v_place[(e ->> 0)::int] is null then (
           select n.task_id from holdfast.dag_node n where n.run = p_run and n.number = (e ->> 0)::int) end) as waits_for
    into v_waits
  from jsonb_array_elements(v_run.edges) e where v_place[(e ->> 1)::int] is not null;
  v_new := holdfast.submit_again(
    p_run || v_old, null, null, null::int || array_fill(1, array[cardinality(v_old)]),
    v_waits.place, v_waits.waits_for, v_waits.for_place, v_waits.policy);
  insert into holdfast.dag_run (task_id, declared, body_hash, params, edges, writes, cutover)
  values (v_new[1], v_run.declared, v_run.body_hash, v_run.params, v_run.edges, v_run.writes, v_run.cutover);
  insert into holdfast.dag_node (run, number, name, task_id)
  select v_new[1], n.number, n.name, coalesce(v_new[v_place[n.number]], n.task_id) from holdfast.dag_node n where n.run = p_run;
  insert into holdfast.dependency (upstream, downstream, policy, outcome)
  select n.task_id, v_new[1], 'gather', (select d.outcome from holdfast.task_done d where d.id = n.task_id)
  from holdfast.dag_node n where n.run = p_run and v_place[n.number] is null order by 1;
  perform holdfast.link_retries(p_run || v_old, v_new, p_by, p_note => p_note);
  update holdfast.dag_run r set retried_as = v_new[1] where r.task_id = p_run;
  if v_run.writes <> '[]' then
    perform holdfast.adopt_generations(p_run, v_new[1]);
  end if;
  return v_new[1];
end $$;

-- A retry of a node's task, in whatever way, is one in its run: the run gathers the new task instead, which is
-- the node from then on. Out of a run that has ended nothing is retried by itself: its datasets would not hear of it.
create or replace function holdfast.check_node_retry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $$
declare
  v_run uuid;
  v_other uuid;
begin
  if exists (select from holdfast.dag_node n where n.task_id = new.id) then
    return null;  -- the whole run is
  end if;
  select n.run into v_run from holdfast.dag_node n where n.task_id = new.retry_of order by n.run desc limit 1;
  if not found then
    v_other := (select holdfast.newest_retry(i.id) from holdfast.input i
                where i.retry_of = new.retry_of and i.id <> new.id order by i.id desc limit 1);
    if exists (select from holdfast.dag_node n where n.task_id = v_other) then
      perform holdfast.refuse('TK002', format('Task %s was retried in its run, as %s.', new.retry_of, v_other),
                              format('Look at that one: holdfast why %s', v_other));
    end if;
    return null;
  elsif (select t.id from holdfast.task t where t.id = v_run) is null then
    perform holdfast.refuse('TK002', format('Task %s is a node of run %s, which has ended.', new.retry_of, v_run),
                            format('Retry the run; what completed does not run again: holdfast dag retry %s', v_run));
  elsif (select d.outcome from holdfast.task_done d where d.id = new.retry_of) in ('done', 'partial') then
    perform holdfast.refuse('TK002', format('Task %s is a node of run %s, and completed.', new.retry_of, v_run),
                            'What comes after it has its result. Start a new run.');
  elsif not exists (select from holdfast.dependency d
                    where d.upstream = new.id and d.downstream = v_run and d.policy = 'gather') then
    perform holdfast.refuse('TK002', format('Task %s is a node of run %s, which goes on.', new.retry_of, v_run),
                            format('Retry it with what waits for it: holdfast retry %s --dependents', new.retry_of));
  end if;
  update holdfast.dag_node n set task_id = new.id where n.run = v_run and n.task_id = new.retry_of;
  return null;
end $$;
