-- wallet.sql: credits. A wallet is the sum of its ledger; a transfer that would make it negative is refused.
-- Called by the effects of tasks, in the transaction of their transition, and for operators. Locks the wallet's row.

-- Move credits between two accounts of one owner: in from outside (top_up), or those of a task, which are reserved when it is
-- queued, charged agent by agent, and released however it ends. An agent's step is written once, and so is its charge. The
-- wallet is locked. Answers the id of the transfer; null if there is nothing to move.
create or replace function holdfast.transfer(
  p_kind text, p_owner text, p_credits bigint, p_task uuid default null, p_agent text default null, p_by text default null)
returns uuid
language plpgsql
as $$
declare
  v_transfer uuid := holdfast.uuid7();
  v_from text := case p_kind when 'top_up' then 'issued' when 'reserve' then 'balance' else 'reserved' end;
  v_to text := case p_kind when 'reserve' then 'reserved' when 'charge' then 'spent' else 'balance' end;
  v_reserved bigint := p_credits * ((v_to = 'reserved')::int - (v_from = 'reserved')::int);
  v_spent bigint := p_credits * (v_to = 'spent')::int;
begin
  if p_credits > 0 is not true then
    return null;
  end if;
  update holdfast.analysis a set reserved = a.reserved + v_reserved, charged = a.charged + v_spent where a.task_id = p_task;
  update holdfast.wallet w
  set balance = w.balance + p_credits * ((v_to = 'balance')::int - (v_from = 'balance')::int),
      reserved = w.reserved + v_reserved, spent = w.spent + v_spent
  where w.owner = p_owner;
  insert into holdfast.ledger (transfer, kind, owner, account, credits, task_id, agent, by)
  values (v_transfer, p_kind, p_owner, v_from, -p_credits, p_task, p_agent, p_by),
         (v_transfer, p_kind, p_owner, v_to, p_credits, p_task, p_agent, p_by);
  return v_transfer;
end $$;

create or replace function holdfast.check_transfers() returns trigger
language plpgsql
as $$
begin
  if exists (select from added a group by a.transfer having sum(a.credits) <> 0 or count(*) <> 2) then
    raise exception 'A transfer of the ledger does not sum to zero.'
      using errcode = 'TK002', hint = 'Credits are moved by the functions of the schema holdfast.';
  end if;
  return null;
end $$;

create or replace function holdfast.refuse_ledger() returns trigger
language plpgsql
as $$
begin
  raise exception 'Rows of the ledger are never changed.'
    using errcode = 'TK002', hint = 'Correct a mistake by another transfer.';
end $$;

-- Open a wallet with this many credits, unless there is one.
create or replace function holdfast.open_wallet(p_owner text, p_credits bigint, p_by text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform holdfast.check_credits(p_owner, p_credits);
  insert into holdfast.wallet (owner) values (p_owner) on conflict do nothing;
  if found then
    perform holdfast.transfer('top_up', p_owner, p_credits, p_by => p_by);
  end if;
end $$;

-- Add credits; opens the wallet if there is none. With a key it counts once: the same again changes nothing.
-- Answers whether credits were added by this call.
create or replace function holdfast.top_up(p_owner text, p_credits bigint, p_by text, p_key text default null) returns bool
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_before bigint;
  v_transfer uuid;
begin
  perform holdfast.check_credits(p_owner, p_credits);
  if length(p_key) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'An idempotency key has 1 to 200 characters.', 'Take a hash of what makes the request unique.');
  end if;
  insert into holdfast.wallet (owner) values (p_owner) on conflict do nothing;
  perform w.owner from holdfast.wallet w where w.owner = p_owner for update;
  select k.credits into v_before from holdfast.top_up_key k where k.owner = p_owner and k.key = p_key;
  if found then
    if v_before <> p_credits then
      perform holdfast.refuse('TK019', format('Key %L: another amount was added with it.', p_key),
                              'Use a new key for a new top-up.');
    end if;
    return false;
  end if;
  v_transfer := holdfast.transfer('top_up', p_owner, p_credits, p_by => p_by);
  if p_key is not null then
    insert into holdfast.top_up_key (owner, key, credits, transfer) values (p_owner, p_key, p_credits, v_transfer);
  end if;
  return true;
end $$;

create or replace function holdfast.check_credits(p_owner text, p_credits bigint) returns void
language plpgsql immutable
as $$
begin
  if p_credits is null or p_credits not between 1 and 1000000000000 then
    perform holdfast.refuse('TK010', format('%s credits cannot be added.', coalesce(p_credits::text, 'null')),
                            'Add 1 to 1000000000000.');
  elsif p_owner is null or length(p_owner) > 200 then
    perform holdfast.refuse('TK010', 'The name of an owner has at most 200 characters.', 'Take an id.');
  end if;
end $$;

-- A wallet and its newest transfers, each listed once, as it changed what can be spent, is set aside, or was spent.
create or replace function holdfast.read_wallet(p_owner text, p_before bigint default null, p_limit int default 50) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
  v_wallet jsonb;
begin
  select jsonb_build_object('owner', w.owner, 'balance', w.balance, 'reserved', w.reserved, 'spent', w.spent)
    into v_wallet
  from holdfast.wallet w where w.owner = p_owner;
  if not found then
    perform holdfast.refuse('TK026', format('%L has no wallet.', p_owner), 'An operator opens one with a top-up.');
  end if;
  return v_wallet || (
    select jsonb_build_object('entries', coalesce(jsonb_agg(to_jsonb(e) order by e.id desc), '[]'),
                              'next', case when count(*) = p_limit then min(e.id) end)
    from (select l.id, l.at, l.kind, l.credits, l.account as to, o.account as "from", l.task_id, l.agent, l.by
          from holdfast.ledger l join holdfast.ledger o on o.transfer = l.transfer and o.credits < 0
          where l.owner = p_owner and l.credits > 0 and (p_before is null or l.id < p_before)
          order by l.id desc limit p_limit) e);
end $$;
