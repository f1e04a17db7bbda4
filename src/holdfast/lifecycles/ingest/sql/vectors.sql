-- vectors.sql: where Postgres has pgvector, vectors are kept as such and found by an HNSW index; elsewhere as real[], and
-- every chunk is compared. What is found is the same, but for the few that an approximate index misses.

-- The schema of the type `vector`, if chunks are kept with it.
create or replace function holdfast.vector_schema() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select n.nspname::text from pg_attribute a
  join pg_type t on t.oid = a.atttypid join pg_namespace n on n.oid = t.typnamespace
  where a.attrelid = to_regclass('holdfast.chunk') and a.attname = 'vector' and not a.attisdropped
$$;

-- Keep vectors as such from now on, if the extension is there or may be made.
create or replace function holdfast.use_vectors() returns void
language plpgsql
as $$
declare
  v_schema text;
begin
  if holdfast.vector_schema() is not null
     or not exists (select from pg_available_extensions e where e.name = 'vector') then
    return;
  end if;
  if not exists (select from pg_extension e where e.extname = 'vector') then
    begin
      create extension vector schema public;
    exception when others then
      return;  -- not ours to make: whoever may, makes it and calls this once more
    end;
  end if;
  select n.nspname into v_schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
  execute format('alter table holdfast.chunk add column vector %I.vector', v_schema);
  execute 'update holdfast.chunk set vector = embedding, embedding = null';
end $$;

-- An index for vectors of so many numbers, made when the first of them comes; none for more than it can take.
create or replace function holdfast.index_vectors(p_dimensions int) returns void
language plpgsql
as $$
declare
  v_schema text := holdfast.vector_schema();
  v_index text := format('chunk_vector_%s', p_dimensions);
begin
  if v_schema is null or p_dimensions > 2000 or to_regclass('holdfast.' || v_index) is not null then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('holdfast.index_vectors', 0));
  execute format('create index if not exists %I on holdfast.chunk using hnsw ((vector::%I.vector(%s)) %2$I.vector_cosine_ops)'
                 ' where dimensions = %3$s', v_index, v_schema, p_dimensions);
end $$;

-- Go on through the index until enough have passed the filter (pgvector 0.8). For this transaction.
create or replace function holdfast.scan_on() returns void
language plpgsql
as $$
begin
  perform set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '100', true);
exception when others then
  null;
end $$;

-- Whether searchers see this version.
create or replace function holdfast.is_current(p_version uuid) returns bool
language sql stable
as $$ select (select d.id from holdfast.document d where d.current = p_version) is not null $$;

-- Current chunks whose vectors are nearest to this one, of the same embedder; of one owner, or of all. STABLE: it sees what the
-- statement sees that calls it, so that a search never mixes two moments.
create or replace function holdfast.nearest_chunks(p_owner text, p_embedder text, p_vector real[], p_limit int)
returns table (version uuid, number int, similarity float8)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  v_schema text := holdfast.vector_schema();
begin
  if v_schema is null then
    return query
    select c.version, c.number, c.similarity from (
      select c.version, c.number, (select sum(v.a::float8 * v.b) from unnest(c.embedding, p_vector) v(a, b)) as similarity
      from holdfast.chunk c
      where c.embedder = p_embedder and c.dimensions = cardinality(p_vector) and (p_owner is null or c.owner = p_owner)
        and holdfast.is_current(c.version)) c
    order by c.similarity desc, c.version, c.number limit p_limit;
    return;
  end if;
  return query execute format(
    'select c.version, c.number, 1 - (c.vector::%1$I.vector(%2$s) operator(%1$I.<=>) $1::%1$I.vector(%2$s))'
    ' from holdfast.chunk c where c.dimensions = %2$s and c.embedder = $2 and ($3 is null or c.owner = $3)'
    '   and holdfast.is_current(c.version)'
    ' order by c.vector::%1$I.vector(%2$s) operator(%1$I.<=>) $1::%1$I.vector(%2$s) limit $4',
    v_schema, cardinality(p_vector)) using p_vector, p_embedder, p_owner, p_limit;
end $$;

do $$ begin perform holdfast.use_vectors(); end $$;
