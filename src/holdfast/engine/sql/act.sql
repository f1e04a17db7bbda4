-- act.sql: the owner does what the state allows the owner to do.
-- Called for people and clients. Locks the task. A limit that has passed counts, whether or not a sweep has seen it yet:
-- the task then ends by its limit and the act is refused.

create or replace function holdfast.act(p_id uuid, p_verb text, p_note jsonb default null)
returns table (status text, state text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_task record;
  v_to text;
begin
  perform holdfast.check_value(p_note);
  select t.lifecycle, t.state, t.actor, t.deadline into v_task from holdfast.task t where t.id = p_id for update;
  if not found then
    perform holdfast.refuse_missing(p_id, p_verb);
  end if;
  if v_task.actor = 'owner' and v_task.deadline <= holdfast.now() then
    perform holdfast.move(array[p_id], array['limit'], null, array[holdfast.time_limit_note(v_task.lifecycle, v_task.state)]);
    return query select 'expired', t.state from holdfast.find_task(p_id) t;
    return;
  end if;
  if not exists (select from holdfast.transition x join holdfast.state s
                   on s.lifecycle = x.lifecycle and s.name = x.from_state and s.actor = 'owner'
                 where x.lifecycle = v_task.lifecycle and x.verb = p_verb and p_verb not in ('cancel', 'limit')) then
    raise exception 'No owner of this lifecycle has the verb %.', quote_nullable(p_verb) using errcode = 'TK013',
      hint = format('Its owners'' verbs are: %s.', (
        select coalesce(string_agg(distinct x.verb, ', '), 'none') from holdfast.transition x join holdfast.state s
          on s.lifecycle = x.lifecycle and s.name = x.from_state and s.actor = 'owner'
        where x.lifecycle = v_task.lifecycle and x.verb not in ('cancel', 'limit')));
  end if;
  select x.to_state into v_to from holdfast.transition x
  where x.lifecycle = v_task.lifecycle and x.from_state = v_task.state and x.verb = p_verb;
  if v_to is null or v_task.actor <> 'owner' then
    raise exception 'Task % is %: % is not possible there.', p_id, v_task.state, p_verb
      using errcode = 'TK002', hint = format('Possible now: %s.', holdfast.possible_verbs(v_task.lifecycle, v_task.state));
  end if;
  perform holdfast.move(array[p_id], array[p_verb], array[holdfast.now()], array[p_note]);
  return query select 'ok', v_to;
end $$;

-- What the owner can do from a state, in words.
create or replace function holdfast.possible_verbs(p_lifecycle smallint, p_state text) returns text
language sql stable
as $$
  select string_agg(x.verb, ', ' order by x.verb)
  from holdfast.transition x join holdfast.state s on s.lifecycle = x.lifecycle and s.name = x.from_state
  where x.lifecycle = p_lifecycle and x.from_state = p_state
    and (x.verb = 'cancel' or (s.actor = 'owner' and x.verb <> 'limit'))
$$;

create or replace function holdfast.refuse_missing(p_id uuid, p_verb text) returns void
language plpgsql
as $$
declare
  v_state text;
begin
  select t.state into v_state from holdfast.task_done t where t.id = p_id;
  if found then
    raise exception 'Task % is %, which is final: % is not possible any more.', p_id, v_state, p_verb
      using errcode = 'TK002', hint = 'Retry it as a new task, if it must run again.';
  end if;
  raise exception 'No task has the id %.', p_id using errcode = 'TK003', hint = 'submit answers with the id.';
end $$;

-- A value that a move brings along: what is kept with the task must stay small.
create or replace function holdfast.check_value(variadic p_values jsonb[]) returns void
language plpgsql immutable
as $$
declare
  v_problem text[];
begin
  select min(holdfast.payload_problem(v, 1048576)) into v_problem from unnest(p_values) v where v is not null;
  if v_problem is not null then
    perform holdfast.refuse(v_problem[1], v_problem[2], v_problem[3]);
  end if;
end $$;
