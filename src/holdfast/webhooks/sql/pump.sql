-- pump.sql: what the feed tells becomes deliveries. They and the new cursor are written in one transaction, if the cursor
-- is still the old one: nothing is lost and nothing is sent twice, wherever a server dies and however many pump.
-- Called by every process that serves; there is no leader. Reads the feed, and only then locks the webhook.

-- Read on from where this webhook stands. Answers how many deliveries were made, and whether there is more to read.
create or replace function holdfast.pump_webhook(p_id uuid, p_limit int default 500, out made int, out more bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  w holdfast.webhook;
  v_cursor text;
  v_more bool;
  v_missed timestamptz;
  v_body jsonb[];
begin
  made := 0;
  more := false;
  select * into w from holdfast.webhook o where o.id = p_id and o.disabled_at is null;
  if w.id is null then
    return;
  end if;
  begin
    with moves as materialized (
      select * from holdfast.feed(w.cursor, p_limit, case when w.lifecycle is not null then array[w.lifecycle] end, null,
                                  w.owner)
        with ordinality f(cursor, more, task_id, lifecycle, name, owner, version, at, verb, from_state, to_state, attempt,
                          worker_id, data, place)
    ), report as (
      select m.*, o.outcome, 'task.' || k.kind as kind
      from moves m
      left join lateral (
        select d.outcome from holdfast.task_done d where d.id = m.task_id and d.version = m.version offset 0) o on true
      cross join lateral (select case when o.outcome is null then 'moved' when o.outcome = 'done' then 'completed'
                                      else o.outcome::text end as kind) k
      where m.task_id is not null and k.kind = any (w.kinds) and (w.task_name is null or m.name = w.task_name)
    )
    select l.cursor, l.more, array(
        select jsonb_build_object('type', t.kind, 'timestamp', t.at, 'data', jsonb_build_object(
          'task_id', t.task_id, 'lifecycle', t.lifecycle, 'name', t.name, 'state', t.to_state, 'outcome', t.outcome,
          'owner', t.owner, 'attempt', t.attempt, 'version', t.version))
        from report t order by t.at, t.place)
      into v_cursor, v_more, v_body
    from (select m.cursor, m.more from moves m order by m.place desc limit 1) l;
  exception when sqlstate 'TK024' then  -- what lies between is gone, and the webhook says so: it goes on from here
    select f.cursor, false, holdfast.now() into v_cursor, v_more, v_missed from holdfast.feed() f limit 1;
  end;
  if v_cursor <> w.cursor then
    update holdfast.webhook o set cursor = v_cursor, missed_at = coalesce(v_missed, o.missed_at)
    where o.id = p_id and o.cursor = w.cursor and o.disabled_at is null;
    if not found then  -- somebody else was faster
      return;
    end if;
    insert into holdfast.webhook_delivery (webhook_id, task_id, version, kind, body)
    select p_id, (b #>> '{data,task_id}')::uuid, (b #>> '{data,version}')::int, b ->> 'type', b from unnest(v_body) b
    on conflict (webhook_id, task_id, version) do nothing;
    get diagnostics made = row_count;
  end if;
  more := v_more;
end $$;

-- The webhooks that are sent anything.
create or replace function holdfast.pumped_webhooks() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select w.id from holdfast.webhook w where w.disabled_at is null order by w.id $$;
