-- params.sql: whether the parameters given by name are those that were declared. Called by packages that start declared work.

-- Raise TK010 for a parameter that nobody takes, that has another kind of value, or that is needed and missing. `p_params`:
-- of each its kinds of values, the least and the most of a number, and whether it is needed; `**` takes all others.
create or replace function holdfast.check_params(p_name text, p_params jsonb, p_given jsonb, p_settings jsonb) returns void
language sql
as $$
  select holdfast.refuse('TK010', 'Parameters are an object.', 'Write {"name": value}.')
  where jsonb_typeof(p_given) is distinct from 'object';
  select holdfast.refuse('TK010', string_agg(w.what, '; ' order by w.what) || '.', format('%s takes: %s.', p_name, coalesce(
    (select string_agg(k.key, ', ' order by k.key) from jsonb_object_keys(p_params - '**') k(key)), 'nothing')))
  from (
    select format('%s is not a parameter of %s', quote_literal(g.key), p_name) as what
    from jsonb_each(p_given) g where not p_params ? g.key and not p_params ? '**'
    union all
    select format('%s is a %s, and not %s', g.key, jsonb_typeof(g.value), (
             select string_agg(k, ' or ') from jsonb_array_elements_text(n.takes -> 'kinds') k))
    from jsonb_each(p_given) g
    cross join lateral (select coalesce(p_params -> g.key, p_params -> '**') as takes) n
    where not holdfast.is_kind(g.value, n.takes -> 'kinds')
    union all
    select format('%s is %s, and from %s to %s is taken', g.key, g.value, coalesce(n.takes ->> 'least', 'any'),
                  coalesce(n.takes ->> 'most', 'any'))
    from jsonb_each(p_given) g
    cross join lateral (select p_params -> g.key as takes) n
    where jsonb_typeof(g.value) = 'number' and not (g.value #>> '{}')::numeric between
      coalesce((n.takes ->> 'least')::numeric, '-Infinity') and coalesce((n.takes ->> 'most')::numeric, 'Infinity')
    union all
    select format('%s is missing', n.key) from jsonb_each(p_params) n
    where (n.value ->> 'needed')::bool and not p_given ? n.key and not p_settings ? n.key) w
  having count(*) > 0
$$;

-- Whether a value is of one of these kinds. A whole number may be written with a point.
create or replace function holdfast.is_kind(p_value jsonb, p_kinds jsonb) returns bool
language sql immutable
as $$
  select p_kinds ? jsonb_typeof(p_value)
    or (jsonb_typeof(p_value) = 'number' and p_kinds ? 'integer' and (p_value #>> '{}')::numeric % 1 = 0)
$$;
