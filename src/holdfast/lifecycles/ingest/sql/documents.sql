-- documents.sql: what a worker persists of a document, under its lease, and what is known of documents.
-- Locks the item, then its document.

-- A version of a document begins anew: whatever an earlier attempt of the same item persisted is gone.
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
  v_owner text;
begin
  select t.owner into v_owner from holdfast.task t
  where t.id = p_id and t.attempt = p_attempt and t.lease_token = p_token for no key update;
  if not found then
    perform holdfast.refuse('TK001', format('Task %s, attempt %s.', p_id, p_attempt), 'Whoever holds it now goes on with it.');
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
  if exists (select from holdfast.document_version n
             where n.task_id = v_current and n.sha256 = p_sha256 and n.recipe = p_recipe) then
    update holdfast.document d set fresh_at = greatest(d.fresh_at, holdfast.fetched_at(p_id)) where d.current = v_current;
    return v_current;
  end if;
  return null;
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
  perform holdfast.forget_version(v_current);
  update holdfast.document d set current = null, fresh_at = greatest(d.fresh_at, holdfast.now()) where d.id = p_document;
  return true;
end $$;

grant execute on function
  holdfast.persist_version(uuid, int, uuid, text, text, text, jsonb, int, int, jsonb),
  holdfast.persist_chunks(uuid, int, uuid, int[], int[], int[], int[], text[], text, int, real[]),
  holdfast.same_version(uuid, int, uuid, text, text, text), holdfast.read_documents(text, uuid, int),
  holdfast.remove_document(uuid, text) to holdfast_app;
