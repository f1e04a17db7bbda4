-- pump.sql: what the feed tells becomes deliveries. Deliveries and the new cursor are written in one transaction, so
-- nothing is lost and nothing is told twice, wherever a server dies.
-- Called by every process that serves; there is no leader. Locks the webhook; one that another pumps now is skipped.

-- Read on from where this webhook stands. Answers how many deliveries were made, and whether there is more to read.
create or replace function holdfast.pump_webhook(p_id uuid, p_limit int default 500, out made int, out more bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  w holdfast.webhook;
  v_cursor text;
begin
  made := 0;
  more := false;
  select * into w from holdfast.webhook o where o.id = p_id and o.disabled_at is null for update skip locked;
  if w.id is null then
    return;
  end if;
  begin
    with moves as materialized (
      select * from holdfast.feed(w.cursor, p_limit, case when w.lifecycle is not null then array[w.lifecycle] end, null,
                                  w.owner)
        with ordinality f(cursor, more, task_id, lifecycle, name, owner, version, at, verb, from_state, to_state, attempt,
                          worker_id, data, place)
    ), told as (
      select m.*, d.outcome, case when d.outcome is null then 'moved' when d.outcome = 'done' then 'completed'
                                  else d.outcome::text end as kind
      from moves m
      left join lateral (
        select d.outcome from holdfast.task_done d where d.id = m.task_id and d.version = m.version offset 0) d on true
      where m.task_id is not null and (w.task_name is null or m.name = w.task_name)
    ), written as (
      insert into holdfast.webhook_delivery (webhook_id, task_id, version, kind, body)
      select w.id, t.task_id, t.version, 'task.' || t.kind, jsonb_build_object(
        'type', 'task.' || t.kind, 'timestamp', t.at, 'data', jsonb_build_object(
          'task_id', t.task_id, 'lifecycle', t.lifecycle, 'name', t.name, 'state', t.to_state, 'outcome', t.outcome,
          'owner', t.owner, 'attempt', t.attempt, 'version', t.version))
      from told t where t.kind = any (w.kinds) order by t.at, t.place
      on conflict (webhook_id, task_id, version) do nothing
      returning 1
    )
    select (select count(*) from written), l.cursor, l.more into made, v_cursor, more
    from (select m.cursor, m.more from moves m order by m.place desc limit 1) l;
    update holdfast.webhook o set cursor = v_cursor where o.id = p_id and o.cursor <> v_cursor;
  exception when sqlstate 'TK024' then
    -- What lies between is gone, and this is told: the endpoint goes on from here.
    update holdfast.webhook o set missed_at = holdfast.now(), cursor = (select f.cursor from holdfast.feed() f limit 1)
    where o.id = p_id;
  end;
end $$;

-- The webhooks that are told of anything.
create or replace function holdfast.pumped_webhooks() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select w.id from holdfast.webhook w where w.disabled_at is null order by w.id $$;

grant execute on function holdfast.pump_webhook(uuid, int), holdfast.pumped_webhooks() to holdfast_app;
