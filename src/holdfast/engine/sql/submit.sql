-- submit.sql: a new task, with its payload, its dependencies and its first event.
-- Called by anyone, in a transaction of their own if they like: the task commits or vanishes with it. Waits for a caller that
-- uses the same idempotency key; locks the tasks it depends on, so that none of them can end unnoticed.

-- One task. `after` are tasks to wait for; if one ends badly this one is cancelled (`on_failure`: or skip, ignore). With
-- `policies`, as many as `after`, each of them has its own.
create or replace function holdfast.submit(
  task text, payload jsonb default '{}', lifecycle text default 'dispatch', queue text default null,
  priority int default 0, key text default null, delay interval default null, run_at timestamptz default null,
  max_attempts int default null, owner text default '', after uuid[] default '{}', on_failure text default 'cancel',
  parent uuid default null, limit_key text default null, limit_to int default null, time_limit interval default null,
  tags text[] default null, trace text default null, policies text[] default null)
returns uuid
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select s.id from holdfast.submit_many(
    array[lifecycle], array[task], array[payload], array[queue], array[priority], array[key], array[delay],
    array[run_at], array[max_attempts], array[owner], case when parent is not null then array[parent] end, null,
    array[limit_key], array[limit_to], array[time_limit],
    -- Without tasks to wait for there is nothing to look at, and any isolation level will do.
    case when cardinality(after) > 0 then array_fill(1, array[cardinality(after)]) end, nullif(after, '{}'), null,
    case when cardinality(after) > 0 then coalesce(policies, array_fill(on_failure, array[cardinality(after)])) end,
    case when cardinality(tags) > 0 then array[to_jsonb(tags)] end, case when trace is not null then array[trace] end) s
$$;

-- Many tasks, whole or not at all. Parallel arrays, a task at each place; null leaves the default. Dependencies and
-- parents are tasks that exist, or places earlier in this call.
create or replace function holdfast.submit_many(
  p_lifecycle text[], p_name text[], p_payload jsonb[], p_queue text[] default null, p_priority int[] default null,
  p_key text[] default null, p_delay interval[] default null, p_run_at timestamptz[] default null,
  p_max_attempts int[] default null, p_owner text[] default null, p_parent uuid[] default null,
  p_parent_place int[] default null, p_limit_key text[] default null, p_limit_to int[] default null,
  p_time_limit interval[] default null, p_waits_place int[] default null, p_waits_for uuid[] default null,
  p_waits_for_place int[] default null, p_waits_policy text[] default null, p_tags jsonb[] default null,
  p_trace text[] default null)
returns table (place int, id uuid, created bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  v_id uuid[];
  v_created bool[];
  v_hash bytea[];
  v_lifecycle smallint[];
  v_problem text[];
  v_unused smallint[];
  v_limits text[];
  v_waiting uuid[];
begin
  perform holdfast.check_lengths(cardinality(p_lifecycle), cardinality(p_name), cardinality(p_payload), cardinality(p_queue),
    cardinality(p_priority), cardinality(p_key), cardinality(p_delay), cardinality(p_run_at), cardinality(p_max_attempts),
    cardinality(p_owner), cardinality(p_parent), cardinality(p_parent_place), cardinality(p_limit_key),
    cardinality(p_limit_to), cardinality(p_time_limit), cardinality(p_tags), cardinality(p_trace));
  perform holdfast.check_lengths(cardinality(p_waits_place), cardinality(p_waits_for), cardinality(p_waits_for_place),
    cardinality(p_waits_policy));
  select array_agg(l.id order by i.place), array_agg(l.id) filter (where not l.used),
         min(array[to_char(i.place, 'FM0000000000')] || p.problem) filter (where p.problem is not null)
    into v_lifecycle, v_unused, v_problem
  from unnest(p_lifecycle, p_name, p_payload, p_queue, p_priority, p_key, p_delay, p_run_at, p_max_attempts,
              p_limit_key, p_limit_to, p_time_limit, p_owner, p_tags)
    with ordinality i(lifecycle, name, payload, queue, priority, key, delay, run_at, max_attempts,
                      limit_key, limit_to, time_limit, owner, tags, place)
  left join lateral (
    select l.id, l.name, l.used from holdfast.lifecycle l where l.name = i.lifecycle
    order by l.version desc limit 1) l on true
  left join lateral (select q.name from holdfast.queue q where q.name = i.queue offset 0) q on true
  cross join lateral (select case
    when l.name is not null and length(i.name) between 1 and 200 and octet_length(i.payload::text) <= 200
      and i.queue is not distinct from q.name and length(i.owner) <= 200 and coalesce(i.priority, 0) between 0 and 9
      and i.key is null and i.delay is null and i.run_at is null and i.max_attempts is null and i.limit_key is null
      and i.limit_to is null and i.time_limit is null and i.tags is null
    then null  -- nothing here can be wrong, and calling a function for each costs more than all the rest
    else holdfast.submit_problem(
      i.lifecycle, l.name, i.name, i.payload, i.queue, q.name, i.priority, i.key, i.delay, i.run_at, i.max_attempts,
      i.limit_key, i.limit_to, i.time_limit, i.owner, i.tags) end as problem) p;
  if v_problem is not null then
    perform holdfast.refuse(v_problem[2], v_problem[3], v_problem[4]);
  end if;
  if v_unused is not null then
    perform holdfast.freeze_lifecycles(v_unused);
  end if;

  v_id := holdfast.new_ids(cardinality(p_lifecycle));
  v_created := array_fill(true, array[cardinality(v_id)]);
  if cardinality(array_remove(p_key, null)) > 0 then
    select array_agg(holdfast.body_hash(jsonb_build_array(i.lifecycle, i.name, i.queue, i.payload)) order by i.place)
      into v_hash
    from unnest(p_lifecycle, p_name, p_queue, p_payload) with ordinality i(lifecycle, name, queue, payload, place);
    -- Children without a key of their own are part of what their parent is.
    for i in reverse coalesce(cardinality(p_parent_place), 0) .. 1 loop
      if p_parent_place[i] < i and p_key[i] is null then
        v_hash[p_parent_place[i]] := sha256(v_hash[p_parent_place[i]] || v_hash[i]);
      end if;
    end loop;
    select k.id, k.created into v_id, v_created from holdfast.reserve_keys(p_owner, p_key, v_id, v_hash) k;
    if not true = all (v_created) then
      select r.* into v_id, v_created, p_parent, p_parent_place,
                      p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy
      from holdfast.repeated_places(v_id, v_created, p_key, p_parent, p_parent_place,
                                    p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy) r;
    end if;
  end if;

  if p_waits_place is not null or p_parent is not null or p_parent_place is not null then
    perform holdfast.check_waits(cardinality(v_id), p_parent, p_parent_place,
                                 p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy);
  end if;

  if cardinality(array_remove(p_limit_key, null)) > 0 then
    perform holdfast.set_concurrency_limits(p_limit_key, p_limit_to, v_created);
  end if;

  with made as materialized (
    select v_id[i.place] as id, v_lifecycle[i.place] as lifecycle, coalesce(i.name, i.lifecycle) as name,
           coalesce(i.owner, '') as owner, coalesce(i.queue, l.queue) as queue, coalesce(i.priority, 0) as priority,
           greatest(coalesce(i.run_at, v_now + i.delay), v_now) as due_at, i.time_limit,
           coalesce(i.max_attempts, l.max_attempts) as max_attempts, i.limit_key,
           coalesce(i.payload, '{}') as payload, i.trace,
           case when i.tags is not null then array(select jsonb_array_elements_text(i.tags)) end as tags, x.verb, x.to_state, x.to_actor,
           -- What is not due yet cannot be stuck: a worker's limit counts from when it may begin.
           case when x.to_actor = 'worker' then greatest(coalesce(i.run_at, v_now + i.delay), v_now) else v_now end
             + case when x.to_limit_per_task then coalesce(i.time_limit, x.to_limit) else x.to_limit end as deadline
    from unnest(p_lifecycle, p_name, p_payload, p_queue, p_priority, p_delay, p_run_at, p_max_attempts, p_owner,
                p_limit_key, p_time_limit, p_tags, p_trace)
      with ordinality i(lifecycle, name, payload, queue, priority, delay, run_at, max_attempts, owner,
                        limit_key, time_limit, tags, trace, place)
    cross join lateral (select * from holdfast.lifecycle l where l.id = v_lifecycle[i.place] offset 0) l
    cross join lateral (
      select * from holdfast.transition x where x.lifecycle = l.id and x.from_state = ''
        and x.verb = case when i.place = any (p_waits_place) then 'submit_blocked' else 'submit' end offset 0) x
    where v_created[i.place]
  ), input as (
    insert into holdfast.input (id, payload, tags, trace) select b.id, b.payload, b.tags, b.trace from made b
  ), task as (
    insert into holdfast.task (id, lifecycle, name, owner, state, actor, verb, queue, priority, due_at, deadline,
                               entered_at, time_limit, max_attempts, limit_key, parked, created_at)
    select b.id, b.lifecycle, b.name, b.owner, b.to_state, b.to_actor, b.verb, b.queue, b.priority, b.due_at, b.deadline,
           v_now, b.time_limit, b.max_attempts, b.limit_key,
           case when b.limit_key is not null and b.to_actor = 'worker' then 'limit' end, v_now
    from made b
  )
  select array_agg(distinct b.limit_key) filter (where b.limit_key is not null),
         array_agg(b.id) filter (where b.to_actor = 'tasks')
    into v_limits, v_waiting
  from made b;

  if p_waits_place is not null or p_parent is not null or p_parent_place is not null or v_waiting is not null then
    perform holdfast.write_waits(v_id, v_created, v_waiting, p_parent, p_parent_place,
                                 p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy);
  end if;
  if v_waiting is not null or v_limits is not null then
    perform holdfast.cascade(null, null, v_waiting, v_limits);
  end if;
  return query select i.place::int, i.id, i.created from unnest(v_id, v_created) with ordinality i(id, created, place);
end $$;

-- How many tasks with these limit keys may be with workers at once; a new key without a number allows one.
create or replace function holdfast.set_concurrency_limits(p_key text[], p_allowed int[], p_counts bool[]) returns void
language plpgsql
as $$
begin
  with limited as materialized (
    select i.key, max(i.allowed) as allowed from unnest(p_key, p_allowed, p_counts) i(key, allowed, counts)
    where i.key is not null and i.counts group by 1
  ), changed as (
    -- Only what differs: an update that changes nothing would still lock the row until the caller commits.
    insert into holdfast.slot as s (key, allowed) select l.key, l.allowed from limited l
    where l.allowed <> coalesce((select o.allowed from holdfast.slot o where o.key = l.key), -1)
    order by 1 on conflict (key) do update set allowed = excluded.allowed where s.allowed <> excluded.allowed
  )
  insert into holdfast.slot (key, allowed) select l.key, 1 from limited l where l.allowed is null
  order by 1 on conflict do nothing;
end $$;

-- So many new ids, in their order: what holdfast.uuid7 makes, but what is the same for all is made once.
create or replace function holdfast.new_ids(p_n int) returns uuid[]
language plpgsql
as $$
declare
  v_ms text := lpad(to_hex(floor(extract(epoch from holdfast.now()) * 1000)::bigint), 12, '0');
  v_first text := format('%s-%s-7', left(v_ms, 8), substr(v_ms, 9));
begin
  return array(select (v_first || substr(gen_random_uuid()::text, 16))::uuid as u from generate_series(1, p_n) order by u);
end $$;

-- What is wrong with a request, as sqlstate, message and hint; null if nothing is. Plain conditions one by one,
-- which plpgsql evaluates by itself; one expression with sub-selects would be a query per task.
create or replace function holdfast.submit_problem(
  p_lifecycle text, p_known text, p_name text, p_payload jsonb, p_queue text, p_known_queue text, p_priority int,
  p_key text, p_delay interval, p_run_at timestamptz, p_max_attempts int, p_limit_key text, p_limit_to int,
  p_time_limit interval, p_owner text, p_tags jsonb)
returns text[]
language plpgsql stable
as $$
begin
  if p_known is null then
    return array['TK011', format('Lifecycle %s is not declared.', quote_nullable(p_lifecycle)), format('Declared are: %s.',
      (select coalesce(string_agg(distinct l.name, ', '), 'none') from holdfast.lifecycle l))];
  elsif p_queue is not null and p_known_queue is null then
    return array['TK012', format('Queue %L does not exist.', p_queue),
                 format('Make it with holdfast.make_queue(%L), or use one of: %s.', p_queue,
                        (select string_agg(q.name, ', ' order by q.name) from holdfast.queue q))];
  elsif length(p_name) not between 1 and 200 then
    return array['TK010', 'A task''s name has 1 to 200 characters.', 'Put what is long into its payload.'];
  elsif length(p_key) not between 1 and 200 then
    return array['TK010', 'An idempotency key has 1 to 200 characters.', 'Take a hash of what makes the request unique.'];
  elsif length(p_limit_key) not between 1 and 200 then
    return array['TK010', 'A limit key has 1 to 200 characters.', 'Name what the tasks share.'];
  elsif length(p_owner) > 200 then
    return array['TK010', 'The name of an owner has at most 200 characters.', 'Take an id.'];
  elsif p_priority not between 0 and 9 then
    return array['TK010', format('Priority %s is not among 0 to 9.', p_priority), '9 goes first, 0 is the default.'];
  elsif (p_delay is not null or p_run_at is not null) and not holdfast.is_soon(p_delay, p_run_at) then
    return array['TK010', 'A task cannot be due before it is submitted, or after a hundred years.',
                 'Give a delay of zero or more.'];
  elsif p_max_attempts < 1 then
    return array['TK010', format('max_attempts is %s.', p_max_attempts), 'A task needs at least one attempt.'];
  elsif p_limit_to < 1 then
    return array['TK010', format('limit_to is %s.', p_limit_to), 'At least one task must be allowed to run.'];
  elsif p_limit_to is not null and p_limit_key is null then
    return array['TK010', 'limit_to without a limit_key limits nothing.', 'Name the key that the tasks share.'];
  elsif p_time_limit <= interval '0' or p_time_limit > interval '36500 days' then
    return array['TK010', 'A time limit is more than nothing and at most a hundred years.', 'For example 2 hours.'];
  elsif p_time_limit is not null and not holdfast.takes_time_limit(p_known) then
    return array['TK010', format('Tasks of the lifecycle %s have no time limit of their own.', p_known),
                 'Leave it out, or give one of its states limit=after(..., per_task=True).'];
  end if;
  return coalesce(holdfast.tags_problem(p_tags), holdfast.payload_problem(p_payload, 65536));
end $$;

-- Whether a state of this lifecycle goes by the time limit of each task.
create or replace function holdfast.takes_time_limit(p_lifecycle text) returns bool
language sql stable
as $$
  select exists (select from holdfast.state s where s.limit_per_task and s.lifecycle = (
    select l.id from holdfast.lifecycle l where l.name = p_lifecycle order by l.version desc limit 1))
$$;

create or replace function holdfast.tags_problem(p_tags jsonb) returns text[]
language plpgsql immutable
as $$
begin
  if p_tags is null then
    return null;
  elsif jsonb_typeof(p_tags) <> 'array' then
    return array['TK010', 'Tags are a list of words.', 'For example ["customer:42", "urgent"].'];
  elsif jsonb_array_length(p_tags) > 20
     or exists (select from jsonb_array_elements(p_tags) t
                where jsonb_typeof(t) <> 'string' or length(t #>> '{}') not between 1 and 100) then
    return array['TK010', 'A task has at most 20 tags, each a string of 1 to 100 characters.',
                 'Put what is long into its payload.'];
  end if;
  return null;
end $$;

-- A value that is too large, or that a client could not read back.
create or replace function holdfast.payload_problem(p_payload jsonb, p_most_bytes int) returns text[]
language plpgsql immutable
as $$
declare
  v_bytes int := octet_length(p_payload::text);
begin
  if v_bytes > p_most_bytes then
    return array['TK018', format('It is %s bytes long; at most %s are kept.', v_bytes, p_most_bytes),
                 'Put it where files live and pass its address.'];
  elsif v_bytes > 200 and jsonb_path_exists(p_payload, '$.**{100}') then
    return array['TK017', 'It is nested more than 100 levels deep, which not every client can read.', 'Flatten it.'];
  elsif v_bytes > 300 and jsonb_path_exists(p_payload, '$.** ? (@.type() == "number" && (@ > 1e308 || @ < -1e308))') then
    return array['TK017', 'It holds a number beyond 1e308, which most clients cannot read.', 'Write it as a string.'];
  end if;
  return null;
end $$;

-- Parallel arrays tell of the same tasks; those that are left out are null.
create or replace function holdfast.check_lengths(p_tasks int, variadic p_lengths int[]) returns void
language plpgsql immutable
as $$
begin
  if not array_remove(p_lengths, null) <@ array[coalesce(p_tasks, 0)] then
    perform holdfast.refuse('TK010', format('The arrays are of different lengths: %s and %s.', coalesce(p_tasks, 0),
                                            array_to_string(p_lengths, ', ')),
                            'Give one element per task in each, or leave an array out.');
  end if;
end $$;

-- One call answers or does 1 to so many; `p_refusal` says of more what cannot be.
create or replace function holdfast.check_limit(p_limit int, p_most int, p_refusal text) returns void
language plpgsql immutable
as $$
begin
  if p_limit is null or p_limit not between 1 and p_most then
    perform holdfast.refuse('TK010', format('%s %s at once.', coalesce(p_limit::text, 'null'), p_refusal),
                            format('Ask for 1 to %s at a time.', p_most));
  end if;
end $$;

-- Not before now, and within a hundred years. (From Postgres 17 on an interval may be infinite.)
create or replace function holdfast.is_soon(p_delay interval, p_at timestamptz) returns bool
language sql stable
as $$
  select coalesce(p_delay between interval '0' and interval '36500 days', true)
     and coalesce(isfinite(p_at) and p_at < holdfast.now() + interval '36500 days', true)
$$;

-- STABLE, as convert_to is: declared immutable it could not be inlined, and each row would start a query of its own.
create or replace function holdfast.body_hash(p_body jsonb) returns bytea
language sql stable parallel safe
as $$ select sha256(convert_to(p_body::text, 'UTF8')) $$;

create or replace function holdfast.refuse(p_sqlstate text, p_message text, p_hint text) returns void
language plpgsql
as $$
begin
  raise exception '%', p_message using errcode = p_sqlstate, hint = p_hint;
end $$;

-- From its first task on, a version of a lifecycle does not change any more.
create or replace function holdfast.freeze_lifecycles(p_lifecycle smallint[]) returns void
language plpgsql
as $$
declare
  v_marked bigint;
begin
  perform l.id from holdfast.lifecycle l where l.id = any (p_lifecycle) order by l.id for update;
  update holdfast.lifecycle l set used = true where l.id = any (p_lifecycle);
  get diagnostics v_marked = row_count;
  if v_marked <> (select count(distinct l) from unnest(p_lifecycle) l) then
    raise exception 'The lifecycle was just declared again.' using errcode = '40001', hint = 'Submit again.';
  end if;
end $$;

-- Take the idempotency keys. A key that is taken gives the task it was taken for; another body is refused.
create or replace function holdfast.reserve_keys(
  p_owner text[], p_key text[], p_id uuid[], p_hash bytea[], out id uuid[], out created bool[])
language plpgsql
as $$
#variable_conflict use_column
declare
  v_conflict text;
begin
  -- Sorted: two calls with the same keys wait for each other in one order.
  insert into holdfast.key (owner, key, task_id, body_hash)
  select coalesce(i.owner, ''), i.key, i.id, i.hash from unnest(p_owner, p_key, p_id, p_hash) i(owner, key, id, hash)
  where i.key is not null order by 1, 2 on conflict do nothing;
  select array_agg(coalesce(k.task_id, i.id) order by i.place),
         array_agg(k.task_id is null or k.task_id = i.id order by i.place),
         min(i.key) filter (where k.body_hash <> i.hash)
    into id, created, v_conflict
  from unnest(p_owner, p_key, p_id, p_hash) with ordinality i(owner, key, id, hash, place)
  left join lateral (
    select k.task_id, k.body_hash from holdfast.key k
    where k.owner = coalesce(i.owner, '') and k.key = i.key offset 0) k on true
  where i.id is not null;
  if v_conflict is not null then
    raise exception 'Key %: another task was submitted with it.', quote_literal(v_conflict)
      using errcode = 'TK019', hint = 'Use a new key for a new request; the same key only for exactly the same one.';
  end if;
end $$;

-- Some places of this call stand for tasks that exist. A reference to such a place is one to that task. A task
-- without a key whose parent is such a one was made the first time, together with it, and so was one that waits for it.
create or replace function holdfast.repeated_places(
  p_id uuid[], p_created bool[], p_key text[], p_parent uuid[], p_parent_place int[],
  p_waits_place int[], p_waits_for uuid[], p_waits_for_place int[], p_waits_policy text[],
  out id uuid[], out created bool[], out parent uuid[], out parent_place int[],
  out waits_place int[], out waits_for uuid[], out waits_for_place int[], out waits_policy text[])
language plpgsql immutable
as $$
#variable_conflict use_variable
begin
  id := p_id;
  created := p_created;
  for i in 1 .. cardinality(p_id) loop
    if p_key[i] is null and (not created[p_parent_place[i]] or exists (
         select from unnest(p_waits_place, p_waits_for_place) w(place, for_place)
         where w.place = i and w.for_place is not null and id[w.for_place] is null)) then
      created[i] := false;
      id[i] := null;
    end if;
  end loop;
  select array_agg(case when created[r.at] then coalesce(r.known, case when not created[r.place] then id[r.place] end) end
                   order by r.at),
         array_agg(case when created[r.at] and created[r.place] then r.place end order by r.at)
    into parent, parent_place
  from unnest(coalesce(p_parent, array_fill(null::uuid, array[cardinality(p_id)])), p_parent_place)
    with ordinality r(known, place, at);
  select array_agg(r.who), array_agg(coalesce(r.known, case when not created[r.place] then id[r.place] end)),
         array_agg(case when created[r.place] then r.place end), array_agg(r.policy)
    into waits_place, waits_for, waits_for_place, waits_policy
  from unnest(p_waits_place, p_waits_for, p_waits_for_place, p_waits_policy) r(who, known, place, policy)
  where created[r.who];
end $$;
