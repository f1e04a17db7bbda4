-- handle.sql: what a person does about an inbox entry: run the task again, or say that nothing is to be done. Once.
-- Called by operators. Locks the open entries of the tasks concerned by id, then what a retry locks.

-- Run the task of an entry again, as a new task, which is answered. The entry keeps what was changed of the payload.
create or replace function holdfast.inbox_retry(
  p_id uuid, p_by text, p_from_step text default null, p_payload jsonb default null, p_note text default null)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
begin
  perform holdfast.check_handling(p_by, p_note);
  perform holdfast.lock_entries(array(select n.task_id from holdfast.inbox n where n.id = p_id));
  perform holdfast.refuse_handled(p_id);
  return holdfast.retry((select n.task_id from holdfast.inbox n where n.id = p_id), p_from_step, p_payload, p_by, p_note);
end $$;

-- The failure was dealt with elsewhere: nothing more is to be done.
create or replace function holdfast.resolve(p_id uuid, p_by text, p_note text default null) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$ select holdfast.close_entry(p_id, 'resolved', p_by, p_note) $$;

-- Nobody needs what failed.
create or replace function holdfast.discard(p_id uuid, p_by text, p_note text default null) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$ select holdfast.close_entry(p_id, 'discarded', p_by, p_note) $$;

-- Retry, resolve or discard many: those of these ids, or up to `p_limit` that fit a filter, the newest first. Refusals of
-- some do not undo the others. Entries that fit the filter and are left begin at `next`; `remaining` counts them, up to
-- 10,000. A dry run does everything, and undoes it.
create or replace function holdfast.inbox_bulk(
  p_action text, p_by text, p_ids uuid[] default null, p_signature text default null, p_category text default null,
  p_lifecycle text default null, p_name text default null, p_step text default null, p_owner text default null,
  p_before timestamptz default null, p_cursor uuid default null, p_note text default null,
  p_from_step text default null, p_dry_run bool default false, p_limit int default 1000)
returns table (handled jsonb, refused jsonb, next uuid, remaining int, capped bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_before uuid;
  v_ids uuid[];
begin
  perform holdfast.check_handling(p_by, p_note);
  if p_action is null or p_action not in ('retry', 'resolve', 'discard') then
    perform holdfast.refuse('TK010', format('Entries cannot be handled with %s.', quote_nullable(left(p_action, 100))),
                            'It is retry, resolve or discard.');
  elsif (p_ids is not null)
      = (num_nonnulls(p_signature, p_category, p_lifecycle, p_name, p_step, p_owner, p_before) > 0) then
    perform holdfast.refuse('TK010', 'Either ids or a filter say which entries are meant.',
                            'A filter is a signature, category, lifecycle, name, step, owner or time.');
  elsif p_before not between '1970-01-01Z' and '9999-12-31Z' then
    perform holdfast.refuse('TK010', 'Nothing happened before that, or everything did.', 'Name a time between 1970 and 9999.');
  elsif p_limit is null or p_limit not between 1 and 1000 or cardinality(p_ids) > 1000 then
    perform holdfast.refuse('TK010', 'So many entries cannot be handled at once.', 'Handle 1 to 1000, and go on from `next`.');
  elsif p_from_step is not null and p_action <> 'retry' then
    perform holdfast.refuse('TK010', 'Only a retry begins with a step.', 'Leave the step out.');
  end if;
  v_before := least(p_cursor, holdfast.first_uuid(p_before));
  remaining := 0;
  capped := false;
  if p_ids is not null then
    v_ids := array(select distinct i from unnest(p_ids) i where i is not null);
  else
    select m.ids, m.next into v_ids, inbox_bulk.next
    from holdfast.find_inbox_entries(p_signature, p_category, p_lifecycle, p_name, p_step, p_owner, 'open', v_before, p_limit) m;
    if next is not null then
      select cardinality(m.ids), m.next is not null into remaining, capped
      from holdfast.find_inbox_entries(p_signature, p_category, p_lifecycle, p_name, p_step, p_owner, 'open', next, 10000) m;
    end if;
  end if;
  perform holdfast.lock_entries(array(select n.task_id from holdfast.inbox n where n.id = any (v_ids)));
  if p_ids is null then  -- what somebody else has handled meanwhile does not fit any more
    v_ids := array(select n.id from holdfast.inbox n where n.id = any (v_ids) and n.resolved_at is null);
  end if;
  begin
    select h.handled, h.refused into handled, refused
    from holdfast.handle_each(p_action, null, v_ids, p_by, p_note, p_from_step) h;
    if p_dry_run then
      raise exception using errcode = 'TK099', message = 'A dry run is undone.';
    end if;
  exception when sqlstate 'TK099' then
    handled := (select coalesce(jsonb_agg(e - 'retried_as'), '[]') from jsonb_array_elements(handled) e);
  end;
  return next;
end $$;

-- Handle tasks that are locked, or entries, each for itself: of one that is refused nothing is done, and nothing else is
-- undone. Of tasks to cancel, who gathers others goes first and takes them along. All else goes by the limit of its task first,
-- then by id: so a caller that handles others at the same time takes the places of limits in the same order.
create or replace function holdfast.handle_each(
  p_action text, p_tasks uuid[], p_entries uuid[], p_by text, p_note text, p_from_step text,
  out handled jsonb, out requested int, out refused jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_one record;
  v_cancelled record;
  v_new uuid;
  v_retried jsonb := '{}';
  v_hint text;
begin
  handled := '[]';
  requested := 0;
  refused := '[]';
  for v_one in
    select t.id, i.entry, case when i.entry is null then jsonb_build_object('task_id', t.id)
                               else jsonb_build_object('id', i.entry, 'task_id', t.id) end as what
    from unnest(p_tasks, p_entries) i(task, entry)
    cross join lateral (
      select coalesce(i.task, (select n.task_id from holdfast.inbox n where n.id = i.entry)) as id) t
    cross join lateral (
      select p_action = 'cancel' and exists (
        select from holdfast.dependency d where d.downstream = t.id and d.policy = 'gather') as gathers) g
    left join lateral (select d.limit_key from holdfast.task_done d where d.id = t.id offset 0) d on true
    order by g.gathers desc, d.limit_key nulls first,
             case when g.gathers or p_action <> 'cancel' then coalesce(i.entry, t.id) end, t.id desc
  loop
    v_new := v_retried ->> v_one.id::text;  -- a retry handles all entries of its task
    begin
      if v_one.entry is not null and v_new is null then
        perform holdfast.refuse_handled(v_one.entry);
      end if;
      if p_action = 'retry' and v_new is null then
        v_new := holdfast.retry(v_one.id, p_from_step, null, p_by, p_note);
        v_retried := v_retried || jsonb_build_object(v_one.id, v_new);
      elsif p_action in ('resolve', 'discard') then
        perform holdfast.close_entry(v_one.entry, case p_action when 'resolve' then 'resolved' else 'discarded' end,
                                      p_by, p_note);
      elsif p_action = 'cancel' and exists (select from holdfast.task t where t.id = v_one.id) then
        -- (One that has ended since it was locked went along with another of these.)
        select c.effect, c.state into v_cancelled from holdfast.cancel(v_one.id, p_note, p_by) c;
        if v_cancelled.effect = 'too_late' then
          perform holdfast.refuse('TK002', format('Its time limit had passed: it is %s.', v_cancelled.state), '');
        end if;
        requested := requested + (v_cancelled.effect = 'requested')::int;
      end if;
    exception
      when deadlock_detected or serialization_failure or lock_not_available then
        raise;
      when others then
        get stacked diagnostics v_hint = pg_exception_hint;
        refused := refused || (v_one.what || jsonb_build_object('sqlstate', sqlstate, 'detail', sqlerrm, 'fix', v_hint));
        continue;
    end;
    handled := handled || (v_one.what || jsonb_build_object('retried_as', v_new));
  end loop;
end $$;

-- Lock the open entries of these tasks, so that each is handled once and a caller that waits sees by whom.
create or replace function holdfast.lock_entries(p_task uuid[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  perform from (
    select n.id from (select distinct unnest(p_task) as id) t
    cross join lateral (
      select n.id from holdfast.inbox n where n.task_id = t.id and n.resolved_at is null offset 0) n
    order by n.id) e
  cross join lateral (
    select from holdfast.inbox n where n.id = e.id and n.resolved_at is null for update) n;
end $$;

create or replace function holdfast.close_entry(p_id uuid, p_resolution text, p_by text, p_note text) returns void
language plpgsql
set timezone = 'UTC'
as $$
begin
  perform holdfast.check_handling(p_by, p_note);
  update holdfast.inbox n
  set resolved_at = holdfast.now(), resolved_by = p_by, resolution = p_resolution, note = p_note
  where n.id = p_id and n.resolved_at is null;
  if not found then
    perform holdfast.refuse_handled(p_id);
  end if;
end $$;

-- Refuse what is no open entry; of one that was handled, say by whom, when and how.
create or replace function holdfast.refuse_handled(p_id uuid) returns void
language plpgsql
as $$
declare
  v_entry holdfast.inbox;
begin
  select * into v_entry from holdfast.inbox n where n.id = p_id;
  if not found then
    perform holdfast.refuse('TK003', format('No inbox entry has the id %s.', p_id), 'holdfast.inbox_items() lists them.');
  elsif v_entry.resolved_at is not null then
    perform holdfast.refuse('TK002', format('Inbox entry %s was %s%s at %s%s.', p_id, v_entry.resolution,
        coalesce(' by ' || v_entry.resolved_by, ''), v_entry.resolved_at, coalesce(' as ' || v_entry.retried_as, '')),
      coalesce('Look at that task: holdfast why ' || v_entry.retried_as,
               'To run its task again all the same: holdfast retry ' || v_entry.task_id));
  end if;
end $$;

create or replace function holdfast.check_handling(p_by text, p_note text) returns void
language plpgsql
as $$
begin
  if coalesce(p_by, '') = '' or length(p_by) > 200 then
    perform holdfast.refuse('TK010', 'An entry keeps who handled it.', 'Give a name of 1 to 200 characters.');
  elsif length(p_note) > 2000 then
    perform holdfast.refuse('TK010', 'The note is too long.', 'Give up to 2000 characters.');
  end if;
end $$;
