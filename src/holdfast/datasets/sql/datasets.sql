-- datasets.sql: files under a name, generation by generation: uploaded, looked at, and put into the place of one another.
-- Locks the tasks of a run that is to stop, then the dataset's row. Reading locks nothing: one statement sees one generation.

-- Raise TK010 for an address that is not this owner's to name: files of the server are for who sits at it, and objects for
-- who has uploaded them.
create or replace function holdfast.check_addresses(p_uris text[], p_owner text) returns void
language plpgsql stable
as $$
begin
  if p_owner <> '' and exists (select from unnest(p_uris) u where u ~* '^\s*file:') then
    perform holdfast.refuse('TK010', 'Files of the server are not yours to name.', 'Upload it: POST /ingest/uploads.');
  elsif exists (select from unnest(p_uris) u where u ~* '^\s*object:'
                and not starts_with(u, 'object:' || holdfast.owner_folder(p_owner) || '/ingest/')) then
    perform holdfast.refuse('TK010', 'This object is not yours.', 'Take the uri that POST /ingest/uploads has answered.');
  end if;
end $$;

-- A new version of a dataset, made of these files ([{uri, name}]), and current from here on. One after the other: a caller that
-- makes the next version waits for the dataset's row.
create or replace function holdfast.make_dataset(
  p_owner text, p_name text, p_files jsonb, p_by text default '', out dataset_id uuid, out version int)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if jsonb_typeof(p_files) is distinct from 'array' or jsonb_array_length(p_files) = 0 then
    perform holdfast.refuse('TK010', 'A dataset without files is none.', 'Name at least one file.');
  elsif exists (select from jsonb_array_elements(p_files) f where jsonb_typeof(f -> 'uri') is distinct from 'string') then
    perform holdfast.refuse('TK010', 'Each file of a dataset has a uri.', 'Write [{"uri": "https://..."}].');
  end if;
  perform holdfast.check_addresses(array(select f ->> 'uri' from jsonb_array_elements(p_files) f), p_owner);
  select n.dataset_id, n.version into dataset_id, version from holdfast.begin_generation(p_owner, p_name, 'upload', p_by) n;
  insert into holdfast.dataset_file (dataset_id, version, number, uri, name)
  select make_dataset.dataset_id, make_dataset.version, f.number, f.one ->> 'uri', coalesce(f.one ->> 'name', f.one ->> 'uri')
  from jsonb_array_elements(p_files) with ordinality f(one, number);
  perform holdfast.complete_generation(dataset_id, version);
  perform holdfast.make_current(dataset_id, version, 'published', p_by);
end $$;

-- Let this generation be current. Answers what was before. Raises TK040 if there is none, TK041 if it is not complete.
create or replace function holdfast.cutover_dataset(p_id uuid, p_version int, p_by text default '', out version int, out before int)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
  v_one holdfast.dataset_version;
begin
  before := holdfast.lock_dataset(p_id);
  v_one := holdfast.generation(p_id, p_version);
  version := p_version;
  if v_one.state = 'current' then
    before := coalesce(v_one.follows, 0);
    return;
  elsif v_one.completed_at is null then
    perform holdfast.refuse('TK041', format('Generation %s is %s, and not complete.%s', p_version, replace(v_one.state, '_', ' '),
      coalesce(' ' || v_one.reason, '')), case v_one.state when 'building' then 'Wait until its run is over.' else 'Retry its run.' end);
  end if;
  perform holdfast.make_current(p_id, p_version, 'cutover', p_by);
end $$;

-- Take a generation back. The current one (or none is named): the one that was current before is so again. One that is being
-- built: its run is cancelled. One that waits to be current: it waits no more. Answers it, and which is current now.
create or replace function holdfast.rollback_dataset(
  p_id uuid, p_version int default null, p_by text default '', out version int, out state text, out current_version int)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
#variable_conflict use_variable
declare
  v_one holdfast.dataset_version;
  v_before int;
begin
  if p_version is not null then
    v_one := holdfast.generation(p_id, p_version);
    if v_one.state = 'building' and v_one.run is not null
       and exists (select from holdfast.task t where t.id = v_one.run) then  -- tasks before datasets
      perform holdfast.cancel(v_one.run, format('Generation %s is rolled back.', p_version), nullif(p_by, ''));
    end if;
  end if;
  current_version := holdfast.lock_dataset(p_id);
  version := coalesce(p_version, current_version);
  if version = 0 then
    perform holdfast.refuse('TK041', 'This dataset has no current generation yet.', 'Name the one that is being built.');
  end if;
  v_one := holdfast.generation(p_id, version);
  if v_one.state = 'current' then
    select v.version into v_before from holdfast.dataset_version v
    where v.dataset_id = p_id and v.state = 'superseded' and v.published_at is not null
    order by v.stood_down desc nulls last, v.version desc limit 1;
    if not found then
      perform holdfast.refuse('TK041', format('Before generation %s there is none to go back to.', version),
                              'Publish another one, or cut over to one that was rolled back.');
    end if;
    perform holdfast.make_current(p_id, v_before, 'rollback', p_by);
    current_version := v_before;
  elsif v_one.state in ('building', 'ready') then
    perform holdfast.end_generation(p_id, version, 'rolled_back', 'It was rolled back' || coalesce(' by ' || nullif(p_by, ''), '') || '.');
  elsif v_one.state <> 'rolled_back' then
    perform holdfast.refuse('TK041', format('Generation %s is %s: there is nothing to take back.', version, v_one.state),
                            format('The current one is %s.', current_version));
  end if;
  state := 'rolled_back';
end $$;

-- The current version of a dataset, which is locked against every other change. Raises TK040.
create or replace function holdfast.lock_dataset(p_id uuid) returns int
language plpgsql
as $$
declare
  v_version int;
begin
  perform holdfast.need_read_committed();
  select d.version into v_version from holdfast.dataset d where d.id = p_id for no key update;
  if not found then
    perform holdfast.refuse('TK040', format('There is no dataset %s.', p_id), 'GET /datasets lists them.');
  end if;
  return v_version;
end $$;

create or replace function holdfast.generation(p_id uuid, p_version int) returns holdfast.dataset_version
language plpgsql
as $$
declare
  v_one holdfast.dataset_version;
begin
  select * into v_one from holdfast.dataset_version v where v.dataset_id = p_id and v.version = p_version;
  if not found then
    perform holdfast.refuse('TK040', format('There is no generation %s, or it is not kept any more.', p_version),
                            'GET /datasets/{name} lists the generations.');
  end if;
  return v_one;
end $$;

-- Datasets by their names, from one on; those of one owner, or of all. One without a generation to read has version 0.
create or replace function holdfast.read_datasets(
  p_owner text default null, p_id uuid default null, p_name text default null, p_after text default null, p_limit int default 50)
returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select jsonb_build_object('dataset_id', d.id, 'name', d.name, 'owner', d.owner, 'version', d.version, 'files', coalesce(v.files, 0),
                            'made_at', coalesce(v.made_at, d.created_at), 'made_by', coalesce(v.made_by, ''), 'created_at', d.created_at,
                            'row_count', v.row_count, 'bytes', v.bytes)
  from holdfast.dataset d
  left join holdfast.dataset_version v on v.dataset_id = d.id and v.version = d.version
  where (p_owner is null or d.owner = p_owner) and (p_id is null or d.id = p_id) and (p_name is null or d.name = p_name)
    and (p_after is null or d.name > p_after)
  order by d.name, d.id limit least(p_limit, 1000)
$$;

-- A generation whole: the current one, or one that is named, with its files from a number on. At most so many, and at most some
-- eight megabytes of rows; `next` is where to go on, with this version. Null if there is no such dataset, or no such generation
-- that can be read.
create or replace function holdfast.read_dataset(
  p_owner text, p_id uuid default null, p_name text default null, p_version int default null, p_after bigint default 0,
  p_limit int default 1000)
returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  with found as (
    select d.id, d.name, d.owner, d.created_at, v.*
    from holdfast.dataset d
    left join holdfast.dataset_version v on v.dataset_id = d.id and v.version = coalesce(p_version, d.version)
      and v.completed_at is not null
    where (p_owner is null or d.owner = p_owner) and (p_id is null or d.id = p_id) and (p_name is null or d.name = p_name)
      and (p_version is null or v.version is not null)
    order by d.owner, d.id limit 1
  ), file as (
    select f.*, r.rows, sum(case when f.rows_id is null then 0 else f.bytes end) over (order by f.number) as so_far,
           row_number() over (order by f.number) as place
    from found v
    join lateral (
      select * from holdfast.dataset_file f where f.dataset_id = v.dataset_id and f.version = v.version and f.number > p_after
      order by f.number limit least(p_limit, 10000)) f on true
    left join holdfast.dataset_rows r on r.id = f.rows_id
  ), page as (
    select * from file f where f.so_far <= 8388608 or f.place = 1
  )
  select jsonb_build_object(
    'dataset_id', v.id, 'name', v.name, 'owner', v.owner, 'version', coalesce(v.version, 0), 'state', v.state, 'files', coalesce(v.files, 0),
    'row_count', v.row_count, 'bytes', v.bytes, 'schema', v.schema, 'made_at', coalesce(v.made_at, v.created_at),
    'made_by', coalesce(v.made_by, ''), 'created_at', v.created_at, 'published_at', v.published_at,
    'items', coalesce((select jsonb_agg(jsonb_build_object(
      'number', f.number, 'uri', f.uri, 'name', f.name, 'key', f.key, 'mode', f.mode, 'rows', f.rows, 'row_count', f.row_count, 'bytes', f.bytes,
      'task_id', f.task_id, 'attempt', f.attempt, 'version', f.version) order by f.number) from page f), '[]'),
    'next', (select max(f.number) from page f having max(f.number) < (
      select max(o.number) from holdfast.dataset_file o where o.dataset_id = v.id and o.version = v.version)))
  from found v
$$;

-- The generations of a dataset, the newest first, each with what it changed in the columns of the one before it.
create or replace function holdfast.generations(p_id uuid, p_before int default null, p_limit int default 50) returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select to_jsonb(v) - '{dataset_id, runs, stood_down}'::text[] || jsonb_build_object(
    'follows', nullif(v.follows, 0), 'files', coalesce(c.files, v.files),
    'changes', case when b.schema is not null and v.schema is not null then holdfast.schema_changes(b.schema, v.schema) else '[]' end,
    'by', (select u.by from holdfast.dataset_cutover u where u.dataset_id = v.dataset_id and (u.version = v.version or u.before = v.version)
           order by u.number desc limit 1))
  from holdfast.dataset_version v
  left join holdfast.dataset_version b on b.dataset_id = v.dataset_id and b.version = v.follows
  left join lateral (select count(*) as files from holdfast.dataset_file f where f.dataset_id = v.dataset_id and f.version = v.version
                     and v.completed_at is null) c on v.completed_at is null
  where v.dataset_id = p_id and (p_before is null or v.version < p_before)
  order by v.version desc limit least(p_limit, 200)
$$;
