-- search.sql: chunks by their words, by their meaning, or by both. Sees what is published and nothing else.

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
    perform holdfast.refuse('TK010', format('%s is no way to search.', quote_nullable(p_mode)), 'There are text, vector and hybrid.');
  elsif p_limit is null or p_limit not between 1 and 100 then
    perform holdfast.refuse('TK010', 'That many chunks cannot be shown.', 'Ask for 1 to 100.');
  end if;
  perform holdfast.scan_on();
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

grant execute on function holdfast.search_chunks(text, text, real[], text, text, int) to holdfast_app;
