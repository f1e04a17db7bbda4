-- datasets.sql: files under a name, version by version.

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

-- A new version of a dataset, made of these files ([{uri, name}]), and current from here on. One after the other: whoever
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
  elsif p_name is null or length(p_name) not between 1 and 200 or p_owner is null then
    perform holdfast.refuse('TK010', 'A dataset has a name of 1 to 200 characters.', 'Give it a short name.');
  end if;
  perform holdfast.check_addresses(array(select f ->> 'uri' from jsonb_array_elements(p_files) f), p_owner);
  insert into holdfast.dataset as d (owner, name, version) values (p_owner, p_name, 1)
  on conflict (owner, name) do update set version = d.version + 1
  returning d.id, d.version into dataset_id, version;
  insert into holdfast.dataset_version (dataset_id, version, files, made_by)
  values (make_dataset.dataset_id, make_dataset.version, jsonb_array_length(p_files), coalesce(p_by, ''));
  insert into holdfast.dataset_file (dataset_id, version, number, uri, name)
  select make_dataset.dataset_id, make_dataset.version, f.number, f.one ->> 'uri', coalesce(f.one ->> 'name', f.one ->> 'uri')
  from jsonb_array_elements(p_files) with ordinality f(one, number);
end $$;

-- Datasets by their names, from one on; those of one owner, or of all.
create or replace function holdfast.read_datasets(
  p_owner text default null, p_id uuid default null, p_name text default null, p_after text default null, p_limit int default 50)
returns setof jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
  select jsonb_build_object('dataset_id', d.id, 'name', d.name, 'owner', d.owner, 'version', d.version, 'files', v.files,
                            'made_at', v.made_at, 'made_by', v.made_by, 'created_at', d.created_at)
  from holdfast.dataset d
  join holdfast.dataset_version v on v.dataset_id = d.id and v.version = d.version
  where (p_owner is null or d.owner = p_owner) and (p_id is null or d.id = p_id) and (p_name is null or d.name = p_name)
    and (p_after is null or d.name > p_after)
  order by d.name, d.id limit least(p_limit, 1000)
$$;

-- The files of a version, in their order.
create or replace function holdfast.dataset_files(p_id uuid, p_version int, p_after int default 0, p_limit int default 1000)
returns table (number int, uri text, name text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select f.number, f.uri, f.name from holdfast.dataset_file f
  where f.dataset_id = p_id and f.version = p_version and f.number > p_after order by f.number limit least(p_limit, 100000)
$$;

grant execute on function holdfast.make_dataset(text, text, jsonb, text), holdfast.read_datasets(text, uuid, text, text, int),
  holdfast.dataset_files(uuid, int, int, int) to holdfast_app;
