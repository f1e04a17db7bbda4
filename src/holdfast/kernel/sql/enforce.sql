-- enforce.sql: no row of a task changes, by whomever, unless its lifecycle declares the move; and every move leaves
-- its event and its effects in the same transaction.
-- Called by the triggers of migration 0003. Takes no lock.

create or replace function holdfast.refuse_move() returns trigger
language plpgsql
as $$
begin
  raise exception 'Task %: % from % to % is no move of it.', old.id, new.verb, old.state, new.state
    using errcode = 'TK002', hint = 'Move tasks with the functions of the schema holdfast, not by writing its tables.';
end $$;

create or replace function holdfast.refuse_change() returns trigger
language plpgsql
as $$
begin
  raise exception 'Rows of % are never changed.', tg_table_name
    using errcode = 'TK002', hint = 'A finished task is final; retry it as a new task with holdfast.retry.';
end $$;

-- Births and moves of live tasks. The trigger refuse_move has compared an update with the row before it, so this one
-- reads only the new rows: joining old and new ones costs six times as much in large batches.
create or replace function holdfast.record_moves() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_declared bigint;
  v_all bigint;
  v_effects text[];
  v_told holdfast.moved[];
begin
  if not exists (select from moved) then  -- statement triggers fire for no rows too
    return null;
  end if;
  with declared as materialized (
    select n.id, n.version, n.verb, n.from_state, n.state, n.attempt, n.worker_id, n.note,
           n.lifecycle, n.name, n.owner, n.lease_token, x.effects
    from moved n
    cross join lateral (
      select x.effects from holdfast.transition x
      where x.lifecycle = n.lifecycle and x.from_state = n.from_state and x.verb = n.verb
        and x.to_state = n.state and x.to_actor = n.actor offset 0) x
    where case when tg_op = 'INSERT'
      then n.version = 0 and n.from_state = '' and n.attempt = 1 and n.lease_token is null
      else n.from_state <> '' end
  ), written as (
    insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt, worker_id, data)
    select d.id, d.version, d.verb, d.from_state, d.state, d.attempt, d.worker_id, d.note from declared d
  )
  select count(*), (select count(*) from moved), array_agg(d.effects) filter (where d.effects is not null),
         array_agg((d.id, l.name, d.name, d.owner, d.verb, null, d.from_state, d.state, d.attempt, d.lease_token,
                    d.note)::holdfast.moved) filter (where d.effects is not null)
    into v_declared, v_all, v_effects, v_told
  from declared d
  left join holdfast.lifecycle l on d.effects is not null and l.id = d.lifecycle;
  if v_declared <> v_all then
    raise exception 'This move is not declared: %.',
      (select string_agg(distinct format('%s -%s-> %s', n.from_state, n.verb, n.state), ', ') from moved n)
      using errcode = 'TK002', hint = 'Declare it in the lifecycle, or use a verb that it has.';
  end if;
  if v_effects is not null then
    perform holdfast.run_effects(v_effects, v_told);
  end if;
  return null;
end $$;

-- Ends. Nothing compared these rows with the live ones, so the log itself must say that the task was where this move
-- starts, and the live row must be gone. (A scalar sub-select: EXISTS here reads all events.)
create or replace function holdfast.record_ends() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_declared bigint;
  v_all bigint;
  v_effects text[];
  v_told holdfast.moved[];
begin
  if not exists (select from moved) then
    return null;
  end if;
  with declared as materialized (
    select n.id, n.version, n.verb, n.from_state, n.state, n.attempt, n.worker_id, n.note, n.result,
           n.lifecycle, n.name, n.owner, n.token, x.effects
    from moved n
    cross join lateral (
      select x.effects from holdfast.transition x
      where x.lifecycle = n.lifecycle and x.from_state = n.from_state and x.verb = n.verb
        and x.to_state = n.state and x.to_actor = n.actor and x.to_outcome = n.outcome offset 0) x
    where n.from_state = (select e.to_state from holdfast.event e where e.task_id = n.id and e.version = n.version - 1)
      and (select t.version from holdfast.task t where t.id = n.id) is null
  ), written as (
    insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt, worker_id, data)
    select d.id, d.version, d.verb, d.from_state, d.state, d.attempt, d.worker_id, d.note from declared d
  )
  select count(*), (select count(*) from moved), array_agg(d.effects) filter (where d.effects is not null),
         array_agg((d.id, l.name, d.name, d.owner, d.verb, null, d.from_state, d.state, d.attempt, d.token,
                    coalesce(d.result, d.note))::holdfast.moved) filter (where d.effects is not null)
    into v_declared, v_all, v_effects, v_told
  from declared d
  left join holdfast.lifecycle l on d.effects is not null and l.id = d.lifecycle;
  if v_declared <> v_all then
    raise exception 'This end is not declared: %.',
      (select string_agg(distinct format('%s -%s-> %s', n.from_state, n.verb, n.state), ', ') from moved n)
      using errcode = 'TK002', hint = 'Declare it in the lifecycle, or use a verb that it has.';
  end if;
  if v_effects is not null then
    perform holdfast.run_effects(v_effects, v_told);
  end if;
  return null;
end $$;

-- Tell each lifecycle's own function what happened to its tasks. What it raises undoes the move.
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
