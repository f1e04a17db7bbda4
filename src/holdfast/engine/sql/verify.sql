-- verify.sql: the whole history replayed against the declared matrix. One row per thing that does not hold; no row is
-- the proof. Reads everything it is asked about; takes no lock, and sees one moment.

create or replace function holdfast.verify(p_id uuid[] default null)
returns table (task_id uuid, problem text)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off
set timezone = 'UTC'
as $$
  with tasks as materialized (
    select t.id, t.lifecycle, t.state, t.version, t.attempt, false as ended from holdfast.task t
    where p_id is null or t.id = any (p_id)
    union all
    select t.id, t.lifecycle, t.state, t.version, t.attempt, true from holdfast.task_done t
    where p_id is null or t.id = any (p_id)
  ), history as materialized (
    select e.*, lag(e.to_state) over past as was, lag(e.version) over past as version_was,
           lag(e.attempt) over past as attempt_was, lead(e.version) over past is null as is_last
    from holdfast.event e where p_id is null or e.task_id = any (p_id)
    window past as (partition by e.task_id order by e.version)
  )
  select t.id, 'it is both live and finished' from tasks t group by t.id having count(*) > 1
  union all
  select coalesce(t.id, h.task_id), case
      when h.task_id is null then 'it has no events'
      when t.id is null then 'events without a task'
      else format('its row says %s, version %s, attempt %s; its events say %s, %s, %s',
                  t.state, t.version, t.attempt, h.to_state, h.version, h.attempt) end
  from tasks t full join (select * from history where is_last) h on h.task_id = t.id
  where (t.state, t.version, t.attempt) is distinct from (h.to_state, h.version, h.attempt)
  union all
  select h.task_id, format('event %s follows %s', h.version, coalesce(h.version_was::text, 'nothing')) from history h
  where h.version <> coalesce(h.version_was + 1, 0)
  union all
  select h.task_id, format('event %s leaves %s, but it was %s', h.version, h.from_state, coalesce(h.was, 'not there'))
  from history h where h.from_state <> coalesce(h.was, '')
  union all
  select h.task_id, format('event %s: attempt %s follows %s', h.version, h.attempt, coalesce(h.attempt_was, 1))
  from history h where h.attempt not in (coalesce(h.attempt_was, 1), coalesce(h.attempt_was, 0) + 1)
  union all
  select h.task_id, format('event %s: %s -%s-> %s is not declared', h.version, h.from_state, h.verb, h.to_state)
  from history h join tasks t on t.id = h.task_id
  where not exists (select from holdfast.transition x where x.lifecycle = t.lifecycle and x.from_state = h.from_state
                      and x.verb = h.verb and x.to_state = h.to_state)
  union all
  select t.id, format('%s is %s', t.state, case when t.ended then 'not final' else 'final' end)
  from tasks t join holdfast.state s on s.lifecycle = t.lifecycle and s.name = t.state
  where t.ended <> (s.actor = 'nobody')
  union all
  select t.id, 'it waits for others, and none is open' from holdfast.task t
  where t.actor = 'tasks' and (p_id is null or t.id = any (p_id))
    and not exists (select from holdfast.dependency d where d.downstream = t.id and d.outcome is null)
    and not exists (select from holdfast.setback s where s.task_id = t.id)
  order by 1, 2
$$;
