-- budget.sql: a rate that many workers share, as a token bucket. Nobody holds a place while waiting for it.
-- Called by workers before they call a provider. Locks the budget's row.

-- `capacity` calls at once, one more `every` so often.
create or replace function holdfast.set_budget(name text, capacity numeric, every interval) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
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
    set capacity = excluded.capacity, every = excluded.every, at = greatest(b.at, holdfast.now()),
        tokens = least(excluded.capacity, holdfast.tokens(b));  -- what was saved up until now, at the rate until now
end $$;

-- What is in the bucket at this moment.
create or replace function holdfast.tokens(p_budget holdfast.budget) returns numeric
language sql stable
as $$
  select least((p_budget).capacity, (p_budget).tokens
    + extract(epoch from greatest(holdfast.now() - (p_budget).at, interval '0')) / extract(epoch from (p_budget).every))
$$;

-- Take `amount` now, or learn when to come back: one after the other, so that they do not all come at once. A caller
-- that comes back gives in `told` the time that it got, and if it is refused again it goes to the head of the queue and not to its
-- end. The queue is never longer than five minutes, since not all come back.
create or replace function holdfast.spend(
  name text, amount numeric default 1, told timestamptz default null, out granted bool, out retry_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
#variable_conflict use_variable
declare
  v_now timestamptz := holdfast.now();
  v_budget holdfast.budget;
  v_tokens numeric;
begin
  select b.* into v_budget from holdfast.budget b where b.name = spend.name for update;
  if not found then
    perform holdfast.refuse('TK016', format('Budget %s does not exist.', quote_nullable(name)),
      format('Make it with holdfast.set_budget, or use one of: %s.',
             (select coalesce(string_agg(b.name, ', ' order by b.name), 'none') from holdfast.budget b)));
  elsif amount is null or not (amount > 0 and amount <= v_budget.capacity) then
    perform holdfast.refuse('TK010', format('%s cannot be spent from %L, which never holds more than %s.',
                                            coalesce(amount::text, 'null'), name, v_budget.capacity),
                            'Split the work, or raise the capacity.');
  end if;
  v_tokens := holdfast.tokens(v_budget);
  granted := v_tokens >= amount and coalesce(v_budget.blocked_until <= v_now, true);
  if granted then
    v_tokens := v_tokens - amount;
  else
    retry_at := greatest(v_budget.blocked_until, v_now + greatest(amount - v_tokens, 0)::float8 * v_budget.every);
    if told is null or told > v_now then
      v_budget.line := greatest(retry_at, least(v_budget.line + amount::float8 * v_budget.every,
                                                v_now + interval '5 minutes'));
      retry_at := v_budget.line;
    end if;
  end if;
  update holdfast.budget b set tokens = v_tokens, at = greatest(v_now, v_budget.at), line = v_budget.line
  where b.name = spend.name;
end $$;

-- The provider asks to be left alone: until then nobody spends, also of a budget that nobody has set.
create or replace function holdfast.block_budget(name text, until timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
begin
  if block_budget.until is null or not holdfast.is_soon(null, block_budget.until)
     or block_budget.name is null or length(block_budget.name) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'A budget is blocked by its name until a moment within a hundred years.', '');
  end if;
  perform holdfast.block_budgets(array[block_budget.name], array[block_budget.until]);
end $$;

-- The one rule, for handlers that ask for it and for failures that name a budget. One that nobody has set begins here,
-- with fifty calls a second: a provider has just asked for fewer, so those who waited must not all come back in the same
-- moment, and one worker alone does not notice that rate. Who may call more often sets the budget.
create or replace function holdfast.block_budgets(p_name text[], p_until timestamptz[]) returns void
language sql
as $$
  insert into holdfast.budget as b (name, capacity, every, tokens, at, line, blocked_until)
  select i.name, 50, interval '20 ms', 0, max(i.until) - interval '20 ms', max(i.until), max(i.until)
  from unnest(p_name, p_until) i(name, until) group by 1 order by 1
  on conflict (name) do update set
    blocked_until = greatest(b.blocked_until, excluded.blocked_until), tokens = 0,
    at = greatest(b.at, excluded.blocked_until - b.every)
$$;
