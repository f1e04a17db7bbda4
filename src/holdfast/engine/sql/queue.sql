-- queue.sql: queues are made before they are used, and can be paused. Takes no lock but on the queue's row.

create or replace function holdfast.make_queue(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if make_queue.name is null or make_queue.name !~ '^[[:alnum:]_.:-]{1,100}$' then
    raise exception '% cannot be the name of a queue.', quote_nullable(make_queue.name)
      using errcode = 'TK010', hint = 'Take up to 100 letters, digits and _ . : -';
  end if;
  insert into holdfast.queue (name) values (make_queue.name) on conflict do nothing;
end $$;

-- Nothing of a paused queue is claimed; what is with a worker goes on.
create or replace function holdfast.pause_queue(name text, by text default '') returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_queues(array[pause_queue.name]);
  update holdfast.queue q set paused_at = coalesce(q.paused_at, holdfast.now()), paused_by = pause_queue.by
  where q.name = pause_queue.name
$$;

create or replace function holdfast.resume_queue(name text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_queues(array[resume_queue.name]);
  update holdfast.queue q set paused_at = null, paused_by = null where q.name = resume_queue.name;
  select holdfast.wake_workers(array[resume_queue.name], null, 1000)
$$;

create or replace function holdfast.check_queues(p_queues text[]) returns void
language sql stable
as $$
  select holdfast.refuse('TK012', format('Queue %s does not exist.', quote_nullable(n.name)),
    format('Make it with holdfast.make_queue, or use one of: %s.',
           (select string_agg(q.name, ', ' order by q.name) from holdfast.queue q)))
  from unnest(p_queues) n(name) where (select q.name from holdfast.queue q where q.name = n.name) is null
$$;

-- Counts stop at 10,000: a look at the queues must not read all of a long one.
create or replace function holdfast.queues()
returns table (name text, paused_at timestamptz, paused_by text, ready bigint, leased bigint, oldest_due timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
  select q.name, q.paused_at, q.paused_by, r.number, h.number, r.oldest
  from holdfast.queue q
  cross join lateral (
    select count(*) as number, min(t.due_at) as oldest from (
      select t.due_at from generate_series(0, 9) p(level) cross join lateral (
        select t.due_at from holdfast.task t
        where t.queue = q.name and t.priority = p.level and t.actor = 'worker' and t.lease_token is null
          and t.parked is null and t.due_at <= holdfast.now()
        order by t.due_at, t.id limit 10000) t limit 10000) t) r
  cross join lateral (
    select count(*) as number from holdfast.task t where t.lease_token is not null and t.queue = q.name) h
  order by q.name
$$;
