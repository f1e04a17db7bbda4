-- effects.sql: what a transition of a user task writes beside the task, in the same transaction.
-- Called by every transition and every step of the lifecycle `analysis`. Locks wallets; an error undoes the transition. A task
-- that was submitted without a tool has no files and no price.

create or replace function holdfast.analysis_effects(p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  m holdfast.moved;
begin
  -- All wallets that may be needed, in the order of their owners, so that two lists never wait for each other.
  perform w.owner from holdfast.wallet w
  where w.owner = any (array(select n.owner from unnest(p_moved) n where n.verb not in ('submit', 'upload_urls', 'claim', 'later')))
  order by w.owner for update;
  foreach m in array p_moved loop
    if m.from_state = '' then
      insert into holdfast.analysis (task_id, owner, prices) values (m.task_id, m.owner, holdfast.prices_of(m.task_id, m.name));
    elsif m.verb = 'upload_urls' and m.data ? 'files' then
      perform holdfast.promise_files(m.task_id, m.data -> 'files');
    elsif m.verb = 'process' then
      perform holdfast.freeze_files(m.task_id, m.data -> 'inputs');
      perform holdfast.transfer('reserve', m.owner, holdfast.check_credits_for(m.task_id), m.task_id);
    elsif m.verb = 'files_missing' and exists (
      select from holdfast.analysis_file f where f.task_id = m.task_id and not m.data -> 'looked_at' ? f.upload_key) then
      -- The places where files were found missing must be those where they are to be now.
      perform holdfast.refuse('TK002', 'New links were asked for meanwhile.', 'Upload by them, then process.');
    elsif m.verb = 'step' then
      perform holdfast.transfer('charge', m.owner, (a.prices ->> m.step)::bigint, m.task_id, m.step)
      from holdfast.analysis a where a.task_id = m.task_id;
    end if;
    if (select d.id from holdfast.task_done d where d.id = m.task_id) is not null then  -- it has ended
      perform holdfast.transfer('release', m.owner, a.reserved, m.task_id)
      from holdfast.analysis a where a.task_id = m.task_id;
      -- How long files are kept. A link may still be used for a while after a task has expired, so its folder is deleted twice.
      perform holdfast.delete_later(m.task_id, holdfast.analysis_folder(m.owner, m.task_id) || k.part, k.after)
      from (values ('COMPLETED', '/uploads', interval '7 days'), ('COMPLETED', '/inputs', interval '7 days'),
                   ('COMPLETED', '/outputs', interval '30 days'),
                   ('FAILED', '', interval '7 days'), ('CANCELLED', '', interval '7 days'),
                   ('EXPIRED', '', interval '0'), ('EXPIRED', '', interval '1 day')) k(state, part, after)
      where k.state = m.to_state;
    end if;
  end loop;
end $$;

-- What the agents cost that a new task names: the prices of today, however the task was made. A task
-- without a tool has none. Raises TK010 for a tool or an agent that is not there.
create or replace function holdfast.prices_of(p_task uuid, p_name text) returns jsonb
language plpgsql
as $$
declare
  v_payload jsonb := (select i.payload from holdfast.input i where i.id = p_task);
  v_tool text := case when jsonb_typeof(v_payload) = 'object' then v_payload ->> 'tool_id' end;
  v_known jsonb := (select t.agents from holdfast.tool t where t.id = p_name);
  v_agents text[];
  v_unknown text;
begin
  if v_known is null and v_tool is null then
    return '{}';
  elsif v_known is null or v_tool is distinct from p_name or jsonb_typeof(v_payload -> 'agents') is distinct from 'array'
     or v_payload - '{tool_id,agents}'::text[] <> '{}' then
    perform holdfast.refuse('TK010', format('A task of %L names its tool_id and its agents, and nothing else.', p_name),
                            format('There are: %s.', (select coalesce(string_agg(t.id, ', ' order by t.id), 'none') from holdfast.tool t)));
  end if;
  v_agents := array(select jsonb_array_elements_text(v_payload -> 'agents'));
  if cardinality(v_agents) = 0 then
    perform holdfast.refuse('TK010', 'agents is empty.', format('%s has: %s.', p_name, holdfast.agent_names(v_known)));
  end if;
  select a.name into v_unknown from unnest(v_agents) a(name)
  where v_known @> jsonb_build_array(jsonb_build_object('name', a.name)) is not true limit 1;
  if found then
    perform holdfast.refuse('TK010', format('%s has no agent %s.', p_name, quote_nullable(v_unknown)),
                            format('It has: %s.', holdfast.agent_names(v_known)));
  elsif cardinality(v_agents) > (select count(distinct a) from unnest(v_agents) a) then
    perform holdfast.refuse('TK010', 'An agent is named twice.', 'Each runs once.');
  end if;
  return (select jsonb_object_agg(a.value ->> 'name', (a.value ->> 'credits')::bigint) from jsonb_array_elements(v_known) a
          where a.value ->> 'name' = any (v_agents));
end $$;

-- New links replace the old ones: only the newest promise counts.
create or replace function holdfast.promise_files(p_task uuid, p_files jsonb) returns void
language plpgsql
as $$
declare
  v_agent text;
begin
  if not p_files @? '$[*] ? (@.role == "primary")' then
    perform holdfast.refuse('TK010', 'A task needs a primary file.', 'Name it in files.primary.');
  end if;
  select a.value ->> 'name' into v_agent
  from holdfast.input i join holdfast.tool t on t.id = i.payload ->> 'tool_id'
  cross join lateral jsonb_array_elements(t.agents) a
  where i.id = p_task and i.payload -> 'agents' ? (a.value ->> 'name') and (a.value ->> 'needs_baseline')::bool
    and not p_files @? '$[*] ? (@.role == "baseline")' limit 1;
  if found then
    perform holdfast.refuse('TK010', format('%s needs a baseline to compare with.', v_agent),
                            'Name it in files.baseline.');
  end if;
  delete from holdfast.analysis_file f where f.task_id = p_task;
  insert into holdfast.analysis_file (task_id, role, upload_key, filename, content_type, size, sha256)
  select p_task, f.role, f.upload_key, f.filename, f.content_type, f.size, f.sha256
  from jsonb_to_recordset(p_files)
    f(role text, upload_key text, filename text, content_type text, size bigint, sha256 text);
end $$;

-- From here on workers read these copies; later uploads by the links change nothing. Steps that a retried task
-- inherited were made from other files.
create or replace function holdfast.freeze_files(p_task uuid, p_inputs jsonb) returns void
language plpgsql
as $$
declare
  v_missing text;
begin
  update holdfast.analysis_file f set input_key = i.key, bytes = i.bytes
  from jsonb_to_recordset(coalesce(p_inputs, '[]')) i(role text, upload_key text, key text, bytes bigint)
  where f.task_id = p_task and f.role = i.role and f.upload_key = i.upload_key;
  select string_agg(f.role, ', ' order by f.role) into v_missing
  from holdfast.analysis_file f where f.task_id = p_task and f.input_key is null;
  if v_missing is not null then
    perform holdfast.refuse('TK002', format('These files are not verified: %s.', v_missing),
                            'New links were asked for meanwhile: upload by them, then process.');
  end if;
  delete from holdfast.step s where s.task_id = p_task;
end $$;

-- What the task costs, if its owner can pay it now. VOLATILE: after a lock it must see what was committed before.
create or replace function holdfast.check_credits_for(p_task uuid) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_owner text;
  v_price bigint;
  v_balance bigint;
begin
  select a.owner, (select coalesce(sum(c.value::bigint), 0) from jsonb_each_text(a.prices) c) into v_owner, v_price
  from holdfast.analysis a where a.task_id = p_task;
  if coalesce(v_price, 0) = 0 then
    return 0;
  end if;
  select w.balance into v_balance from holdfast.wallet w where w.owner = v_owner;
  if not found then
    perform holdfast.refuse('TK026', format('%L has no wallet.', v_owner), 'An operator opens one with a top-up.');
  elsif v_balance < v_price then
    perform holdfast.refuse('TK025', format('This costs %s credits, and %s are left.', v_price, v_balance),
                            'Add credits, then process it again; it waits where it is until its links expire.');
  end if;
  return v_price;
end $$;

-- Where the files of a task are.
create or replace function holdfast.analysis_folder(p_owner text, p_task uuid) returns text
language sql stable
as $$ select format('%s/tasks/%s', holdfast.owner_folder(p_owner), p_task) $$;
