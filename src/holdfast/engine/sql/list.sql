-- list.sql: many tasks or leases at a glance, and what one task is tied to. For everybody who shows them. Takes no lock.

-- A page of tasks, the newest first. However many there are, a page looks at some 10,000 at most: when a filter fits so
-- few that they do not fill it, the page is short, or empty, and `next` says where to go on. Nothing comes after a page
-- without a `next`. The number counts up to 10,000 of what one look sees; `capped` says that there may be more.
create or replace function holdfast.list_tasks(
  p_lifecycle text default null, p_state text default null, p_actor text default null, p_outcome text default null,
  p_queue text default null, p_name text default null, p_owner text default null, p_live bool default null,
  p_tag text default null, p_before uuid default null, p_limit int default 50)
returns table (items jsonb, next uuid, approx_count int, capped bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select holdfast.check_limit(p_limit, 1000, 'tasks cannot be listed');
  select (select coalesce(jsonb_agg(holdfast.task_summary(i.id) order by i.place), '[]')
          from unnest(m.ids) with ordinality i(id, place)), m.next, cardinality(n.ids), n.next is not null
  from (select case when p_outcome is not null then array[p_outcome] end as outcomes) o
  cross join lateral holdfast.find_tasks(
    p_lifecycle, p_state, p_actor, o.outcomes, p_queue, p_name, p_owner, p_live, p_tag, p_before, p_limit) m
  cross join lateral holdfast.find_tasks(
    p_lifecycle, p_state, p_actor, o.outcomes, p_queue, p_name, p_owner, p_live, p_tag, null, 10000) n
$$;

-- The ids of up to `p_most` tasks before another that fit, the newest first, and from where to go on.
create or replace function holdfast.find_tasks(
  p_lifecycle text, p_state text, p_actor text, p_outcomes text[], p_queue text, p_name text, p_owner text, p_live bool,
  p_tag text, p_before uuid, p_most int, out ids uuid[], out next uuid)
language plpgsql stable
as $$
declare
  v_live bool := p_live is not false and p_outcomes is null and p_actor is distinct from 'nobody';
  v_done bool := p_live is not true and coalesce(p_actor, 'nobody') = 'nobody';
  -- Also with a tag: nobody is to go on from another's task, as one that has the tag may be.
  v_by_owner bool := p_owner <> '' is true;
  v_by_state bool := p_tag is null and not v_by_owner and (p_lifecycle is not null or p_state is not null or p_outcomes is not null);
  v_lifecycle smallint[];
  v_state text[];
  v_tagged uuid[] := case when p_tag is not null and not v_by_owner then holdfast.tasks_with_tag(p_tag, p_before, 10000) end;
  v_left int := 10000;
  v_scan int := least(p_most + 1, v_left);
  v_seen int;
  v_fit uuid[];
begin
  ids := '{}';
  next := coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  select array_agg(s.lifecycle), array_agg(s.name) into v_lifecycle, v_state
  from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle
  where s.actor = 'nobody' and (p_lifecycle is null or l.name = p_lifecycle) and (p_state is null or s.name = p_state)
    and (p_outcomes is null or s.outcome::text = any (p_outcomes));
  v_live := v_live and exists (
    select from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle
    where s.actor <> 'nobody' and (p_lifecycle is null or l.name = p_lifecycle) and (p_state is null or s.name = p_state)
      and (p_actor is null or s.actor::text = p_actor));
  loop
    with seen as materialized (
      select c.id, (p_lifecycle is null or (select l.name from holdfast.lifecycle l where l.id = c.lifecycle) = p_lifecycle)
               and (p_state is null or c.state = p_state) and (p_actor is null or c.actor::text = p_actor)
               and (p_outcomes is null or c.outcome::text = any (p_outcomes)) and (p_queue is null or c.queue = p_queue)
               and (p_name is null or c.name = p_name) and (p_owner is null or c.owner = p_owner)
               and (p_tag is null or not v_by_owner
                    or exists (select from holdfast.input i where i.id = c.id and i.tags @> array[p_tag])) as fits
      from (
        (select t.id, t.lifecycle, t.state, t.actor, null::holdfast.outcome as outcome, t.queue, t.name, t.owner
         from holdfast.task t where v_live and p_tag is null and not v_by_owner and t.id < find_tasks.next order by t.id desc limit v_scan)
        union all
        (select t.id, t.lifecycle, t.state, t.actor, null, t.queue, t.name, t.owner from holdfast.task t
         where v_live and v_by_owner and t.owner = p_owner and t.owner <> '' and t.id < find_tasks.next
         order by t.id desc limit v_scan)
        union all
        (select t.id, t.lifecycle, t.state, t.actor, t.outcome, t.queue, t.name, t.owner from holdfast.task_done t
         where v_done and p_tag is null and not v_by_owner and not v_by_state and t.id < find_tasks.next order by t.id desc limit v_scan)
        union all
        (select t.id, t.lifecycle, t.state, t.actor, t.outcome, t.queue, t.name, t.owner from holdfast.task_done t
         where v_done and v_by_owner and t.owner = p_owner and t.owner <> '' and t.id < find_tasks.next
         order by t.id desc limit v_scan)
        union all
        (select t.* from unnest(v_lifecycle, v_state) s(lifecycle, name)
         cross join lateral (
           select t.id, t.lifecycle, t.state, t.actor, t.outcome, t.queue, t.name, t.owner from holdfast.task_done t
           where v_done and v_by_state and t.lifecycle = s.lifecycle and t.state = s.name and t.id < find_tasks.next
           order by t.id desc limit v_scan) t
         order by t.id desc limit v_scan)
        union all
        (select t.id, t.lifecycle, t.state, t.actor, t.outcome, t.queue, t.name, t.owner
         from (select g.id from unnest(v_tagged) g(id) where g.id < find_tasks.next order by 1 desc) g
         cross join lateral holdfast.find_task(g.id) t
         where case when t.outcome is null then v_live else v_done end limit v_scan)
      ) c
      order by c.id desc limit v_scan
    )
    select count(*), array_agg(s.id order by s.id desc) filter (where s.fits), (array_agg(s.id order by s.id))[1]
      into v_seen, v_fit, next
    from seen s;
    ids := ids || v_fit;
    v_left := v_left - v_scan;
    exit when cardinality(ids) > p_most or v_seen < v_scan or v_left <= 0;
    v_scan := least(v_scan * 4, v_left);
  end loop;
  if cardinality(ids) > p_most then
    ids := ids[:p_most];
    next := ids[p_most];
  elsif v_seen < v_scan then
    next := v_tagged[10000];  -- null but for a tag that very many have
  end if;
end $$;

-- The newest tasks before another that have a tag. With a plan of its own: few are found by the index of tags, many by
-- going through all, and only the tag tells which.
create or replace function holdfast.tasks_with_tag(p_tag text, p_before uuid, p_n int) returns uuid[]
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
begin
  return array(
    select i.id from holdfast.input i
    where i.tags is not null and i.tags @> array[p_tag]
      and i.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by i.id desc limit p_n);
end $$;

-- One task as it stands in a list: as `read` shows it, without what may be long.
create or replace function holdfast.task_summary(p_id uuid) returns jsonb
language sql stable
as $$
  select to_jsonb(g) from (
    select t.id, l.name as lifecycle, t.name, t.owner, t.state, t.actor, t.outcome, t.queue, t.priority, t.attempt,
           t.max_attempts, t.due_at, t.deadline, t.entered_at, t.created_at, t.started_at, t.finished_at,
           t.worker_id, t.cancel_requested, b.progress,
           left(coalesce(t.note ->> 'message', t.note ->> 'reason'), 200) as message
    from holdfast.find_task(p_id) t
    cross join lateral (select l.name from holdfast.lifecycle l where l.id = t.lifecycle offset 0) l
    left join lateral (
      select b.progress from holdfast.beat b where b.task_id = t.id and b.token = t.lease_token offset 0) b on true
    limit 1) g
$$;

-- Ids that begin like this, oldest first, with dashes or without.
create or replace function holdfast.find_ids(p_prefix text, p_limit int default 10, p_owner text default null)
returns table (id uuid)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
begin
  perform holdfast.check_limit(p_limit, 1000, 'ids cannot be listed');
  return query
  select f.id from holdfast.id_range(p_prefix, 'a task') r cross join lateral (
    (select t.id from holdfast.task t
     where t.id between r.first and r.last and (p_owner is null or t.owner = p_owner) order by t.id limit p_limit)
    union all
    (select t.id from holdfast.task_done t
     where t.id between r.first and r.last and (p_owner is null or t.owner = p_owner) order by t.id limit p_limit)) f
  order by f.id limit p_limit;
end $$;

-- The ids right before and right after each of these: what one does not share with them, it shares with none.
create or replace function holdfast.neighbours(p_ids uuid[])
returns table (id uuid, before uuid, after uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
  select i.id,
    greatest((select t.id from holdfast.task t where t.id < i.id order by t.id desc limit 1),
             (select t.id from holdfast.task_done t where t.id < i.id order by t.id desc limit 1)),
    least((select t.id from holdfast.task t where t.id > i.id order by t.id limit 1),
          (select t.id from holdfast.task_done t where t.id > i.id order by t.id limit 1))
  from unnest(p_ids) i(id)
$$;

-- The first and the last id that begin like this.
create or replace function holdfast.id_range(p_prefix text, p_what text, out first uuid, out last uuid)
language plpgsql immutable
as $$
declare
  v_digits text := lower(replace(p_prefix, '-', ''));
begin
  if v_digits is null or v_digits !~ '^[0-9a-f]{1,32}$' then
    perform holdfast.refuse('TK010', format('%s does not begin the id of %s.', quote_nullable(left(p_prefix, 100)), p_what),
                            'Ids look like 01b8dac5-b400-730f-8c80-71bbed710aed.');
  end if;
  first := rpad(v_digits, 32, '0');
  last := rpad(v_digits, 32, 'f');
end $$;

-- Whose task it is. For somebody in particular (`p_owner`), what is not theirs is not there.
create or replace function holdfast.owner_of(p_id uuid, p_owner text default null) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_owner text := (select t.owner from holdfast.find_task(p_id) t);
begin
  if v_owner is null or v_owner <> p_owner then
    perform holdfast.refuse('TK003', format('No task has the id %s.', p_id), 'submit answers with the id.');
  end if;
  return v_owner;
end $$;

-- Those of these tasks, live or finished, that are this owner's; with none given, that are there.
create or replace function holdfast.owned(p_id uuid[], p_owner text) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select i.id from unnest(p_id) i(id) cross join lateral holdfast.find_task(i.id) t
  where p_owner is null or t.owner = p_owner
$$;

-- Where it is, and where it may go from there.
create or replace function holdfast.allowed(p_id uuid) returns table (state text, states text[])
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select t.state, array(
    select distinct x.to_state from holdfast.transition x
    where x.lifecycle = t.lifecycle and x.from_state = t.state and x.to_state <> t.state order by 1)
  from holdfast.find_task(p_id) t
$$;

-- Its leases, oldest first: a claim begins one, and the move that gives the task back ends it. An attempt has several
-- where a task waits for a poll or moves on between them.
create or replace function holdfast.attempts(p_id uuid)
returns table (attempt int, worker_id text, claimed_at timestamptz, ended_at timestamptz, ended text, to_state text,
               error jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  with task as materialized (
    select t.lifecycle, t.lease_token is not null as leased from holdfast.find_task(p_id) t
  ), event as materialized (
    select e.*, lead(e.verb) over (order by e.version) as next_verb, (
             select s.actor from holdfast.state s where s.lifecycle = t.lifecycle and s.name = e.to_state) as actor,
           t.leased
    from task t cross join lateral (select * from holdfast.event e where e.task_id = p_id offset 0) e
  ), claim as (
    select e.*, lead(e.version) over (order by e.version) as next_claim from event e where e.verb = 'claim'
  )
  select c.attempt, c.worker_id, c.at, x.at,
         case when x.data ->> 'kind' = 'lease_lost' then 'lost' when x.verb in ('retry', 'fail') then 'failed'
              when x.verb = 'limit' then 'timed_out' when x.verb = 'cancel' then 'cancelled'
              when x.verb like 'to:%' then 'moved' else x.verb end,
         x.to_state, case when x.verb in ('retry', 'fail', 'lost', 'limit') then x.data end
  from claim c
  left join lateral (
    select * from event e
    where e.version > c.version and e.version < c.next_claim is not false
      and (e.verb in ('done', 'partial', 'fail', 'retry', 'later', 'lost', 'limit', 'cancel')
           -- A checkpoint moves a task too, and keeps the lease.
           or (e.verb like 'to:%' and (e.actor <> 'worker' or e.next_verb = 'claim'
                                       or (e.next_verb is null and not e.leased))))
    order by e.version limit 1) x on true
  order by c.version
$$;

-- What it is tied to, one step away. relation: child (it gathers them), parent, waits_for, awaited_by, retry_of, retried_as.
create or replace function holdfast.tree(p_id uuid, p_limit int default 1000)
returns table (relation text, id uuid, policy text, lifecycle text, name text, state text, actor text, outcome text)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  with link as materialized (
    (select case when d.policy = 'gather' then 'child' else 'waits_for' end as relation, d.upstream as id, d.policy
     from holdfast.dependency d where d.downstream = p_id order by d.upstream limit least(p_limit, 1000))
    union all
    (select case when d.policy = 'gather' then 'parent' else 'awaited_by' end, d.downstream, d.policy
     from holdfast.dependency d where d.upstream = p_id order by d.downstream limit least(p_limit, 1000))
    union all
    select 'retry_of', i.retry_of, null from holdfast.input i where i.id = p_id and i.retry_of is not null
    union all
    (select 'retried_as', i.id, null from holdfast.input i where i.retry_of = p_id order by i.id limit least(p_limit, 1000))
  )
  select k.relation, k.id, k.policy, g.it ->> 'lifecycle', g.it ->> 'name', g.it ->> 'state', g.it ->> 'actor',
         g.it ->> 'outcome'
  from link k cross join lateral (select holdfast.task_summary(k.id) as it) g
  order by k.relation, k.id
$$;

-- How many tasks have ended in a state, up to 10,000. By the index whatever the statistics say: in a state that is rare,
-- or that no task is in, a scan would read everything that has ever ended.
create or replace function holdfast.count_ended(p_lifecycle smallint, p_state text) returns bigint
language sql stable set enable_seqscan = off
as $$
  select count(*) from (
    select from holdfast.task_done t where t.lifecycle = p_lifecycle and t.state = p_state limit 10000) t
$$;

-- How many tasks are where. Live ones are counted up to 100,000 in all, finished ones up to 10,000 in each state; those of
-- one owner up to 10,000 in all, the newest.
create or replace function holdfast.stats(p_owner text default null)
returns table (lifecycle text, state text, actor text, outcome text, number bigint, capped bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
set jit = off
as $$
  with own as materialized (
    select m.ids, m.next is not null as capped
    from holdfast.find_tasks(null, null, null, null, null, null, p_owner, null, null, null, 10000) m where p_owner is not null
  ), counted as materialized (
    (select t.lifecycle, t.state, count(*) as number, sum(count(*)) over () >= 100000 as capped
     from (select t.lifecycle, t.state from holdfast.task t where p_owner is null limit 100000) t group by 1, 2)
    union all
    (select s.lifecycle, s.name, d.number, d.number >= 10000
     from holdfast.state s cross join lateral holdfast.count_ended(s.lifecycle, s.name) d(number)
     where p_owner is null and s.actor = 'nobody')
    union all
    (select t.lifecycle, t.state, count(*), o.capped
     from own o cross join unnest(o.ids) i(id)
     cross join lateral (select t.lifecycle, t.state from holdfast.find_task(i.id) t limit 1) t
     group by t.lifecycle, t.state, o.capped)
  )
  select l.name, s.name, s.actor::text, s.outcome::text, coalesce(sum(c.number), 0)::bigint,
         coalesce(bool_or(c.capped), false)
  from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle
  left join counted c on c.lifecycle = s.lifecycle and c.state = s.name
  group by l.name, s.name, s.actor, s.outcome
  order by l.name, s.actor, s.name
$$;

-- The leases, by worker; those of one that died are among them until they are given back.
create or replace function holdfast.held(p_limit int default 1000)
returns table (worker_id text, task_id uuid, lifecycle text, name text, state text, attempt int, expires_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select t.worker_id, t.id, l.name, t.name, t.state, t.attempt, greatest(t.lease_expires_at, b.expires_at)
  from (select * from holdfast.task t where t.lease_token is not null order by t.id limit least(p_limit, 10000)) t
  join holdfast.lifecycle l on l.id = t.lifecycle
  left join holdfast.beat b on b.task_id = t.id and b.token = t.lease_token
  order by t.worker_id, t.id
$$;
