-- search.sql: chunks by their words, by their meaning, or by both. Sees what is published and nothing else.
-- Where Postgres has pgvector, vectors are kept as such and found by an HNSW index; elsewhere as real[], and every chunk is
-- compared. What is found is the same, but for the few that an approximate index misses.

-- Current chunks with any of these words, the best first: rare words count for more (by how many chunks have them), and words
-- that come often in a chunk for a little more. `share` is what its words weigh of all that were asked for, from 0 to 1.
create or replace function holdfast.matching_chunks(p_owner text, p_query text, p_limit int)
returns table (version uuid, number int, score float8, share float8)
language sql stable
as $$
  with word as materialized (
    select w.lexeme, (quote_literal(replace(w.lexeme, '\', '\\')))::tsquery as query
    from unnest(to_tsvector('pg_catalog.english', p_query)) w limit 32
  ), hit as materialized (
    select w.lexeme, c.version, c.number, ts_rank(c.words, w.query) as often
    from word w cross join lateral (
      select c.version, c.number, c.words from holdfast.chunk c
      where c.words @@ w.query and (p_owner is null or c.owner = p_owner) and holdfast.is_current(c.version) offset 0) c
  ), rare as (
    select w.lexeme, ln(1 + (t.number - n.number + 0.5) / (n.number + 0.5)) as weight
    from word w
    cross join lateral (select count(*) as number from hit h where h.lexeme = w.lexeme) n
    cross join (
      select sum(n.chunks) as number from holdfast.document d join holdfast.document_version n on n.task_id = d.current
      where p_owner is null or d.owner = p_owner) t
  )
  select h.version, h.number, sum(h.often * r.weight)::float8,
         (sum(r.weight) / (select sum(a.weight) from rare a))::float8
  from hit h join rare r on r.lexeme = h.lexeme
  group by h.version, h.number order by 3 desc, h.version, h.number limit p_limit
$$;

-- The best chunks. mode: text, vector, or hybrid, which adds to the similarity a quarter of the share of the words
-- (python -m bench search: by 1/(60 + rank) of both lists a good vector lost to words found by chance). A chunk that is
-- not among the nearest counts as the last of them. A query without a vector is answered by its words.
create or replace function holdfast.search_chunks(
  p_query text, p_embedder text default null, p_vector real[] default null, p_mode text default 'hybrid',
  p_owner text default null, p_limit int default 10)
returns table (document_id uuid, name text, title text, item_id uuid, number int, starts int, ends int, page int, text text,
               score float8, text_rank int, vector_rank int, similarity float8)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
#variable_conflict use_column
declare
  v_pool int := greatest(100, p_limit);
begin
  if p_mode is null or p_mode not in ('text', 'vector', 'hybrid') then
    perform holdfast.refuse('TK010', format('%s is not a way to search.', quote_nullable(p_mode)), 'There are text, vector and hybrid.');
  end if;
  perform holdfast.check_limit(p_limit, 100, 'chunks cannot be shown');
  begin  -- go on through the index until enough have passed the filter (pgvector 0.8); for this transaction
    perform set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '100', true);
  exception when others then
    null;
  end;
  return query
  with by_text as materialized (
    select m.version, m.number, m.share, row_number() over (order by m.score desc, m.version, m.number)::int as place
    from holdfast.matching_chunks(p_owner, p_query, v_pool) m where p_mode <> 'vector'
  ), by_vector as materialized (
    select n.version, n.number, n.similarity,
           row_number() over (order by n.similarity desc, n.version, n.number)::int as place
    from holdfast.nearest_chunks(p_owner, p_embedder, p_vector, v_pool) n
    where p_mode <> 'text' and cardinality(p_vector) > 0
  ), far as materialized (
    select min(v.similarity) as similarity from by_vector v
  ), found as (
    select coalesce(t.version, v.version) as version, coalesce(t.number, v.number) as number, t.place as text_place,
           v.place as vector_place, v.similarity,
           case when f.similarity is null then 1.0::float8 / (60 + t.place)
                else coalesce(v.similarity, f.similarity) + 0.25 * coalesce(t.share, 0) end as score
    from by_text t full join by_vector v on v.version = t.version and v.number = t.number cross join far f
    order by 6 desc, 1, 2 limit p_limit
  )
  select d.id, d.name, n.about ->> 'title', f.version, f.number, c.starts, c.ends, c.page, c.text, f.score, f.text_place,
         f.vector_place, f.similarity
  from found f
  join holdfast.chunk c on c.version = f.version and c.number = f.number
  join holdfast.document_version n on n.task_id = f.version
  join holdfast.document d on d.id = n.document
  order by f.score desc, f.version, f.number;
end $$;

-- The schema of the type `vector`, if chunks are kept with it.
create or replace function holdfast.vector_schema() returns text
language sql stable set search_path = pg_catalog, pg_temp
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
      return;  -- not ours to make: a role that may, makes it and calls this again
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
