-- Generations: a version is built, then current, then superseded. `dataset.version` is the current one, 0 while there is
-- none; `newest` is the last number that was given. A version that is complete never changes.
alter table holdfast.dataset
  add column newest int,
  add column changes int not null default 0;
update holdfast.dataset set newest = version;
alter table holdfast.dataset
  alter column newest set not null,
  alter column version set default 0,
  add constraint the_current_version_was_given check (version between 0 and newest);

alter table holdfast.dataset_version
  add column state text not null default 'building'
    check (state in ('building', 'ready', 'current', 'superseded', 'failed', 'rolled_back')),
  add column origin text not null default 'upload' check (origin in ('upload', 'task', 'run')),
  add column run uuid,  -- whose tasks build it
  add column runs uuid[] not null default '{}',  -- it, and those that it took it over from
  add column extends bool not null default false,
  add column cutover text not null default 'auto' check (cutover in ('auto', 'manual')),
  add column follows int,  -- what was current before it
  add column schema jsonb,
  add column row_count bigint,
  add column bytes bigint,
  add column reason text,
  add column completed_at timestamptz,
  add column published_at timestamptz,
  add column ended_at timestamptz,
  add column stood_down int,  -- which change of the dataset it was, when another took its place
  add column kept_until timestamptz,
  alter column files set default 0,
  add constraint whoever_can_be_read_is_complete
    check (completed_at is not null or state in ('building', 'failed', 'rolled_back'));
create unique index dataset_version_current on holdfast.dataset_version (dataset_id) where state = 'current';
create unique index dataset_version_run on holdfast.dataset_version (run, dataset_id) where run is not null;
create index dataset_version_runs on holdfast.dataset_version using gin (runs);
create index dataset_version_kept on holdfast.dataset_version (kept_until) where kept_until is not null;

-- Numbers of what is being built are higher than any place in a list, until it is complete.
create sequence holdfast.dataset_file_number start 1000000000000;

drop function if exists holdfast.dataset_files(uuid, int, int, int);
alter table holdfast.dataset_file
  alter column number type bigint,
  alter column uri drop not null,
  add column key text,
  add column mode text not null default 'replace' check (mode in ('replace', 'append')),
  add column task_id uuid,
  add column attempt int,
  add column token uuid,
  add column rows_id uuid,
  add column schema jsonb,
  add column row_count bigint,
  add column bytes bigint,
  add column folder text generated always as (substring(uri from '^object:(tables/[0-9a-f-]{36})/')) stored,
  add constraint a_file_is_somewhere check ((uri is null) <> (rows_id is null));
create unique index dataset_file_key on holdfast.dataset_file (dataset_id, version, key) where key is not null;
create index dataset_file_folder on holdfast.dataset_file (folder) where folder is not null;
create index dataset_file_rows on holdfast.dataset_file (rows_id) where rows_id is not null;

-- Rows that came with an output, kept once for all generations that have them.
create table holdfast.dataset_rows (
  id uuid primary key,
  dataset_id uuid not null references holdfast.dataset on delete cascade,
  rows jsonb not null
);
create index dataset_rows_dataset on holdfast.dataset_rows (dataset_id);

-- The schema of what is being built: the first output that has one decides. Apart from the version's own row, which whoever
-- ends the run locks after its task.
create table holdfast.dataset_schema (
  dataset_id uuid not null,
  version int not null,
  schema jsonb not null,
  primary key (dataset_id, version),
  foreign key (dataset_id, version) references holdfast.dataset_version on delete cascade
);

-- What became current when, and by whose word.
create table holdfast.dataset_cutover (
  dataset_id uuid not null,
  number int not null,
  version int not null,
  before int not null,
  kind text not null check (kind in ('published', 'cutover', 'rollback')),
  at timestamptz not null default holdfast.now(),
  by text not null default '',
  primary key (dataset_id, number),
  foreign key (dataset_id, version) references holdfast.dataset_version on delete cascade
);
create index dataset_cutover_version on holdfast.dataset_cutover (dataset_id, version);

-- The outputs of an accepted completion, as a hash: the same again is answered the same.
create table holdfast.delivery (
  task_id uuid primary key,
  hash bytea not null,
  outputs int not null,
  dropped int not null default 0,
  at timestamptz not null default holdfast.now()
);
create index delivery_at on holdfast.delivery (at);

update holdfast.dataset_version v set
  state = case when d.version = v.version then 'current' else 'superseded' end,
  completed_at = v.made_at, published_at = v.made_at
from holdfast.dataset d where d.id = v.dataset_id;

-- Rules over rows. The bodies are those of sql/enforce.sql, which every release brings anew.
create function holdfast.check_version() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.check_files() returns trigger language plpgsql as 'begin return null; end';
create function holdfast.check_current() returns trigger language plpgsql as 'begin return null; end';
create trigger check_version before insert or update or delete on holdfast.dataset_version
for each row execute function holdfast.check_version();
create trigger check_files before insert or update or delete on holdfast.dataset_file
for each row execute function holdfast.check_files();
create constraint trigger check_current after insert or update on holdfast.dataset_version
deferrable initially deferred for each row execute function holdfast.check_current();
create constraint trigger check_current after insert or update on holdfast.dataset
deferrable initially deferred for each row execute function holdfast.check_current();

-- An output as it is to be written: its place in the call, and by which attempt of which task.
create type holdfast.output as (
  place bigint,
  task_id uuid,
  attempt int,
  token uuid,
  owner text,
  dataset text,
  key text,
  mode text,
  uri text,
  rows jsonb,
  schema jsonb,
  row_count bigint,
  bytes bigint
);
