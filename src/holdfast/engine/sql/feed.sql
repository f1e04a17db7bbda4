-- feed.sql: every committed move of every task, once, and the moves of one task in their order.
-- Called by those who follow tasks. Takes no lock and keeps no state: where a reader stands is in the cursor it brings.
--
-- Numbers of transactions are given out in one order and committed in another, so "greater than the last one" loses what
-- commits late. A cursor is therefore a snapshot: which transactions it has seen. A read takes what is visible now and
-- was not then. Large differences are cut into pieces, each from one snapshot to the next; within a piece the cursor also
-- says how far in the order of task and version it has come:
--
--   <database>.<snapshot>                                       all of the snapshot is read
--   <database>.<snapshot>.<next snapshot>.<task>.<version>      and of what the next one adds, all up to this move
--
-- A task's next move waits for the lock of the one before, so a snapshot that sees a move sees all before it.

-- Up to so many moves behind the cursor. No cursor is now; 'start' is the first move that is still kept. Go on from the
-- cursor of the last row, at once if it says `more`; a row without a task carries nothing else. Lifecycles and tasks
-- together mean either; an owner sees only its own.
create or replace function holdfast.feed(
  p_cursor text default null, p_limit int default 500, p_lifecycle text[] default null, p_task uuid[] default null,
  p_owner text default null)
returns table (cursor text, more bool, task_id uuid, lifecycle text, name text, owner text, version int, at timestamptz,
               verb text, from_state text, to_state text, attempt int, worker_id text, data jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_mark text := holdfast.feed_mark();
  v_part text[] := string_to_array(p_cursor, '.');
  v_old pg_snapshot;
  v_next pg_snapshot;
  v_task uuid := '00000000-0000-0000-0000-000000000000';
  v_version int := -1;
  v_only_tasks bool := p_task is not null and p_lifecycle is null;
  v_now pg_snapshot;
  v_sent bigint;
begin
  perform holdfast.need_read_committed();
  perform holdfast.check_limit(p_limit, 10000, 'moves cannot be read');
  if pg_current_xact_id_if_assigned() is not null then  -- its own moves would count as read, committed or not
    perform holdfast.refuse('TK010', 'This transaction has written something.', 'Read the feed in one of its own.');
  end if;

  if p_cursor is null then
    return query select v_mark || '.' || holdfast.feed_end('1'), false, null::uuid, null, null, null, null::int,
                        null::timestamptz, null, null, null, null::int, null, null::jsonb;
    return;
  elsif p_cursor = 'start' then
    v_old := '1:1:';
  else
    begin
      v_old := v_part[2];
      v_next := v_part[3];
      v_task := coalesce(v_part[4]::uuid, v_task);
      v_version := coalesce(v_part[5]::int, v_version);
    exception when data_exception then
      v_old := null;
    end;
    if v_old is null or cardinality(v_part) not in (2, 5) or v_part[1] !~ '^[0-9a-f]{12}$' then
      perform holdfast.refuse('TK010', format('%s is not a cursor.', quote_literal(left(p_cursor, 100))),
                              'Pass the id of the last event as it came, or none.');
    elsif v_part[1] <> v_mark
      or pg_snapshot_xmax(coalesce(v_next, v_old)) > pg_snapshot_xmax(pg_current_snapshot()) then
      perform holdfast.refuse('TK024', 'It is of another database, or from before this one was restored or failed over.',
                              'Read the tasks again, and follow from now on: without a cursor.');
    elsif exists (select from holdfast.feed_floor f where pg_snapshot_xmax(v_old) < pg_snapshot_xmax(f.seen)
                  or exists (select from pg_snapshot_xip(v_old) x where pg_visible_in_snapshot(x, f.seen))) then
      perform holdfast.refuse('TK024', 'Moves that it has not seen are no longer kept.',
                              'Read the tasks again, and follow from now on: without a cursor.');
    end if;
  end if;

  if v_next is null then
    v_now := holdfast.feed_end(pg_snapshot_xmax(v_old));
    v_next := case when v_only_tasks then v_now else holdfast.feed_piece(v_old, v_now, p_limit) end;
  end if;
  if v_only_tasks then
    return query
      select concat_ws('.', v_mark, v_old, v_next, e.task_id, e.version), true, e.task_id, k.lifecycle, k.name, k.owner,
             e.version, e.at, e.verb, e.from_state, e.to_state, e.attempt, e.worker_id, e.data
      from holdfast.event e
      cross join lateral holdfast.feed_task(e.task_id) k
      where e.task_id = any (p_task) and (e.task_id, e.version) > (v_task, v_version)
        and not pg_visible_in_snapshot(e.xid, v_old) and pg_visible_in_snapshot(e.xid, v_next)
        and (p_owner is null or k.owner = p_owner)
      order by e.task_id, e.version limit p_limit;
  else
    return query
      select concat_ws('.', v_mark, v_old, v_next, e.task_id, e.version), true, e.task_id, k.lifecycle, k.name, k.owner,
             e.version, e.at, e.verb, e.from_state, e.to_state, e.attempt, e.worker_id, e.data
      from holdfast.feed_between(v_old, v_next) e
      cross join lateral holdfast.feed_task(e.task_id) k
      where (e.task_id, e.version) > (v_task, v_version)
        and (p_owner is null or k.owner = p_owner)
        and (p_lifecycle is null or k.lifecycle = any (p_lifecycle) or e.task_id = any (p_task))
      order by e.task_id, e.version limit p_limit;
  end if;
  get diagnostics v_sent = row_count;
  if v_sent < p_limit then  -- all of this piece
    return query select v_mark || '.' || v_next, v_now is null or v_next::text <> v_now::text, null::uuid, null, null, null, null::int,
                        null::timestamptz, null, null, null, null::int, null, null::jsonb;
  end if;
end $$;

-- What the second snapshot sees and the first does not: who was at work then, and who came later. (Not simply from the
-- first one's oldest transaction on: where that stays open for hours, all of these hours would be read again each time.)
create or replace function holdfast.feed_between(p_old pg_snapshot, p_new pg_snapshot) returns setof holdfast.event
language sql stable
as $$
  select * from holdfast.event e
  where e.xid = any (array(select x from pg_snapshot_xip(p_old) x where pg_visible_in_snapshot(x, p_new)))
  union all
  select * from holdfast.event e
  where e.xid >= pg_snapshot_xmax(p_old) and e.xid < pg_snapshot_xmax(p_new) and pg_visible_in_snapshot(e.xid, p_new)
$$;

-- The snapshot of now, ending behind the newest event. No later: Postgres gives a number out again if it crashes before
-- it has written down that the transaction was rolled back, and a cursor must not call such a number seen.
create or replace function holdfast.feed_end(p_least xid8) returns pg_snapshot
language sql stable
as $$
  select holdfast.feed_snapshot(
    greatest(p_least, (select pg_snapshot_xmax(f.seen) from holdfast.feed_floor f),
             (select holdfast.feed_next(max(e.xid)) from holdfast.event e
              where e.xid >= p_least and e.xid < pg_snapshot_xmax(pg_current_snapshot()))),
    array(select pg_snapshot_xip(pg_current_snapshot())))
$$;

-- A snapshot between two others that adds some so many events to the first, whole transactions in the order of their
-- numbers; the second one if it adds fewer. A transaction that began early may have moved a task late: if it comes
-- before the moves that it stands on, it is held back, and with it who stands on it.
create or replace function holdfast.feed_piece(p_old pg_snapshot, p_new pg_snapshot, p_events bigint) returns pg_snapshot
language plpgsql stable set enable_sort = off
as $$
declare
  v_events bigint := p_events;
  v_found bigint;
  v_last xid8;
  v_held xid8[];
  v_more xid8[];
begin
  loop
    -- As in feed_between, but each half stops after so many: through the function all of them would be sorted first.
    select count(*), max(e.xid) into v_found, v_last from (
      (select e.xid from holdfast.event e
       where e.xid = any (array(select x from pg_snapshot_xip(p_old) x where pg_visible_in_snapshot(x, p_new)))
       order by e.xid limit v_events)
      union all
      (select e.xid from holdfast.event e
       where e.xid >= pg_snapshot_xmax(p_old) and e.xid < pg_snapshot_xmax(p_new) and pg_visible_in_snapshot(e.xid, p_new)
       order by e.xid limit v_events)
      order by xid limit v_events) e;
    if v_found < v_events then
      return p_new;
    end if;
    v_held := '{}';
    loop
      select array_agg(distinct e.xid) into v_more
      from holdfast.feed_between(p_old, p_new) e
      cross join lateral (
        select b.xid from holdfast.event b where b.task_id = e.task_id and b.version = e.version - 1 offset 0) b
      where e.xid <= v_last and e.xid <> all (v_held)
        and not pg_visible_in_snapshot(b.xid, p_old) and (b.xid > v_last or b.xid = any (v_held));
      exit when v_more is null;
      v_held := v_held || v_more;
    end loop;
    exit when exists (
      select from holdfast.feed_between(p_old, p_new) e where e.xid <= v_last and e.xid <> all (v_held));
    v_events := v_events * 4;
  end loop;
  return holdfast.feed_snapshot(
    greatest(pg_snapshot_xmax(p_old), holdfast.feed_next(v_last)),
    array(select x from (select pg_snapshot_xip(p_old) union select pg_snapshot_xip(p_new) union select unnest(v_held)) o(x)
          where x > v_last or not pg_visible_in_snapshot(x, p_new) or x = any (v_held)));
end $$;

-- All before the end have been seen, but for the open ones.
create or replace function holdfast.feed_snapshot(p_end xid8, p_open xid8[]) returns pg_snapshot
language sql immutable
as $$
  select concat(coalesce(min(x), p_end), ':', p_end, ':', string_agg(x::text, ',' order by x))::pg_snapshot
  from unnest(p_open) x where x < p_end
$$;

create or replace function holdfast.feed_next(p_xid xid8) returns xid8
language sql immutable
as $$ select (p_xid::text::bigint + 1)::text::xid8 $$;

-- Whose numbers these are: a copy, a restored or a promoted database counts on from elsewhere.
create or replace function holdfast.feed_mark() returns text
language sql stable
as $$
  select left(md5(concat_ws(' ', s.system_identifier, d.oid, c.timeline_id)), 12)
  from pg_control_system() s, pg_control_checkpoint() c, pg_database d where d.datname = current_database()
$$;

-- What an event does not say of its task. One row, whatever has become of it.
create or replace function holdfast.feed_task(p_id uuid, out lifecycle text, out name text, out owner text)
returns setof record
language sql stable rows 1
as $$
  select l.name, t.name, t.owner
  from (values (true)) one
  left join holdfast.find_task(p_id) t on true
  left join holdfast.lifecycle l on l.id = t.lifecycle
$$;

-- Drop the events of the tasks that were made on this day (UTC), and remember it for cursors that have not seen them.
-- For the owner of the schema; waits for those who write or read there.
create or replace function holdfast.forget_events(p_day date) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := 'event_' || to_char(p_day, 'YYYYMMDD');
  v_newest xid8;
begin
  if exists (select from holdfast.task t where t.id >= holdfast.first_uuid(p_day::timestamp at time zone 'UTC')
             and t.id < holdfast.first_uuid((p_day + 1)::timestamp at time zone 'UTC')) then
    perform holdfast.refuse('TK010', format('Tasks of %s have not ended yet.', p_day), 'End them, or keep their day.');
  end if;
  execute format('lock table holdfast.%I in access exclusive mode', v_name);
  execute format('select max(e.xid) from holdfast.%I e', v_name) into v_newest;
  update holdfast.feed_floor set seen = holdfast.feed_snapshot(
    greatest(pg_snapshot_xmax(seen), holdfast.feed_next(v_newest)),
    array(select pg_snapshot_xip(pg_current_snapshot()) union select pg_current_xact_id()));
  execute format('drop table holdfast.%I', v_name);
end $$;
