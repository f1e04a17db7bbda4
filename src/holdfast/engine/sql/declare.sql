-- declare.sql: write a lifecycle down, so that Postgres can hold everybody to it.
-- Called by every process that brings lifecycles along, at each start; saying the same again changes nothing. Locks
-- nothing but the rows it writes.

-- The definition is what `Lifecycle.definition()` makes. Answers the version. A version that tasks were submitted under
-- never changes, since their history is read by it; one that nobody used yet is simply replaced.
create or replace function holdfast.declare(p_declaration json) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_definition jsonb;
  v_name text;
  v_version int;
  v_before record;
  v_id smallint;
begin
  v_definition := p_declaration;
  v_name := v_definition ->> 'name';
  v_version := v_definition ->> 'version';
  perform holdfast.check_value(v_definition);
  select l.definition::jsonb as definition, l.used into v_before from holdfast.lifecycle l
  where l.name = v_name and l.version = v_version;
  if v_before.definition = v_definition then
    return v_version;
  elsif v_before.used then
    raise exception 'Version % of % is in use and says otherwise: %.', v_version, v_name,
      (select string_agg(k.key, ', ' order by k.key) from jsonb_each(v_definition) k
       where k.value is distinct from v_before.definition -> k.key)
      using errcode = 'TK022', hint = format('Raise its version to %s: tasks in flight keep the one they have.',
        (select max(l.version) + 1 from holdfast.lifecycle l where l.name = v_name));
  end if;
  delete from holdfast.lifecycle l where l.name = v_name and l.version = v_version and not l.used;
  insert into holdfast.queue (name) values (v_definition ->> 'queue') on conflict do nothing;
  insert into holdfast.lifecycle (name, version, definition, queue, max_attempts, crash_budget, backoff, backoff_most,
                                  rate_wait, effects)
  values (v_name, v_version, p_declaration, v_definition ->> 'queue', (v_definition ->> 'max_attempts')::int,
          (v_definition ->> 'crash_budget')::int, make_interval(secs => (v_definition ->> 'backoff_seconds')::float8),
          make_interval(secs => (v_definition ->> 'backoff_most_seconds')::float8),
          make_interval(secs => (v_definition ->> 'rate_wait_seconds')::float8), v_definition ->> 'effects')
  on conflict (name, version) do nothing
  returning id into v_id;
  if v_id is null then
    return holdfast.declare(p_declaration);  -- somebody else declares it at this moment: compare with theirs
  end if;
  if v_definition ->> 'effects' is not null
     and to_regprocedure(format('holdfast.%I(holdfast.moved[])', v_definition ->> 'effects')) is null then
    raise exception 'There is no function holdfast.%(holdfast.moved[]).', v_definition ->> 'effects'
      using errcode = 'TK021', hint = 'Create it with a migration before the lifecycle is declared.';
  end if;
  perform holdfast.declare_states(v_id, v_definition);
  perform holdfast.declare_moves(v_id, v_definition);
  perform holdfast.check_declared(v_id, v_name);
  return v_version;
exception when data_exception or integrity_constraint_violation or program_limit_exceeded or cardinality_violation then
  raise exception '%: %', coalesce(v_name, 'a lifecycle without a name'), sqlerrm
    using errcode = 'TK021', hint = 'Write it with holdfast.engine.lifecycle.model.Lifecycle, which says what is wrong.';
end $$;

create or replace function holdfast.declare_states(p_id smallint, p_definition jsonb) returns void
language sql
as $$
  insert into holdfast.state (lifecycle, name, actor, outcome, leasable, time_limit, limit_in_all, limit_per_task)
  select p_id, s ->> 'name', (s ->> 'actor')::holdfast.actor, (s ->> 'outcome')::holdfast.outcome,
         -- Workers hold a task where they claim it: in place, or in the state that a claim leads to.
         s ->> 'actor' = 'worker' and (
           coalesce(s -> 'moves' ->> 'claim', s ->> 'name') = s ->> 'name'
           or exists (select from jsonb_array_elements(p_definition -> 'states') o
                      where o -> 'moves' ->> 'claim' = s ->> 'name')),
         make_interval(secs => (s -> 'limit' ->> 'seconds')::float8),
         make_interval(secs => (s -> 'limit' ->> 'renewed_up_to_seconds')::float8),
         coalesce((s -> 'limit' ->> 'per_task')::bool, false)
  from jsonb_array_elements(p_definition -> 'states') s
$$;

-- The declared moves, and the engine's own: they are rows of the matrix like any other.
create or replace function holdfast.declare_moves(p_id smallint, p_definition jsonb) returns void
language sql
as $$
  with declared(from_state, verb, to_state) as (
    select s ->> 'name', m.key, m.value
    from jsonb_array_elements(p_definition -> 'states') s, jsonb_each_text(s -> 'moves') m
    union all
    select s ->> 'name', 'limit', coalesce(s -> 'limit' ->> 'to', s ->> 'name')
    from jsonb_array_elements(p_definition -> 'states') s where s -> 'limit' <> 'null'
    union all
    select '', 'submit', p_definition ->> 'start'
    union all
    select '', 'submit_blocked', p_definition ->> 'blocked' where p_definition ->> 'blocked' is not null
  ), self(verb, leased_only) as (
    values ('claim', false), ('park', false), ('admit', false),
           ('later', true), ('retry', true), ('lost', true), ('ask_cancel', true)
  ), engine(from_state, verb, to_state) as (
    select s.name, e.verb,
           -- A lost worker is a failed attempt: it waits where the lifecycle lets failed attempts wait.
           case when e.verb = 'lost' then coalesce(r.to_state, s.name) else s.name end
    from holdfast.state s
    cross join self e
    left join declared r on r.from_state = s.name and r.verb = 'retry'
    where s.lifecycle = p_id and s.actor = 'worker' and (s.leasable or not e.leased_only)
      and not exists (select from declared d where d.from_state = s.name and d.verb = e.verb)
  ), moves as (
    select * from declared union all select * from engine
  )
  insert into holdfast.transition (lifecycle, from_state, verb, to_state, to_actor, to_outcome, to_leasable, to_limit,
                                   to_limit_in_all, to_limit_per_task, bump, effects)
  select p_id, m.from_state, m.verb, m.to_state, s.actor, s.outcome, s.leasable, s.time_limit,
         s.limit_in_all, s.limit_per_task,
         -- The attempt grows when it runs again: at once where it waits for a worker, else when its time has come.
         case when m.verb in ('retry', 'lost') and s.actor = 'worker' then 1
              when m.verb = 'due' and exists (select from declared d where d.verb = 'retry' and d.to_state = m.from_state)
                then 1
              else 0 end,
         p_definition ->> 'effects'
  from moves m left join holdfast.state s on s.lifecycle = p_id and s.name = m.to_state
$$;

-- What the verbs and the sweep rely on. (The teaching checks are those of engine/lifecycle/validate.py.)
create or replace function holdfast.check_declared(p_id smallint, p_name text) returns void
language sql
as $$
  select holdfast.refuse('TK021', format('%s: %s.', p_name, min(w.what)),
                         'Write it with holdfast.engine.lifecycle.model.Lifecycle, which says how to mend it.')
  from (
    select 'its name is not made of small letters, digits and _' as what where p_name !~ '^[a-z][a-z0-9_]{0,62}$'
    union all
    select format(r.what, s.name) from holdfast.state s
    cross join lateral (
      select count(*) as moves, bool_or(x.verb = 'due') as goes_on,
             bool_or(x.verb = 'cancel' and x.to_outcome = 'cancelled') as can_be_cancelled,
             bool_or(x.verb = 'fail' and x.to_outcome = 'failed') as can_fail,
             count(*) filter (where x.verb in ('unblock', 'skip', 'done', 'partial', 'fail')) as waits
      from holdfast.transition x where x.lifecycle = p_id and x.from_state = s.name) x
    cross join lateral (values
      (s.name !~ '^[A-Za-z][A-Za-z0-9_]{0,62}$', '%L cannot be a state'),
      (s.time_limit > interval '36500 days', 'the limit of %s is longer than a hundred years'),
      (s.actor <> 'nobody' and x.can_be_cancelled is not true, '%s cannot be cancelled'),
      (s.actor = 'nobody' and x.moves > 0, '%s is final, yet moves on'),
      (s.leasable and x.can_fail is not true, 'a worker that holds a task in %s cannot fail'),
      (s.actor = 'tasks' and x.waits not in (2, 3), '%s waits for other tasks in no known way'),
      (s.actor = 'clock' and x.goes_on is not true, 'time leads from %s to nowhere')) r(is_wrong, what)
    where s.lifecycle = p_id and r.is_wrong
    union all
    select r.what from holdfast.transition x
    cross join lateral (values
      (x.verb !~ '^[a-z][a-z0-9_]{0,62}$' and x.verb <> 'to:' || x.to_state, format('%L cannot be a verb', x.verb)),
      (x.verb = 'claim' and x.to_actor <> 'worker',
       format('claiming from %s leads to %s, where no worker acts', x.from_state, x.to_state)),
      (x.from_state = '' and x.to_actor = 'nobody', 'it starts in a final state')) r(is_wrong, what)
    where x.lifecycle = p_id and r.is_wrong
    union all
    select 'no state of it is final'
    where not exists (select from holdfast.state s where s.lifecycle = p_id and s.actor = 'nobody')
  ) w having count(*) > 0
$$;

-- The definitions of the newest versions, or of all.
create or replace function holdfast.lifecycles(p_all bool default false)
returns table (name text, version int, definition json, declared_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select l.name, l.version::int, l.definition, l.declared_at from holdfast.lifecycle l
  where p_all or l.version = (select max(n.version) from holdfast.lifecycle n where n.name = l.name)
  order by l.name, l.version
$$;

-- What a lifecycle declares of a state.
create or replace function holdfast.declared_state(p_lifecycle smallint, p_state text) returns json
language sql stable
as $$
  select s.value from holdfast.lifecycle l cross join lateral json_array_elements(l.definition -> 'states') s
  where l.id = p_lifecycle and s.value ->> 'name' = p_state
$$;
