-- metrics.sql: what is measured, for Prometheus: gauges that are read when asked, counters that outlive every process.
-- Called at each scrape by any server. Takes no lock. Nothing here reads more than 100,000 rows, however many there are.

create or replace function holdfast.metrics() returns table (name text, labels jsonb, value float8)
language sql stable security definer set search_path = pg_catalog, pg_temp
set jit = off set timezone = 'UTC'
as $$
  select m.name, jsonb_build_object('queue', q.name), m.value
  from holdfast.queues() q
  cross join lateral (values
    ('queue_depth', q.ready::float8),
    ('queue_oldest_wait_seconds', coalesce(extract(epoch from holdfast.now() - q.oldest_due), 0)::float8),
    ('queue_paused', (q.paused_at is not null)::int::float8),
    ('leases', q.leased::float8)) m(name, value)
  union all
  select 'lease_oldest_age_seconds', '{}', coalesce(max(extract(epoch from holdfast.now() - l.claimed_at)), 0)::float8
  from (
    select coalesce((select e.at from holdfast.event e where e.task_id = t.id and e.verb = 'claim'
                     order by e.version desc limit 1), t.entered_at) as claimed_at
    from holdfast.task t where t.lease_token is not null limit 10000) l
  union all
  select 'workers_live', '{}', count(*) from holdfast.workers() w where w.live
  union all
  select 'inbox_open', '{}', count(*)
  from (select from holdfast.inbox n where n.resolved_at is null limit 10000) n
  union all
  select 'tasks_live', jsonb_build_object('lifecycle', l.name, 'state', s.name, 'actor', s.actor),
         coalesce(sum(t.number), 0)
  from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle
  left join (select t.lifecycle, t.state, count(*) as number
             from (select t.lifecycle, t.state from holdfast.task t limit 100000) t group by 1, 2) t
    on t.lifecycle = s.lifecycle and t.state = s.name
  where s.actor <> 'nobody' group by l.name, s.name, s.actor
  union all
  select c.name, '{}', coalesce(sum(t.number), 0)
  from unnest(array['reaped', 'expired', 'lost']) c(name) left join holdfast.tally t on t.name = c.name group by c.name
$$;

-- Count something, at the end of what is counted.
create or replace function holdfast.add_to_tally(p_name text, p_number bigint) returns void
language plpgsql
as $$
begin
  if p_number > 0 then
    insert into holdfast.tally (name, number) values (p_name, p_number);
  end if;
end $$;

-- Make one row of many. A reader meanwhile sees the rows or their sum, never both.
create or replace function holdfast.sum_tally() returns void
language sql
as $$
  with gone as (
    delete from holdfast.tally t
    where (select count(*) from (select from holdfast.tally limit 200) t) = 200
      and t.id = any (array(select t.id from holdfast.tally t order by t.id limit 1000 for update skip locked))
    returning t.name, t.number
  )
  insert into holdfast.tally (name, number) select g.name, sum(g.number) from gone g group by g.name
$$;
