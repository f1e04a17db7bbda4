-- User tasks: what can be asked for, the files of each task, what is owed for it, and what is to be deleted when.
-- No file's content is kept here, parameters and results included: only where it is.

create table holdfast.tool (
  id text primary key check (id ~ '^[a-z0-9][a-z0-9-]{0,99}$'),
  title text not null,
  agents jsonb not null,  -- in the order in which they run: {name, title, credits, needs_baseline}
  defined_at timestamptz not null default holdfast.now()
);

-- One row per task, from its birth on, with what each of its agents costs. What is reserved is set aside in its owner's
-- wallet until it is charged or released.
create table holdfast.analysis (
  task_id uuid primary key,
  owner text not null,
  prices jsonb not null,
  reserved int not null default 0 check (reserved >= 0),
  charged int not null default 0 check (charged >= 0)
);

-- What the client said it would upload, where it was told to, and, once frozen, what the workers read.
create table holdfast.analysis_file (
  task_id uuid not null,
  role text not null check (role in ('primary', 'baseline', 'parameters')),
  upload_key text not null,
  filename text not null,
  content_type text not null,
  size bigint,
  sha256 text,
  input_key text,
  bytes bigint,
  primary key (task_id, role)
);

-- Credits of one owner: what can be spent, is set aside, and was spent. The three are what the ledger sums up to.
create table holdfast.wallet (
  owner text primary key check (length(owner) <= 200),
  balance bigint not null default 0 constraint a_wallet_is_never_negative check (balance >= 0),
  reserved bigint not null default 0 constraint what_is_reserved_is_never_negative check (reserved >= 0),
  spent bigint not null default 0 check (spent >= 0),
  opened_at timestamptz not null default holdfast.now()
);

-- Double entry: every transfer is two rows that sum to zero. Rows are only ever added.
create table holdfast.ledger (
  id bigint primary key generated always as identity,
  transfer uuid not null,
  at timestamptz not null default holdfast.now(),
  kind text not null check (kind in ('top_up', 'reserve', 'charge', 'release')),
  owner text not null references holdfast.wallet,
  account text not null check (account in ('issued', 'balance', 'reserved', 'spent')),
  credits bigint not null check (credits <> 0),
  task_id uuid,
  agent text,
  by text,
  unique (transfer, account)
);
create index ledger_owner on holdfast.ledger (owner, id);
create index ledger_task on holdfast.ledger (task_id) where task_id is not null;
-- An agent of a task is charged once, whoever asks.
create unique index ledger_charge on holdfast.ledger (task_id, agent) where kind = 'charge' and account = 'spent';

-- A top-up with a key counts once.
create table holdfast.top_up_key (
  owner text not null,
  key text not null,
  credits bigint not null,
  transfer uuid not null,
  primary key (owner, key)
);

-- Objects to delete, until when they are kept, and when to try next. A row stays when it is done: it says that they are gone.
create table holdfast.cleanup (
  id uuid primary key default holdfast.uuid7(),
  task_id uuid not null,
  prefix text not null,
  kept_until timestamptz not null,
  due_at timestamptz not null,
  tries int not null default 0,
  error text,
  objects bigint,
  done_at timestamptz
);
create index cleanup_due on holdfast.cleanup (due_at, id) where done_at is null;
create index cleanup_task on holdfast.cleanup (task_id);

-- The bodies are those of sql/wallet.sql, which every release brings anew.
create function holdfast.check_transfers() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.refuse_ledger() returns trigger language plpgsql as 'begin return null; end';

create trigger check_transfers after insert on holdfast.ledger
referencing new table as added for each statement execute function holdfast.check_transfers();
create trigger refuse_ledger before update or delete on holdfast.ledger
for each row execute function holdfast.refuse_ledger();
