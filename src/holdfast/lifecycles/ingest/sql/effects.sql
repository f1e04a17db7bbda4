-- effects.sql: what a move of a run or of its items writes beside the task, in the same transaction.
-- Called by every move and every step of the lifecycles `ingest` and `ingest_item`. Locks documents, in their order; what it
-- raises undoes the move.

create or replace function holdfast.ingest_effects(p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  m holdfast.moved;
begin
  perform holdfast.publish_versions(array(
    select n.task_id from unnest(p_moved) n where n.verb = 'step' and n.step = 'INDEXED'));
  foreach m in array p_moved loop
    case
      when m.from_state = '' and m.lifecycle = 'ingest' then
        perform holdfast.open_run(m.task_id);
      when m.from_state = '' then
        perform holdfast.check_source(m.task_id, m.owner);
      when m.verb = 'step' and m.step = 'PERSISTED' then
        perform holdfast.check_rendezvous(m.task_id);
      when m.to_state = 'OVER_BUDGET' and m.from_state <> m.to_state then
        perform holdfast.look_again(m.task_id);
      else
        null;
    end case;
    if (select d.id from holdfast.task_done d where d.id = m.task_id) is not null then  -- it has ended
      if m.lifecycle = 'ingest' then
        perform holdfast.tell_completed(m.task_id, m.to_state, m.attempt);
      else
        perform holdfast.forget_unpublished(m.task_id);
        -- What a failed item has done is what a retry begins with.
        perform holdfast.delete_later(m.task_id, 'ingest/' || m.task_id,
                                      case m.to_state when 'DONE' then interval '1 day' else interval '30 days' end);
      end if;
    end if;
  end loop;
end $$;

-- A run is born with its budget, if it names one.
create or replace function holdfast.open_run(p_run uuid) returns void
language plpgsql
as $$
declare
  v_budget jsonb := (select i.payload -> 'budget_cents' from holdfast.input i where i.id = p_run);
begin
  if v_budget is not null and jsonb_typeof(v_budget) <> 'null' and (jsonb_typeof(v_budget) <> 'number' or (v_budget #>> '{}')::numeric < 0) then
    perform holdfast.refuse('TK010', 'budget_cents is no amount.', 'Give a number of cents, 0 or more.');
  end if;
  insert into holdfast.ingest_run (task_id, budget_micros)
  values (p_run, case when jsonb_typeof(v_budget) = 'number' then (v_budget #>> '{}')::numeric * 10000 end);
end $$;

-- Whatever way an item is made, also by a retry with another payload: files of the server are for the local owner,
-- objects for whoever uploaded them.
create or replace function holdfast.check_source(p_item uuid, p_owner text) returns void
language plpgsql
as $$
declare
  v_uri text := (select case when jsonb_typeof(i.payload) = 'object' then i.payload ->> 'uri' end
                 from holdfast.input i where i.id = p_item);
begin
  perform holdfast.check_addresses(array[v_uri], p_owner);
end $$;

-- Nothing is persisted while a step has failed and was not done since: whoever catches an error does not get past it.
create or replace function holdfast.check_rendezvous(p_item uuid) returns void
language plpgsql
as $$
declare
  v_missing text := (select string_agg(s.name, ', ' order by s.name) from holdfast.step s where s.task_id = p_item and not s.done);
begin
  if v_missing is not null then
    perform holdfast.refuse('TK002', format('Steps of this item have failed: %s.', v_missing),
                            'Run them again before PERSISTED, or let the failure end the item.');
  end if;
end $$;

-- An item leaves for want of budget, which may have been raised since it looked: then it goes on at once.
create or replace function holdfast.look_again(p_item uuid) returns void
language plpgsql
as $$
begin
  perform r.task_id from holdfast.ingest_run r where r.task_id = holdfast.run_of(p_item) for share;
  if found and holdfast.may_spend(p_item) then
    perform holdfast.move(array[p_item], array['go_on'], array[holdfast.now()], array['{"kind": "budget_raised"}'::jsonb]);
  end if;
end $$;

-- The version that was fetched last is the one that searchers see, from this commit on. One that was overtaken meanwhile
-- never shows, and neither does what was fetched before the document was removed.
create or replace function holdfast.publish_versions(p_items uuid[]) returns void
language plpgsql
as $$
declare
  v record;
begin
  if cardinality(p_items) = 0 then
    return;
  end if;
  for v in
    select d.id, n.task_id, n.chunks, n.fetched_at, d.current, d.fresh_at from holdfast.document_version n
    join holdfast.document d on d.id = n.document
    where n.task_id = any (p_items) order by d.id, n.task_id for update of d
  loop
    -- Looked at anew: of two versions in one call the first has changed it, and so has whoever held the lock.
    select d.current, d.fresh_at into v.current, v.fresh_at from holdfast.document d where d.id = v.id;
    if v.fetched_at < v.fresh_at or (v.fetched_at = v.fresh_at and v.current > v.task_id) then
      perform holdfast.forget_version(v.task_id);
      continue;
    end if;
    if (select count(*) from holdfast.chunk c where c.version = v.task_id) <> v.chunks then
      perform holdfast.refuse('TK002', format('Not all chunks of %s are persisted.', v.task_id), 'Retry it from PERSISTED.');
    end if;
    perform holdfast.forget_version(v.current) where v.current <> v.task_id;
    update holdfast.document d set current = v.task_id, fresh_at = v.fetched_at where d.id = v.id;
    update holdfast.document_version n set published_at = holdfast.now() where n.task_id = v.task_id;
  end loop;
end $$;

-- What was made of a version, but for the fact that there was one.
create or replace function holdfast.forget_version(p_version uuid) returns void
language sql
as $$
  delete from holdfast.chunk c where c.version = p_version;
  delete from holdfast.entity e where e.version = p_version;
  update holdfast.document_version n set replaced_at = holdfast.now() where n.task_id = p_version and n.replaced_at is null;
$$;

-- An item that failed or was cancelled between PERSISTED and INDEXED leaves nothing to be searched, and so nothing that a
-- retry could begin with: it persists anew.
create or replace function holdfast.forget_unpublished(p_item uuid) returns void
language plpgsql
as $$
begin
  perform holdfast.forget_version(n.task_id) from holdfast.document_version n
  where n.task_id = p_item and n.published_at is null and n.replaced_at is null;
  if found then
    delete from holdfast.step s where s.task_id = p_item and s.name = 'PERSISTED';
  end if;
end $$;

-- The run's last word, beside its own event: how many of its items ended how, and what they cost.
create or replace function holdfast.tell_completed(p_run uuid, p_state text, p_attempt int) returns void
language sql
as $$
  insert into holdfast.step_event (task_id, number, step, kind, attempt, data)
  select p_run, holdfast.last_step_event(p_run) + 1, '', 'run_completed', p_attempt,
         holdfast.run_counts(p_run) || jsonb_build_object('status', p_state, 'cost_micros', holdfast.run_cost(p_run))
$$;
