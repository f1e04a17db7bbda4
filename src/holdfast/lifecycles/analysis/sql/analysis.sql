-- analysis.sql: what users ask of their tasks. Called by the HTTP server; whether a task may move is decided in act.sql.

-- Define a tool and its agents. The newest definition counts, for tasks that are made from now on. With p_unless_known
-- an existing definition stays: a process that offers the tool without running it must not change it.
create or replace function holdfast.define_tool(
  p_id text, p_title text, p_agents jsonb, p_unless_known bool default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(p_id, '') !~ '^[a-z0-9][a-z0-9-]{0,99}$' or p_title is null or jsonb_typeof(p_agents) is distinct from 'array' then
    perform holdfast.refuse('TK010', format('%s is not a tool.', quote_nullable(p_id)),
                            'A tool has an id of small letters, digits and dashes, a title, and a list of agents.');
  end if;
  if exists (select from jsonb_array_elements(p_agents) a
             where coalesce(a.value ->> 'name', '') !~ '^[a-z0-9][a-z0-9-]{0,99}$'
                or coalesce(a.value ->> 'credits', '') !~ '^[0-9]{1,7}$') then
    perform holdfast.refuse('TK010', format('An agent of %L has no name, or no price.', p_id),
                            'Give it small letters, digits and dashes, and 0 to 9999999 credits.');
  end if;
  insert into holdfast.tool as t (id, title, agents) values (p_id, p_title, p_agents)
  on conflict (id) do update set title = excluded.title, agents = excluded.agents, defined_at = holdfast.now()
  where (t.title, t.agents) is distinct from (excluded.title, excluded.agents) and p_unless_known is not true;
end $$;

-- `available`: a live worker runs it.
create or replace function holdfast.tools()
returns table (id text, title text, agents jsonb, available bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select t.id, t.title, t.agents, exists (select from holdfast.worker w where t.id = any (w.names) and holdfast.is_live(w))
  from holdfast.tool t order by t.id
$$;

-- A task of this tool with these agents, in the order in which they are named. Its effects refuse wrong ones.
create or replace function holdfast.make_analysis(
  p_tool text, p_agents text[], p_owner text, p_key text default null, p_trace text default null)
returns table (task_id uuid, created bool, created_at timestamptz, expires_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_id uuid;
  v_created bool;
begin
  if not exists (select from holdfast.tool t where t.id = p_tool) then
    perform holdfast.refuse('TK010', format('There is no tool %s.', quote_nullable(p_tool)), format('There are: %s.',
      (select coalesce(string_agg(t.id, ', ' order by t.id), 'none') from holdfast.tool t)));
  end if;
  select s.id, s.created into v_id, v_created from holdfast.submit_many(
    array['analysis'], array[p_tool], array[jsonb_build_object('tool_id', p_tool, 'agents', coalesce(p_agents, '{}'))],
    p_key => array[p_key], p_owner => array[p_owner], p_trace => array[p_trace]) s;
  return query
  select v_id, v_created, e.at, e.at + (
    select s.time_limit from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle
    where l.name = 'analysis' and s.name = e.to_state order by l.version desc limit 1)
  from holdfast.event e where e.task_id = v_id and e.version = 0;
end $$;

create or replace function holdfast.agent_names(p_agents jsonb) returns text
language sql immutable
as $$ select string_agg(a.value ->> 'name', ', ' order by a.ordinality) from jsonb_array_elements(p_agents) with ordinality a $$;

-- A task with its files, steps and transitions. Raises TK003 for one that is missing, has no tool, or is not this owner's.
create or replace function holdfast.read_analysis(p_id uuid, p_owner text default null) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_found jsonb;
begin
  select jsonb_build_object(
      'task_id', t.id, 'owner', t.owner, 'state', t.state, 'note', t.note,
      'deadline', case when t.outcome is null then t.deadline end, 'created_at', t.created_at,
      'cancel_requested', t.cancel_requested, 'now', holdfast.now(),
      'tool_id', i.payload ->> 'tool_id', 'agents', i.payload -> 'agents', 'prices', a.prices,
      'reserved', a.reserved, 'charged', a.charged,
      'folder', holdfast.analysis_folder(t.owner, t.id),
      'current_step', (select b.progress ->> 'step' from holdfast.beat b where b.task_id = t.id and b.token = t.lease_token),
      'transitions', (select jsonb_agg(jsonb_build_object('from_state', e.from_state, 'to_state', e.to_state, 'at', e.at)
                                       order by e.version)
                from holdfast.event e where e.task_id = t.id and e.from_state <> e.to_state),
      'linked_at', (select max(e.at) from holdfast.event e where e.task_id = t.id and e.verb = 'upload_urls'),
      'steps', (select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'at', s.at, 'result', s.result)
                                          order by s.at, s.name), '[]')
                from holdfast.step s where s.task_id = t.id and s.done and s.at >= t.created_at),  -- not inherited
      'files', (select coalesce(jsonb_agg(to_jsonb(f) - '{task_id,bytes}'::text[] order by f.role desc), '[]')
                from holdfast.analysis_file f where f.task_id = t.id),
      'outputs_kept_until', (select min(c.kept_until) from holdfast.cleanup c
                             where c.task_id = t.id and c.prefix !~ '/(uploads|inputs)$'),
      'cleaned', coalesce((select bool_and(c.done_at is not null) from holdfast.cleanup c where c.task_id = t.id), false))
    into v_found
  from holdfast.find_task(p_id) t
  join holdfast.lifecycle l on l.id = t.lifecycle and l.name = 'analysis'
  join holdfast.analysis a on a.task_id = t.id
  join holdfast.input i on i.id = t.id
  where (p_owner is null or t.owner = p_owner) and a.prices <> '{}';
  if v_found is null then
    raise exception 'No task has the id %.', p_id using errcode = 'TK003', hint = 'POST /tasks answers with the id.';
  end if;
  return v_found;
end $$;
