-- wakeups.sql: of which tasks workers are to get messages that lie outside of Postgres. A message is a hint and
-- holds nothing but the task's id; the row is enough, and decides.
-- Called by every process that publishes, and by workers that heard a message. Locks only rows of `wakeup`, in the order
-- of their ids; never a task.

-- Up to n tasks to send a message for now, taken: nobody else takes them too. These are tasks that a worker could claim
-- at once and that were not published since they last became so, or whose last message is old: after 30 seconds, and then
-- after twice as long each time, up to a quarter of an hour.
--
-- Only the first `p_window` of each queue are looked at. Workers claim from the front, whatever message woke them, so those
-- behind need none before they come to the front; and however many wait, few are read and few messages lie about.
create or replace function holdfast.take_wakeups(p_n int, p_window int default 200) returns setof uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
declare
  v_now timestamptz := holdfast.now();
begin
  if p_n is null or p_n not between 1 and 1000 or p_window is null or p_window not between 1 and 10000 then
    perform holdfast.refuse('TK010', format('%s wake-ups of %s cannot be taken at once.', coalesce(p_n::text, 'null'),
                                            coalesce(p_window::text, 'null')), 'Give 1 to 1000, of 1 to 10000.');
  end if;
  -- Rivals meet at the primary key: who comes second waits for the first one's commit, sees its row and leaves it alone.
  return query
  insert into holdfast.wakeup as w (task_id, version, again_at)
  select f.id, f.version, v_now + interval '30 seconds'
  from (
    select c.id, c.version from holdfast.queue q
    cross join lateral (
      select c.id, c.version from generate_series(9, 0, -1) p(level)
      cross join lateral (
        select t.id, t.version from holdfast.task t
        where t.queue = q.name and t.priority = p.level
          and t.actor = 'worker' and t.lease_token is null and t.parked is null
          and t.due_at <= v_now
          and (t.deadline is null or t.deadline > v_now)
          and (not exists (select from holdfast.setback)
               or (select s.until from holdfast.setback s where s.task_id = t.id) > v_now is not true)
        order by t.due_at, t.id limit p_window) c
      limit p_window) c
    left join lateral (
      select w.version, w.again_at from holdfast.wakeup w where w.task_id = c.id offset 0) w on true
    where q.paused_at is null and (w.version is null or w.version < c.version or w.again_at <= v_now)
    limit p_n) f
  order by f.id
  on conflict (task_id) do update set
    version = excluded.version,
    times = case when w.version = excluded.version then w.times + 1 else 1 end,
    last_published_at = v_now,
    again_at = v_now + holdfast.doubled('30 seconds', case when w.version = excluded.version then w.times else 0 end, '15 minutes')
  where w.version < excluded.version or w.again_at <= v_now
  returning w.task_id;
  -- After the insert, and without waiting: a transaction that waits for a row that is deleted here waits for nothing else of ours.
  perform holdfast.forget_wakeups();
end $$;

-- These were taken and could not be sent: they are to be taken again soon.
create or replace function holdfast.miss_wakeups(p_id uuid[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  update holdfast.wakeup w set again_at = holdfast.now() + interval '2 seconds'
  where w.task_id = any (array(
    select w.task_id from holdfast.wakeup w where w.task_id = any (p_id) order by w.task_id for update skip locked))
$$;

-- Which of these tasks wait for a worker. A paused queue counts: resuming it publishes nothing again.
create or replace function holdfast.which_wait(p_id uuid[]) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select t.id from unnest(p_id) i(id)
  cross join lateral (
    select t.id from holdfast.task t
    where t.id = i.id and t.actor::text = 'worker' and t.lease_token is null and t.parked is null
      and t.due_at <= holdfast.now() offset 0) t
$$;

-- Rows that say nothing any more: their task is gone, is with a worker, or has moved on. Those that are still true and
-- were not renewed for an hour lie behind many others, and are published again when they are among the first.
create or replace function holdfast.forget_wakeups() returns void
language sql
as $$
  delete from holdfast.wakeup w where w.task_id = any (array(
    select w.task_id from holdfast.wakeup w
    where w.task_id = any (array(
        select o.task_id from holdfast.wakeup o where o.again_at <= holdfast.now()
        order by o.again_at, o.task_id limit 1000))
      and (w.again_at < holdfast.now() - interval '1 hour'
           or (w.again_at <= holdfast.now()
               and (select t.version from holdfast.task t where t.id = w.task_id) is distinct from w.version))
    for update skip locked))
$$;
