-- held.sql: what workers hold at this moment, and how much of an id tells it from all others. For people who look.
-- Takes no lock.

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
