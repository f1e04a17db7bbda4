-- price.sql: what models cost, from which moment on. Empty until somebody fills it.
-- Called by operators. What was recorded before keeps the cost that it was recorded with.

-- In cents for a million tokens. The same model and moment again corrects the price for what is still to come.
create or replace function holdfast.set_price(
  p_model text, p_in_cents numeric, p_out_cents numeric, p_since timestamptz default null, p_by text default '')
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
begin
  if p_model is null or length(p_model) not between 1 and 200 or p_model <> btrim(p_model) then
    perform holdfast.refuse('TK010', 'A price is for a model with a name of 1 to 200 characters.',
                            'Write it as your steps report it: usage("some-model", ...).');
  elsif (p_in_cents between 0 and 1e8 and p_out_cents between 0 and 1e8) is not true
     or greatest(min_scale(p_in_cents), min_scale(p_out_cents)) > 10 then
    perform holdfast.refuse('TK010', 'A price is 0 to 100,000,000 cents for a million tokens, with 10 decimals at most.',
                            'For 3 dollars in and 15 dollars out: 300 and 1500.');
  elsif p_since not between '1970-01-01' and '9999-01-01' then
    perform holdfast.refuse('TK010', format('A price does not begin in %s.', extract(year from p_since)), 'Name a day.');
  end if;
  insert into holdfast.price (model, since, in_micros_per_million, out_micros_per_million, set_by, set_at)
  values (p_model, coalesce(p_since, holdfast.now()), p_in_cents * 10000, p_out_cents * 10000, coalesce(left(p_by, 200), ''),
          holdfast.now())
  on conflict (model, since) do update
    set in_micros_per_million = excluded.in_micros_per_million, out_micros_per_million = excluded.out_micros_per_million,
        set_by = excluded.set_by, set_at = excluded.set_at;
end $$;

-- All prices, or those of a model: by model, the newest first. `current` is the one that counts now.
create or replace function holdfast.prices(p_model text default null, p_limit int default 1000)
returns table (model text, since timestamptz, in_cents numeric, out_cents numeric, set_by text, set_at timestamptz,
               current bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select p.model, p.since, trim_scale(p.in_micros_per_million * 0.0001), trim_scale(p.out_micros_per_million * 0.0001),
         p.set_by, p.set_at,
         coalesce(p.since = max(p.since) filter (where p.since <= holdfast.now()) over (partition by p.model), false)
  from holdfast.price p where p_model is null or p.model = p_model
  order by p.model, p.since desc limit least(p_limit, 10000)
$$;
