-- Datasets: files under a name, of one owner. A version never changes; the newest one that was published is current.
create table holdfast.dataset (
  id uuid primary key default holdfast.uuid7(),
  owner text not null,
  name text not null check (length(name) between 1 and 200),
  version int not null,
  created_at timestamptz not null default holdfast.now(),
  unique (owner, name)
);

create table holdfast.dataset_version (
  dataset_id uuid not null references holdfast.dataset on delete cascade,
  version int not null,
  files int not null,
  made_at timestamptz not null default holdfast.now(),
  made_by text not null default '',
  primary key (dataset_id, version)
);

create table holdfast.dataset_file (
  dataset_id uuid not null,
  version int not null,
  number int not null,
  uri text not null,
  name text not null,
  primary key (dataset_id, version, number),
  foreign key (dataset_id, version) references holdfast.dataset_version on delete cascade
);
