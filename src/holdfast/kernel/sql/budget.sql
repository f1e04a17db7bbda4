-- budget.sql: a rate that many workers share, as a token bucket. Nobody holds a place while waiting for it.
-- Called by workers before they call a provider. Locks the budget's row.

-- `capacity` calls at once, one more `every` so often.
create or replace function holdfast.set_budget(name text, capacity numeric, every interval) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if set_budget.capacity is null or not (set_budget.capacity > 0 and set_budget.capacity < 1e12)
     or set_budget.every is null or set_budget.every <= interval '0' or set_budget.every > interval '36500 days'
     or set_budget.name is null or length(set_budget.name) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'A budget needs a name, a capacity above zero and a time above zero per unit.',
                            'For 60 calls a minute: set_budget(''azure'', 60, ''1 second'').');
  end if;
  insert into holdfast.budget as b (name, capacity, every, tokens, at, line)
  values (set_budget.name, set_budget.capacity, set_budget.every, set_budget.capacity, holdfast.now(), holdfast.now())
  on conflict on constraint budget_pkey do update
    set capacity = excluded.capacity, every = excluded.every, tokens = least(b.tokens, excluded.capacity);
end $$;

-- Take `amount` now, or learn when to come back. Those who come back at different times do not find each other there.
create or replace function holdfast.spend(name text, amount numeric default 1, out granted bool, out retry_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  v_now timestamptz := holdfast.now();
  v_budget holdfast.budget;
  v_tokens numeric;
begin
  select b.* into v_budget from holdfast.budget b where b.name = spend.name for update;
  if not found then
    perform holdfast.refuse_budget(name);
  elsif amount is null or not (amount > 0 and amount <= v_budget.capacity) then
    perform holdfast.refuse('TK010', format('%s cannot be spent from %L, which never holds more than %s.',
                                            coalesce(amount::text, 'null'), name, v_budget.capacity),
                            'Split the work, or raise the capacity.');
  end if;
  v_tokens := least(v_budget.capacity, v_budget.tokens
    + extract(epoch from greatest(v_now - v_budget.at, interval '0')) / extract(epoch from v_budget.every));
  granted := v_tokens >= amount and coalesce(v_budget.blocked_until <= v_now, true);
  if granted then
    v_tokens := v_tokens - amount;
  else
    retry_at := greatest(v_budget.blocked_until, v_now + greatest(amount - v_tokens, 0)::float8 * v_budget.every,
                         v_budget.line + amount::float8 * v_budget.every);
  end if;
  update holdfast.budget b set tokens = v_tokens, at = greatest(v_now, v_budget.at),
    line = greatest(coalesce(retry_at, v_now), b.line)
  where b.name = spend.name;
end $$;

-- The provider said when it will listen again: until then nobody spends.
create or replace function holdfast.block_budget(name text, until timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if block_budget.until is null or not holdfast.is_soon(null, block_budget.until) then
    perform holdfast.refuse('TK010', 'A budget is blocked until a moment within a hundred years.', '');
  end if;
  update holdfast.budget b
  set blocked_until = greatest(b.blocked_until, block_budget.until), tokens = 0,
      at = greatest(b.at, block_budget.until - b.every)
  where b.name = block_budget.name;
  if not found then
    perform holdfast.refuse_budget(block_budget.name);
  end if;
end $$;

create or replace function holdfast.refuse_budget(p_name text) returns void
language sql
as $$
  select holdfast.refuse('TK016', format('Budget %s does not exist.', quote_nullable(p_name)),
    format('Make it with holdfast.set_budget, or use one of: %s.',
           (select coalesce(string_agg(b.name, ', ' order by b.name), 'none') from holdfast.budget b)))
$$;

grant execute on function holdfast.set_budget(text, numeric, interval), holdfast.spend(text, numeric),
  holdfast.block_budget(text, timestamptz) to holdfast_app;
