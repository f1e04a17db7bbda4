-- documents.sql: what a worker persists of a document under its lease, what a move of a run or of its items writes beside the
-- task, and what is known of documents.
-- ingest_effects is called by every move and every step of the lifecycles `ingest` and `ingest_item`; what it raises undoes the
-- move. Locks the item, then documents in their order.

create or replace function holdfast.ingest_effects(p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  m holdfast.moved;
begin
  perform holdfast.publish_versions(array(
    select n.task_id from unnest(p_moved) n where n.verb = 'step' and n.step = 'INDEXED'));
  foreach m in array p_moved loop
    if m.from_state = '' and m.lifecycle = 'ingest' then
      perform holdfast.open_run(m.task_id);
    elsif m.from_state = '' then
      -- Whatever way an item is made, also by a retry with another payload: files of the server are for the local owner,
      -- objects for the owner who uploaded them.
      perform holdfast.check_addresses(
        array[case when jsonb_typeof(i.payload) = 'object' then i.payload ->> 'uri' end], m.owner)
      from holdfast.input i where i.id = m.task_id;
    elsif m.verb = 'step' and m.step = 'PERSISTED' then
      perform holdfast.check_steps_done(m.task_id);
    elsif m.to_state = 'OVER_BUDGET' and m.from_state <> m.to_state then
      perform holdfast.resume_if_affordable(m.task_id);
    end if;
    if (select d.id from holdfast.task_done d where d.id = m.task_id) is not null then  -- it has ended
      if m.lifecycle = 'ingest' then
        perform holdfast.add_step_event(m.task_id, '', 'run_completed', m.attempt, holdfast.run_counts(m.task_id)
          || jsonb_build_object('status', m.to_state, 'cost_micros', holdfast.run_cost(m.task_id)));
      else
        perform holdfast.delete_unpublished(m.task_id);
        -- What a failed item has done is what a retry begins with.
        perform holdfast.delete_later(m.task_id, 'ingest/' || m.task_id,
                                      case m.to_state when 'DONE' then interval '1 day' else interval '30 days' end);
      end if;
    end if;
  end loop;
end $$;

-- A run begins with its budget, if it names one.
create or replace function holdfast.open_run(p_run uuid) returns void
language plpgsql
as $$
declare
  v_budget jsonb := (select i.payload -> 'budget_cents' from holdfast.input i where i.id = p_run);
begin
  if v_budget is not null and jsonb_typeof(v_budget) <> 'null' and (jsonb_typeof(v_budget) <> 'number' or (v_budget #>> '{}')::numeric < 0) then
    perform holdfast.refuse('TK010', 'budget_cents is not an amount.', 'Give a number of cents, 0 or more.');
  end if;
  insert into holdfast.ingest_run (task_id, budget_micros)
  values (p_run, case when jsonb_typeof(v_budget) = 'number' then (v_budget #>> '{}')::numeric * 10000 end);
end $$;

-- Nothing is persisted while a step has failed and was not done since: a handler that catches an error does not get past it.
create or replace function holdfast.check_steps_done(p_item uuid) returns void
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
create or replace function holdfast.resume_if_affordable(p_item uuid) returns void
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
  for v in
    select d.id, n.task_id, n.chunks, n.fetched_at, d.current, d.fresh_at from holdfast.document_version n
    join holdfast.document d on d.id = n.document
    where n.task_id = any (p_items) order by d.id, n.task_id for update of d
  loop
    -- Read again: of two versions in one call the first has changed it, and so may another transaction that held the lock.
    select d.current, d.fresh_at into v.current, v.fresh_at from holdfast.document d where d.id = v.id;
    if v.fetched_at < v.fresh_at or (v.fetched_at = v.fresh_at and v.current > v.task_id) then
      perform holdfast.delete_version(v.task_id);
      continue;
    end if;
    if (select count(*) from holdfast.chunk c where c.version = v.task_id) <> v.chunks then
      perform holdfast.refuse('TK002', format('Not all chunks of %s are persisted.', v.task_id), 'Retry it from PERSISTED.');
    end if;
    perform holdfast.delete_version(v.current) where v.current <> v.task_id;
    update holdfast.document d set current = v.task_id, fresh_at = v.fetched_at where d.id = v.id;
    update holdfast.document_version n set published_at = holdfast.now() where n.task_id = v.task_id;
  end loop;
end $$;

-- What was made of a version, but for the fact that there was one.
create or replace function holdfast.delete_version(p_version uuid) returns void
language sql
as $$
  delete from holdfast.chunk c where c.version = p_version;
  delete from holdfast.entity e where e.version = p_version;
  update holdfast.document_version n set replaced_at = holdfast.now() where n.task_id = p_version and n.replaced_at is null;
$$;

-- An item that failed or was cancelled between PERSISTED and INDEXED leaves nothing to be searched, and so nothing that a
-- retry could begin with: it persists again.
create or replace function holdfast.delete_unpublished(p_item uuid) returns void
language plpgsql
as $$
begin
  perform holdfast.delete_version(n.task_id) from holdfast.document_version n
  where n.task_id = p_item and n.published_at is null and n.replaced_at is null;
  if found then
    delete from holdfast.step s where s.task_id = p_item and s.name = 'PERSISTED';
  end if;
end $$;

-- A version of a document begins from nothing: whatever an earlier attempt of the same item persisted is gone.
create or replace function holdfast.persist_version(
  p_id uuid, p_attempt int, p_token uuid, p_name text, p_sha256 text, p_recipe text, p_about jsonb, p_chunks int,
  p_dimensions int, p_entities jsonb)
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '10s'
as $$
declare
  v_owner text;
  v_document uuid;
begin
  if p_name is null or length(p_name) not between 1 and 2000 or p_sha256 is null or p_recipe is null or p_about is null
     or p_chunks is null or p_chunks < 0 or p_dimensions is null or p_dimensions not between 1 and 16000 then
    perform holdfast.refuse('TK010', 'A version has a name, a checksum, a recipe, and vectors of 1 to 16000 numbers.', '');
  end if;
  perform holdfast.index_vectors(p_dimensions);
  v_owner := holdfast.owner_under_lease(p_id, p_attempt, p_token);
  insert into holdfast.document (owner, name) values (v_owner, p_name) on conflict do nothing;
  select d.id into v_document from holdfast.document d
  where d.owner = v_owner and md5(d.name) = md5(p_name) and d.name = p_name for no key update;
  delete from holdfast.document_version n where n.task_id = p_id;
  insert into holdfast.document_version (task_id, document, sha256, recipe, about, chunks, fetched_at)
  values (p_id, v_document, p_sha256, p_recipe, p_about, p_chunks, holdfast.fetched_at(p_id));
  insert into holdfast.entity (version, kind, value, times, starts)
  select p_id, e.kind, left(e.value, 500), sum(e.times), min(e.starts)
  from jsonb_to_recordset(p_entities) e(kind text, value text, times int, starts int) group by 1, 2, 3;
  return v_document;
end $$;

-- Some of its chunks; `vectors` holds their numbers one after the other.
create or replace function holdfast.persist_chunks(
  p_id uuid, p_attempt int, p_token uuid, p_number int[], p_starts int[], p_ends int[], p_page int[], p_text text[],
  p_embedder text, p_dimensions int, p_vectors real[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
  v_owner text := holdfast.owner_under_lease(p_id, p_attempt, p_token);
  v_column text := case when holdfast.vector_schema() is null then 'embedding' else 'vector' end;
begin
  perform holdfast.check_lengths(cardinality(p_number), cardinality(p_starts), cardinality(p_ends), cardinality(p_page),
                                 cardinality(p_text), cardinality(p_vectors) / p_dimensions);
  execute format(
    'insert into holdfast.chunk (version, number, owner, starts, ends, page, text, embedder, dimensions, %I)'
    ' select $1, c.number, $2, c.starts, c.ends, c.page, c.text, $3, $4, $5[(c.place - 1) * $4 + 1 : c.place * $4]'
    ' from unnest($6, $7, $8, $9, $10) with ordinality c(number, starts, ends, page, text, place)'
    ' on conflict (version, number) do nothing', v_column)
  using p_id, v_owner, p_embedder, p_dimensions, p_vectors, p_number, p_starts, p_ends, p_page, p_text;
end $$;

-- Whose item it is, if this lease is the one that counts; the item stays locked until the caller commits.
create or replace function holdfast.owner_under_lease(p_id uuid, p_attempt int, p_token uuid) returns text
language plpgsql
as $$
declare
  v_owner text := (holdfast.lock_held(p_id, p_attempt, p_token)).owner;
begin
  if v_owner is null then
    perform holdfast.refuse('TK001', format('Task %s, attempt %s.', p_id, p_attempt), 'Its holder goes on with it.');
  end if;
  return v_owner;
end $$;

-- When an item fetched what it is about: the moment of that step, also of one that it has inherited.
create or replace function holdfast.fetched_at(p_item uuid) returns timestamptz
language sql stable
as $$
  select coalesce((select s.at from holdfast.step s where s.task_id = p_item and s.name = 'FETCHED' and s.done),
                  (select t.created_at from holdfast.task t where t.id = p_item))
$$;

-- The version that searchers see of a document, if it was made of this content by this recipe. Who finds it so has looked,
-- and whatever was fetched before does not replace it any more.
create or replace function holdfast.same_version(
  p_id uuid, p_attempt int, p_token uuid, p_name text, p_sha256 text, p_recipe text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '10s'
as $$
declare
  v_owner text := holdfast.owner_under_lease(p_id, p_attempt, p_token);
  v_current uuid;
begin
  select d.current into v_current from holdfast.document d
  where d.owner = v_owner and md5(d.name) = md5(p_name) and d.name = p_name for no key update;
  update holdfast.document d set fresh_at = greatest(d.fresh_at, holdfast.fetched_at(p_id))
  where d.current = (select n.task_id from holdfast.document_version n
                     where n.task_id = v_current and n.sha256 = p_sha256 and n.recipe = p_recipe)
  returning d.current into v_current;
  return v_current;
end $$;

-- Documents that can be searched, the newest first, from one on.
create or replace function holdfast.read_documents(p_owner text, p_before uuid default null, p_limit int default 50) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select jsonb_build_object('document_id', d.id, 'owner', d.owner, 'name', d.name, 'item_id', n.task_id, 'sha256', n.sha256,
                            'about', n.about, 'chunks', n.chunks, 'published_at', n.published_at,
                            'entities', (select coalesce(jsonb_object_agg(e.kind, e.number), '{}') from (
                              select e.kind, count(*) as number from holdfast.entity e where e.version = n.task_id group by 1) e))
  from holdfast.document d join holdfast.document_version n on n.task_id = d.current
  where (p_owner is null or d.owner = p_owner) and (p_before is null or d.id < p_before)
  order by d.id desc limit least(p_limit, 200)
$$;

-- A document is searched no more. Answers whether there was one.
create or replace function holdfast.remove_document(p_document uuid, p_owner text default null) returns bool
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_current uuid;
begin
  select d.current into v_current from holdfast.document d
  where d.id = p_document and d.current is not null and (p_owner is null or d.owner = p_owner) for update;
  if not found then
    return false;
  end if;
  perform holdfast.delete_version(v_current);
  update holdfast.document d set current = null, fresh_at = greatest(d.fresh_at, holdfast.now()) where d.id = p_document;
  return true;
end $$;
