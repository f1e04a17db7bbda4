-- heartbeat.sql: a worker says that it is still there, for all its leases in one call.
-- Called by the supervisor of each worker, every third of a lease. Locks no task and writes none. (Beside a reap it may
-- answer once more for a lease that is just being taken away; the token refuses everything that follows.)

-- Ids that are missing in the answer have lost their lease.
create or replace function holdfast.heartbeat(
  p_id uuid[], p_attempt int[], p_token uuid[], p_lease interval, p_progress jsonb[] default null)
returns table (task_id uuid, expires_at timestamptz, cancel_requested bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
begin
  perform holdfast.check_lengths(cardinality(p_id), coalesce(cardinality(p_attempt), 0), coalesce(cardinality(p_token), 0),
    cardinality(p_progress));
  perform holdfast.check_claim(1, p_lease, 'heartbeat');
  perform holdfast.check_value(variadic coalesce(p_progress, '{}'));
  return query
  with held as materialized (
    select t.id, t.lease_token, t.cancel_requested, i.progress
    from (select distinct on (i.id, i.token, i.attempt) *
          from unnest(p_id, p_attempt, p_token, p_progress) i(id, attempt, token, progress)
          order by i.id, i.token, i.attempt) i
    cross join lateral (
      select t.id, t.lease_token, t.cancel_requested from holdfast.task t
      where t.id = i.id and t.lease_token = i.token and t.attempt = i.attempt offset 0) t
  ), beat as (
    insert into holdfast.beat as b (task_id, token, expires_at, progress)
    select h.id, h.lease_token, holdfast.now() + p_lease, h.progress from held h order by h.id
    on conflict (task_id) do update set
      token = excluded.token, expires_at = excluded.expires_at,
      progress = case when b.token = excluded.token then coalesce(excluded.progress, b.progress)
                      else excluded.progress end
  ), lost as (
    insert into holdfast.tally (name, number)
    select 'lost', cardinality(p_id) - count(*) from held having count(*) < cardinality(p_id)
  )
  select h.id, holdfast.now() + p_lease, h.cancel_requested from held h;
end $$;
