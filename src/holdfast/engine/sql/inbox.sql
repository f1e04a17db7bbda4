-- inbox.sql: what failed for good and waits for a person. Rows are written by the move that fails (move.sql), and handled
-- in handle.sql. For everybody who shows them; takes no lock.

-- Open entries first, newest first, whole.
create or replace function holdfast.inbox(p_all bool default false, p_limit int default 100)
returns table (id uuid, task_id uuid, category text, signature text, error jsonb, at timestamptz,
               resolved_at timestamptz, resolved_by text, resolution text, note text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform holdfast.check_limit(p_limit, 10000, 'entries cannot be shown');
  return query
  select n.id, n.task_id, n.category, n.signature, n.error, n.at, n.resolved_at, n.resolved_by, n.resolution, n.note
  from holdfast.inbox n where p_all or n.resolved_at is null
  order by n.resolved_at is not null, n.at desc, n.id desc limit p_limit;
end $$;

-- Open entries by what they have in common, those with the newest failure first. With very many signatures all of those
-- are among them that the newest 1,000 failures have, and 2,000 others. The number counts up to 10,000.
create or replace function holdfast.inbox_groups(
  p_signature text default null, p_category text default null, p_lifecycle text default null, p_name text default null,
  p_step text default null, p_owner text default null, p_limit int default 50)
returns table (signature text, lifecycle text, name text, step text, category text, message text, number int, capped bool,
               first_at timestamptz, last_at timestamptz, newest uuid)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
begin
  perform holdfast.check_limit(p_limit, 1000, 'entries cannot be shown');
  return query
  with recursive other(signature, place) as (
    (select n.signature, 1 from holdfast.inbox n
     where n.resolved_at is null and p_signature is null order by n.signature limit 1)
    union all
    select (select n.signature from holdfast.inbox n
            where n.resolved_at is null and n.signature > o.signature order by n.signature limit 1), o.place + 1
    from other o where o.signature is not null and o.place < 2000
  ), known as (
    select p_signature as signature where p_signature is not null
    union
    select o.signature from other o where o.signature is not null
    union
    select n.signature from (
      select n.signature from holdfast.inbox n
      where n.resolved_at is null and p_signature is null order by n.id desc limit 1000) n
  ), newest as materialized (
    select e.* from known k
    cross join lateral (
      select * from (
        -- All but the owner follows from the signature: if it does not fit the newest, it fits none.
        select * from holdfast.inbox n where n.resolved_at is null and n.signature = k.signature
        order by n.id desc limit case when p_owner is null then 1 else 10000 end) n
      where (p_category is null or n.category = p_category) and (p_lifecycle is null or n.lifecycle = p_lifecycle)
        and (p_name is null or n.name = p_name) and (p_step is null or n.step = p_step)
        and (p_owner is null or n.owner = p_owner)
      order by n.id desc limit 1) e
    order by e.id desc limit p_limit
  )
  select e.signature, e.lifecycle, e.name, e.step, e.category, left(coalesce(e.error ->> 'message', e.error ->> 'kind'), 300),
         c.number, c.seen >= 10000, c.first_at, e.at, e.id
  from newest e cross join lateral holdfast.count_open(e.signature, p_owner) c
  order by e.id desc;
end $$;

-- How many open entries have a signature, and since when. Those of one owner are counted among the newest 10,000.
create or replace function holdfast.count_open(
  p_signature text, p_owner text, out number int, out seen int, out first_at timestamptz)
language plpgsql stable
as $$
begin
  if p_owner is null then
    select count(*), count(*) into number, seen
    from (select from holdfast.inbox n where n.resolved_at is null and n.signature = p_signature limit 10000) n;
    select n.at into first_at from holdfast.inbox n
    where n.resolved_at is null and n.signature = p_signature order by n.id limit 1;
  else
    select count(*) filter (where n.owner = p_owner), count(*), min(n.at) filter (where n.owner = p_owner)
      into number, seen, first_at
    from (select n.owner, n.at from holdfast.inbox n where n.resolved_at is null and n.signature = p_signature
          order by n.id desc limit 10000) n;
  end if;
end $$;

-- A page of entries, the newest first: `open` ones, those that were `handled`, or `all`. As with tasks, one look is bounded:
-- a page may be short and still have a `next`, and the number counts up to 10,000.
create or replace function holdfast.inbox_items(
  p_signature text default null, p_category text default null, p_lifecycle text default null, p_name text default null,
  p_step text default null, p_owner text default null, p_handled text default 'open', p_before uuid default null,
  p_limit int default 50)
returns table (items jsonb, next uuid, approx_count int, capped bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
  select holdfast.check_limit(p_limit, 1000, 'entries cannot be shown');
  select holdfast.refuse('TK010', format('There are no entries that are %s.', quote_nullable(left(p_handled, 100))),
                         'Ask for open, handled or all.')
  where p_handled in ('open', 'handled', 'all') is not true;
  select (select coalesce(jsonb_agg(holdfast.entry_summary(i.id) order by i.place), '[]')
          from unnest(m.ids) with ordinality i(id, place)), m.next, cardinality(n.ids), n.next is not null
  from holdfast.find_inbox_entries(
    p_signature, p_category, p_lifecycle, p_name, p_step, p_owner, p_handled, p_before, p_limit) m
  cross join holdfast.find_inbox_entries(
    p_signature, p_category, p_lifecycle, p_name, p_step, p_owner, p_handled, null, 10000) n
$$;

-- The ids of up to `p_most` entries before another that fit, the newest first, and from where to go on. A look goes through
-- 10,000 at most. With plans of its own: which of the filters are given decides which index is the right one.
create or replace function holdfast.find_inbox_entries(
  p_signature text, p_category text, p_lifecycle text, p_name text, p_step text, p_owner text, p_handled text,
  p_before uuid, p_most int, out ids uuid[], out next uuid)
language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off
as $$
begin
  with seen as materialized (  -- read in its order, and no further than until the page is full
    select n.id, (p_handled <> 'handled' or n.resolved_at is not null) and (p_name is null or n.name = p_name)
             and (p_step is null or n.step = p_step) and (p_owner is null or n.owner = p_owner) as fits
    from holdfast.inbox n
    where (p_before is null or n.id < p_before) and (p_handled <> 'open' or n.resolved_at is null)
      and (p_signature is null or n.signature = p_signature) and (p_category is null or n.category = p_category)
      and (p_lifecycle is null or n.lifecycle = p_lifecycle)
    order by n.id desc limit 10000
  ), page as materialized (
    select array(select s.id from seen s where s.fits limit p_most + 1) as ids
  )
  select p.ids[:p_most], case when cardinality(p.ids) > p_most then p.ids[p_most]
                              else (select s.id from seen s offset 9999) end
    into ids, next
  from page p;
end $$;

-- One entry as it stands in a list: without what may be long.
create or replace function holdfast.entry_summary(p_id uuid) returns jsonb
language sql stable
as $$
  select to_jsonb(g) from (
    select n.id, n.task_id, n.lifecycle, n.name, n.owner, n.state, n.step, n.category, n.signature,
           left(coalesce(n.error ->> 'message', n.error ->> 'kind'), 300) as message, n.at, n.resolved_at, n.resolved_by,
           n.resolution, n.note, n.retried_as, left(coalesce(i.payload ->> 'name', i.payload ->> 'uri'), 300) as about
    from holdfast.inbox n
    left join lateral (
      select i.payload from holdfast.input i where i.id = n.task_id and jsonb_typeof(i.payload) = 'object' offset 0) i on true
    where n.id = p_id) g
$$;

-- One entry with all that a person needs to decide: the error, the task (null once it is forgotten), its payload, the
-- steps from which it can be run again, and what was done about it.
create or replace function holdfast.inbox_entry(p_id uuid) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_entry jsonb := holdfast.entry_summary(p_id);
begin
  if v_entry is null then
    perform holdfast.refuse_handled(p_id);
  end if;
  return v_entry || (
    select jsonb_build_object(
      'error', n.error, 'diff', n.diff, 'task', holdfast.task_summary(n.task_id),
      'payload', (select i.payload from holdfast.input i where i.id = n.task_id),
      'steps', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'name', e.step, 'done', coalesce(s.done, false), 'failures', coalesce(s.failures, 0), 'at', s.at) order by e.number), '[]')
        from (select e.step, min(e.number) as number from holdfast.step_event e
              where e.task_id = n.task_id and e.step <> '' group by e.step) e
        left join holdfast.step s on s.task_id = n.task_id and s.name = e.step))
    from holdfast.inbox n where n.id = p_id);
end $$;

-- Entries whose id, or whose task's, begins like this, oldest first.
create or replace function holdfast.find_entries(p_prefix text, p_limit int default 10)
returns table (id uuid, task_id uuid, open bool)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
begin
  perform holdfast.check_limit(p_limit, 1000, 'entries cannot be shown');
  return query
  select f.id, f.task_id, f.resolved_at is null from holdfast.id_range(p_prefix, 'an entry') r cross join lateral (
    (select n.id, n.task_id, n.resolved_at from holdfast.inbox n
     where n.id between r.first and r.last order by n.id limit p_limit)
    union
    (select n.id, n.task_id, n.resolved_at from holdfast.inbox n
     where n.task_id between r.first and r.last order by n.task_id limit p_limit)) f
  order by f.id limit p_limit;
end $$;

-- The ids beside each of these, among those of entries and of their tasks: what it does not share with them, it shares
-- with none.
create or replace function holdfast.entry_neighbours(p_ids uuid[]) returns table (id uuid, others uuid[])
language sql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
  select i.id, array[
    (select n.id from holdfast.inbox n where n.id < i.id order by n.id desc limit 1),
    (select n.id from holdfast.inbox n where n.id > i.id order by n.id limit 1),
    (select n.task_id from holdfast.inbox n where n.task_id < i.id order by n.task_id desc limit 1),
    (select n.task_id from holdfast.inbox n where n.task_id > i.id order by n.task_id limit 1)]
  from unnest(p_ids) i(id)
$$;
