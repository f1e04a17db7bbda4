-- enforce.sql: no row of a task changes, whichever role writes, unless its lifecycle declares the move; and every move leaves
-- its event and its effects in the same transaction.
-- Called by the triggers of migration 0003. Takes no lock.

create or replace function holdfast.refuse_move() returns trigger
language plpgsql
as $$
begin
  raise exception 'Task % is %, and does not become % like that.', old.id, old.state, new.state
    using errcode = 'TK002', hint = 'Move tasks with the functions of the schema holdfast, not by writing its tables.';
end $$;

create or replace function holdfast.refuse_change() returns trigger
language plpgsql
as $$
begin
  raise exception 'Rows of % are never changed.', tg_table_name
    using errcode = 'TK002', hint = 'A finished task is final; retry it as a new task with holdfast.retry.';
end $$;

-- Every start, move and end: declared, and written down. Reads only the new rows: what an update changed is compared by
-- the trigger refuse_move, and joining old and new rows here costs several times as much in large batches.
create or replace function holdfast.record_moves() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_moved bigint := (select count(*) from moved);
  v_written bigint;
  v_with_effects smallint[] := array(select l.id from holdfast.lifecycle l where l.effects is not null);
  v_effects bool;
  v_idle bool;
begin
  if v_moved = 0 then  -- statement triggers fire for no rows too
    return null;
  end if;
  insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt, worker_id, data)
  select n.id, n.version, n.verb, n.from_state, n.state, n.attempt, n.worker_id, n.note
  from moved n
  cross join lateral (
    select from holdfast.transition x
    where x.lifecycle = n.lifecycle and x.from_state = n.from_state and x.verb = n.verb
      and x.to_state = n.state and x.to_actor = n.actor offset 0) x
  where case when tg_op = 'INSERT' and tg_table_name = 'task'
    then n.version = 0 and n.from_state = '' and n.attempt = 1 and n.lease_token is null
    else n.version > 0 and n.from_state <> '' end;
  get diagnostics v_written = row_count;
  if v_written <> v_moved then
    raise exception 'This move is not declared: %.',
      (select string_agg(distinct format('%s -%s-> %s', n.from_state, n.verb, n.state), ', ') from moved n)
      using errcode = 'TK002', hint = 'Declare it in the lifecycle, or use a verb that it has.';
  end if;
  select exists (select from moved n where n.lifecycle = any (v_with_effects)),
         tg_table_name = 'task' and exists (select from holdfast.worker w where w.idle_since is not null)
    into v_effects, v_idle;
  if v_effects then
    perform holdfast.run_effects(array_agg(x.effects), array_agg((
        n.id, l.name, n.name, n.owner, n.verb, null, n.from_state, n.state, n.attempt, n.lease_token,
        coalesce((select q.result from holdfast.task_done q where q.id = n.id), n.note))::holdfast.moved))
    from moved n
    cross join lateral (
      select x.effects from holdfast.transition x
      where x.lifecycle = n.lifecycle and x.from_state = n.from_state and x.verb = n.verb offset 0) x
    cross join lateral (select l.name from holdfast.lifecycle l where l.id = n.lifecycle offset 0) l
    where x.effects is not null
    having count(*) > 0;
  end if;
  if v_idle then
    perform holdfast.wake_workers(array_agg(distinct n.queue), array_agg(distinct n.name), count(*)::int) from moved n
    where n.actor = 'worker' and n.lease_token is null and n.parked is null and n.due_at <= holdfast.now()
    having count(*) > 0;
  end if;
  return null;
end $$;

-- Nothing compared a finished row with the live one, so the log itself must say that the task was where its last move
-- starts, the live row must be gone, and the outcome must be the state's. (Scalar sub-selects: EXISTS reads all events.)
create or replace function holdfast.check_ends() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_forged uuid;
begin
  select n.id into v_forged from moved n
  where (select e.to_state from holdfast.event e where e.task_id = n.id and e.version = n.version - 1)
          is distinct from n.from_state
     or (select t.version from holdfast.task t where t.id = n.id) is not null
     or (select s.outcome from holdfast.state s where s.lifecycle = n.lifecycle and s.name = n.state)
          is distinct from n.outcome
  limit 1;
  if found then
    raise exception 'Task %: this end is not declared, or not where the task was.', v_forged
      using errcode = 'TK002', hint = 'Move tasks with the functions of the schema holdfast, not by writing its tables.';
  end if;
  return null;
end $$;

-- Tell each lifecycle's own function what happened to its tasks: the note of a move, the result of an end or of a step.
-- What it raises undoes the move.
create or replace function holdfast.run_effects(p_function text[], p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  v_function text;
  v_moved holdfast.moved[];
begin
  for v_function, v_moved in
    select f.name, array_agg(p_moved[f.place] order by f.place)
    from unnest(p_function) with ordinality f(name, place) group by f.name order by f.name
  loop
    execute format('select holdfast.%I($1)', v_function) using v_moved;
  end loop;
end $$;
