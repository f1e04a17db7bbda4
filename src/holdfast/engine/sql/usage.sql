-- usage.sql: what was spent, kept with the step event that tells of it, and summed up.
-- keep_usage is called by checkpoint and record, in their transaction and under their locks. The sums take no lock.

-- Keep the usage that the newest events of these tasks tell of: as many events as the id stands here. Each was written just
-- now, under the lock of its task, so a step that was done before adds nothing. A cost that is given counts; otherwise
-- tokens are priced by the newest price of this moment; with neither it counts 0.
create or replace function holdfast.keep_usage(p_id uuid[]) returns void
language plpgsql
as $$
begin
  insert into holdfast.usage (task_id, number, place, at, step, model, tokens_in, tokens_out, cost_micros, given, priced,
                              lifecycle, name, owner)
  select e.task_id, e.number, u.place, e.at, e.step, s.model, s.tokens_in, s.tokens_out,
         coalesce(s.cents * 10000,
                  (s.tokens_in * p.in_micros_per_million + s.tokens_out * p.out_micros_per_million) * 0.000001, 0),
         s.cents is not null, p.model is not null, t.lifecycle, t.name, t.owner
  from (select i.id, count(*) as events from unnest(p_id) i(id) group by i.id) i
  cross join lateral (select t.lifecycle, t.name, t.owner from holdfast.task t where t.id = i.id offset 0) t
  cross join lateral (
    select * from holdfast.step_event e where e.task_id = i.id order by e.number desc limit i.events) e
  cross join lateral jsonb_array_elements(
    case jsonb_typeof(e.data) when 'array' then e.data when 'object' then jsonb_build_array(e.data) end)
    with ordinality u(one, place)
  cross join lateral (
    select left(u.one ->> 'model', 200) as model, holdfast.amount(u.one -> 'tokens_in')::bigint as tokens_in,
           holdfast.amount(u.one -> 'tokens_out')::bigint as tokens_out, holdfast.cents(u.one -> 'cost_cents') as cents) s
  left join lateral (
    select * from holdfast.price p where s.cents is null and p.model = s.model and p.since <= e.at
    order by p.since desc limit 1) p on true
  where e.kind in ('step_completed', 'usage') and jsonb_typeof(u.one -> 'model') = 'string';
end $$;

-- What a worker reported is anything at all; only numbers count, and none beyond reason.
create or replace function holdfast.amount(p_value jsonb) returns numeric
language sql immutable
as $$ select case when jsonb_typeof(p_value) = 'number' then holdfast.cents(p_value) else 0 end $$;

-- The same for a cost, which may be a decimal written as a string, so that none of its digits is lost on the way. Null if it
-- is neither: then none was given.
create or replace function holdfast.cents(p_value jsonb) returns numeric
language sql immutable
as $$
  select case
    when jsonb_typeof(p_value) = 'number'
      or (jsonb_typeof(p_value) = 'string' and length(p_value #>> '{}') <= 100
          and p_value #>> '{}' ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$')
    then least(greatest((p_value #>> '{}')::numeric, 0), 1e15) end
$$;

-- What was spent, by model, day (UTC), lifecycle, name, task or owner, or in total; from `since` (without it: in the last
-- thirty days, of one task: ever) until right before `until`. The group that was used last comes first, and `limit` of them
-- are answered. `unpriced` are the calls whose cost is unknown. Planned again each time, because which index is worth it depends
-- on what is asked.
create or replace function holdfast.costs(
  p_by text default 'model', p_since timestamptz default null, p_until timestamptz default null, p_owner text default null,
  p_lifecycle text default null, p_name text default null, p_task uuid default null, p_limit int default 100)
returns table ("group" text, calls bigint, tokens_in numeric, tokens_out numeric, cost_cents numeric, unpriced bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_key text := case p_by when 'model' then 'u.model' when 'day' then 'u.at::date' when 'lifecycle' then 'l.name'
                          when 'name' then 'u.name' when 'task' then 'u.task_id' when 'owner' then 'u.owner'
                          when 'total' then '''total''::text' end;
begin
  if v_key is null then
    perform holdfast.refuse('TK010', format('Costs are not summed by %s.', coalesce(quote_literal(left(p_by, 100)), 'null')),
                            'By model, day, lifecycle, name, task, owner or total.');
  end if;
  perform holdfast.check_limit(p_limit, 10000, 'groups cannot be listed');
  return query execute concat(
    'select ', v_key, '::text, count(*), coalesce(sum(u.tokens_in), 0), coalesce(sum(u.tokens_out), 0),',
    ' coalesce(trim_scale(sum(u.cost_micros) * 0.0001), 0), count(*) filter (where not u.given and not u.priced)',
    ' from holdfast.usage u', case when p_by = 'lifecycle' then ' join holdfast.lifecycle l on l.id = u.lifecycle' end,
    ' where u.at >= $1', case when p_until is not null then ' and u.at < $2' end,
    case when p_owner is not null then ' and u.owner = $3' end,
    case when p_lifecycle is not null then
      ' and u.lifecycle = any (array(select c.id from holdfast.lifecycle c where c.name = $4))' end,
    case when p_name is not null then ' and u.name = $5' end, case when p_task is not null then ' and u.task_id = $6' end,
    case when p_by <> 'total' then concat(' group by ', v_key) end, ' order by max(u.at) desc, ', v_key, ' limit $7')
    using coalesce(p_since, case when p_task is null then holdfast.now() - interval '30 days' else '-infinity' end),
          p_until, p_owner, p_lifecycle, p_name, p_task, p_limit;
end $$;

-- What a task has cost by model, the dearest first: its own part, and that of the tasks it gathers and that they gather.
create or replace function holdfast.cost_of(p_id uuid, p_limit int default 1000)
returns table (part text, "group" text, calls bigint, tokens_in numeric, tokens_out numeric, cost_cents numeric,
               unpriced bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
  with recursive family as (
    select p_id as id, 'own' as part
    union
    select d.upstream, 'children' from family f
    cross join lateral (
      select d.upstream from holdfast.dependency d where d.downstream = f.id and d.policy = 'gather' offset 0) d
  )
  select f.part, u.model, count(*), sum(u.tokens_in), sum(u.tokens_out), trim_scale(sum(u.cost_micros) * 0.0001),
         count(*) filter (where not u.given and not u.priced)
  from family f
  cross join lateral (select * from holdfast.usage u where u.task_id = f.id offset 0) u
  group by f.part, u.model order by f.part desc, 6 desc, u.model limit least(p_limit, 10000)
$$;
