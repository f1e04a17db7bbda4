-- deliver.sql: complete with outputs, in one transaction: what an attempt has made is published by its accepted completion.
-- Called by workers. Locks the tasks as complete does; then, for what belongs to no run, the rows of its datasets by owner and
-- name. What a run builds is written before its task ends, since the run may end with it; it locks nothing that a run's end locks.

-- outputs: {dataset, key?, mode?, uri or rows, schema?, row_count?, bytes?}. status: as complete; a repeat whose outputs are
-- others is stale. What is lost or stale has written nothing at all. Raises TK042 for outputs that cannot be published, and then
-- nothing of the call was written.
create or replace function holdfast.deliver(
  p_id uuid[], p_attempt int[], p_token uuid[], p_outcome text[], p_category text[] default null,
  p_step text[] default null, p_delay interval[] default null, p_body jsonb[] default null,
  p_event_task uuid[] default '{}', p_event_kind text[] default '{}', p_event_step text[] default null,
  p_event_data jsonb[] default null, p_output_task uuid[] default '{}', p_output jsonb[] default '{}')
returns table (task_id uuid, status text, state text, version int, attempt int, due_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_held uuid[];
  v_dropped uuid[] := '{}';
  v_outside holdfast.output[] := '{}';
  v_one holdfast.output;
  v_target record;
begin
  perform holdfast.need_read_committed();
  perform holdfast.check_lengths(coalesce(cardinality(p_output), 0), coalesce(cardinality(p_output_task), 0));
  if exists (select from unnest(p_output_task) o(id) left join unnest(p_id, p_outcome) i(id, outcome) on i.id = o.id
             where i.outcome is distinct from 'done') then
    perform holdfast.refuse('TK042', 'Only a task that is done has outputs.', 'Leave them out, or end it as done.');
  end if;
  perform holdfast.lock_children(p_id);
  perform from (select distinct unnest(p_id) as id order by 1 desc) i
  cross join lateral (select from holdfast.task t where t.id = i.id for update) t;
  select array_agg(t.id) into v_held from unnest(p_id, p_attempt, p_token) i(id, attempt, token)
  join holdfast.task t on t.id = i.id and t.attempt = i.attempt and t.lease_token = i.token;

  for v_one in select o.* from holdfast.read_outputs(v_held, p_output_task, p_output) o
               order by o.owner, o.dataset, o.key, o.task_id loop
    select * into v_target from holdfast.output_target(v_one.task_id, v_one.owner, v_one.dataset);
    if v_target.kind = 'outside' then
      v_outside := v_outside || v_one;
    elsif v_target.kind = 'dropped' then
      v_dropped := v_dropped || v_one.task_id;
    else
      perform holdfast.check_schema(v_target.dataset_id, v_target.version, v_one);
      perform holdfast.write_output(v_target.dataset_id, v_target.version, v_one);
    end if;
  end loop;
  insert into holdfast.delivery (task_id, hash, outputs, dropped)
  select o.id, holdfast.outputs_hash(array_agg(o.one order by o.place)), count(*),
         (select count(*) from unnest(v_dropped) d(id) where d.id = o.id)
  from unnest(p_output_task, p_output) with ordinality o(id, one, place) where o.id = any (v_held) group by o.id;

  return query
  select c.task_id, case when c.status = 'repeat' and d.hash is distinct from (
           select holdfast.outputs_hash(array_agg(o.one order by o.place))
           from unnest(p_output_task, p_output) with ordinality o(id, one, place) where o.id = c.task_id)
         then 'stale' else c.status end, c.state, c.version, c.attempt, c.due_at
  from holdfast.complete(p_id, p_attempt, p_token, p_outcome, p_category, p_step, p_delay, p_body, p_event_task,
                         p_event_kind, p_event_step, p_event_data) c
  left join holdfast.delivery d on d.task_id = c.task_id;
  perform holdfast.publish_outside(v_outside);
end $$;

create or replace function holdfast.outputs_hash(p_outputs jsonb[]) returns bytea
language sql stable
as $$ select holdfast.body_hash(to_jsonb(p_outputs)) where cardinality(p_outputs) > 0 $$;

-- The outputs of those tasks that are held, as they are to be written. Raises TK042 or TK018.
create or replace function holdfast.read_outputs(p_held uuid[], p_task uuid[], p_output jsonb[]) returns setof holdfast.output
language plpgsql
as $$
declare
  v_one record;
  v_made holdfast.output;
  v_seen text[] := '{}';
  v_key text;
begin
  for v_one in
    select o.one, t.name, t.owner, jsonb_build_object(
      'place', o.place, 'task_id', t.id, 'attempt', t.attempt, 'token', t.lease_token, 'owner', t.owner) as ours
    from unnest(p_task, p_output) with ordinality o(id, one, place) join holdfast.task t on t.id = o.id
    where t.id = any (p_held) order by o.place
  loop
    perform holdfast.check_output(v_one.one, v_one.owner);
    v_made := jsonb_populate_record(null::holdfast.output, v_one.one || v_one.ours);  -- ours last: no output names its owner
    v_made.mode := coalesce(v_made.mode, 'replace');
    v_made.key := coalesce(v_made.key, case v_made.mode when 'append' then v_made.task_id::text else v_one.name end);
    v_key := jsonb_build_array(v_made.task_id, v_made.dataset, v_made.key)::text;
    if v_key = any (v_seen) then
      perform holdfast.refuse('TK042', format('Two outputs of one task go to %s under the key %s.', v_made.dataset, v_made.key),
                              'Give each a key of its own: output("prices", rows, key="monday").');
    end if;
    v_seen := v_seen || v_key;
    v_made.row_count := coalesce(jsonb_array_length(v_made.rows), v_made.row_count);
    v_made.bytes := coalesce(octet_length(v_made.rows::text), v_made.bytes);
    return next v_made;
  end loop;
end $$;

-- Raise TK042 for what is no output, TK018 for rows that are too many, TK010 for an address that is not this owner's.
create or replace function holdfast.check_output(p_output jsonb, p_owner text) returns void
language plpgsql stable
as $$
declare
  v_uri text := p_output ->> 'uri';
  v_rows jsonb := nullif(p_output -> 'rows', 'null');
  v_schema jsonb := nullif(p_output -> 'schema', 'null');
  v_wrong text;
begin
  v_wrong := case
    when jsonb_typeof(p_output) is distinct from 'object' then 'An output is an object.'
    when exists (select from jsonb_each(p_output) f where f.key in ('dataset', 'key', 'mode', 'uri')
                 and jsonb_typeof(f.value) not in ('string', 'null')) then 'dataset, key, mode and uri of an output are texts.'
    when coalesce(p_output ->> 'dataset', '') !~ '^[^\s/]([^/]*[^\s/])?$' or length(p_output ->> 'dataset') > 200
      then 'An output names its dataset, with 1 to 200 characters and no slash.'
    when coalesce(p_output ->> 'mode', 'replace') not in ('replace', 'append') then 'The mode of an output is replace or append.'
    when length(p_output ->> 'key') not between 1 and 200 then 'The key of an output has 1 to 200 characters.'
    when (v_uri is null) = (v_rows is null) then 'An output has either a uri or rows.'
    when length(v_uri) not between 1 and 4000 then 'The uri of an output has 1 to 4000 characters.'
    when v_rows is not null and (jsonb_typeof(v_rows) <> 'array' or jsonb_path_exists(v_rows, '$[*] ? (@.type() != "object")'))
      then 'The rows of an output are a list of objects.'
    when v_schema is not null and (jsonb_typeof(v_schema) <> 'array' or jsonb_array_length(v_schema) not between 1 and 5000 or exists (
        select from jsonb_array_elements(case jsonb_typeof(v_schema) when 'array' then v_schema else '[]' end) c
        where jsonb_typeof(c) <> 'array' or jsonb_array_length(case jsonb_typeof(c) when 'array' then c else '[]' end) <> 2
           or jsonb_typeof(c -> 0) <> 'string' or jsonb_typeof(c -> 1) <> 'string'))
      then 'The schema of an output is a list of [name, type].'
    when exists (select from jsonb_each(p_output) f where f.key in ('row_count', 'bytes') and jsonb_typeof(f.value) <> 'null'
                 and (jsonb_typeof(f.value) <> 'number' or f.value::text !~ '^[0-9]{1,18}$')) then 'row_count and bytes are counts.'
    end;
  if v_wrong is not null then
    perform holdfast.refuse('TK042', v_wrong, 'Write {"dataset": "prices", "key": "monday", "uri": "s3://..."}, or "rows": [{...}].');
  elsif octet_length(v_rows::text) > 262144 then
    perform holdfast.refuse('TK018', format('The rows of an output have at most 256 KiB; these have %s.', octet_length(v_rows::text)),
                            'Write a file, and give its uri.');
  elsif v_uri is not null and not holdfast.is_own_table(v_uri, p_owner) then
    perform holdfast.check_addresses(array[v_uri], p_owner);
  end if;
end $$;

-- Whether this is a table that a task of this owner has written.
create or replace function holdfast.is_own_table(p_uri text, p_owner text) returns bool
language sql stable
as $$
  select coalesce((
    select t.owner = p_owner from (
      select substring(p_uri from '^object:tables/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:/[^/.][^/]*)+$')::uuid as id) u
    cross join lateral holdfast.find_task(u.id) t), false)
$$;

-- The runs that a task is a part of, the nearest first; null if it is of none. It belongs to the task that gathers it.
create or replace function holdfast.runs_of(p_task uuid) returns uuid[]
language sql stable
as $$
  with recursive up(id, depth) as (
    select p_task, 0
    union all
    select d.downstream, u.depth + 1 from up u
    cross join lateral (
      select d.downstream from holdfast.dependency d where d.upstream = u.id and d.policy = 'gather' offset 0) d
    where u.depth < 20
  )
  select array_agg(u.id order by u.depth, u.id) from up u
  where exists (select from holdfast.dataset_version v where v.runs @> array[u.id])
     or u.depth > 0 and exists (
       select from holdfast.find_task(u.id) t join holdfast.lifecycle l on l.id = t.lifecycle where l.name = 'dag')
$$;

-- Where an output goes. kind: run (into this generation, which is not complete), outside (of any run: current at once), dropped
-- (its run is over, and somebody else builds the generation, or nobody). Raises TK042.
create or replace function holdfast.output_target(
  p_task uuid, p_owner text, p_dataset text, out kind text, out dataset_id uuid, out version int)
language plpgsql stable
as $$
#variable_conflict use_variable
declare
  v_runs uuid[] := holdfast.runs_of(p_task);
  v_found record;
begin
  if v_runs is null then
    with recursive old(id, depth) as (
      select i.retry_of, 1 from holdfast.input i where i.id = p_task
      union all
      select i.retry_of, o.depth + 1 from old o join holdfast.input i on i.id = o.id where o.depth < 100
    )
    select o.id, r.runs[1] as run into v_found from old o cross join lateral (select holdfast.runs_of(o.id) as runs) r
    where o.id is not null and r.runs is not null limit 1;
    if found then
      perform holdfast.refuse('TK042', format('This task repeats task %s of run %s, and would publish %s beside it.', v_found.id,
                                              v_found.run, p_dataset), format('Retry the run: holdfast retry %s', v_found.run));
    end if;
    kind := 'outside';
    return;
  end if;
  select v.dataset_id, v.version, v.run, v.completed_at into v_found
  from holdfast.dataset d join holdfast.dataset_version v on v.dataset_id = d.id
  where d.owner = p_owner and d.name = p_dataset and v.runs && v_runs
  order by (select min(array_position(v_runs, r)) from unnest(v.runs) r), v.version desc limit 1;
  if not found then
    perform holdfast.refuse('TK042', format('The run %s does not write the dataset %s.', v_runs[1], p_dataset), format(
      'It writes: %s. Let the graph write it too: hf.dag(..., writes=...).', coalesce((
        select string_agg(distinct d.name, ', ') from holdfast.dataset_version v join holdfast.dataset d on d.id = v.dataset_id
        where v.runs && v_runs), 'none')));
  end if;
  dataset_id := v_found.dataset_id;
  version := v_found.version;
  kind := case when v_found.completed_at is null and v_found.run = any (v_runs) then 'run' else 'dropped' end;
end $$;

-- All files of a generation agree on their columns; the first table that names them decides. Rows have names and no types: they
-- are compared as far as that goes, and once more when the generation is complete, with tables that came after them. Raises TK042.
create or replace function holdfast.check_schema(p_dataset uuid, p_version int, p_output holdfast.output) returns void
language plpgsql
as $$
declare
  v_schema jsonb;
  v_extended jsonb;
begin
  if p_output.schema is not null then
    insert into holdfast.dataset_schema (dataset_id, version, schema) values (p_dataset, p_version, p_output.schema)
    on conflict do nothing;
  end if;
  select s.schema, f.schema into v_schema, v_extended
  from holdfast.dataset_version v
  left join holdfast.dataset_schema s on s.dataset_id = v.dataset_id and s.version = v.version
  left join lateral (
    select f.schema from holdfast.dataset d
    join holdfast.dataset_file f on f.dataset_id = d.id and f.version = d.version
    where d.id = v.dataset_id and v.extends and f.schema is not null and f.key is distinct from p_output.key and not exists (
      select from holdfast.dataset_file n where n.dataset_id = p_dataset and n.version = p_version and n.key = f.key) limit 1) f on true
  where v.dataset_id = p_dataset and v.version = p_version;
  p_output.schema := coalesce(p_output.schema, holdfast.rows_schema(p_output.rows, coalesce(v_schema, v_extended)));
  v_schema := case when v_schema <> p_output.schema then v_schema else coalesce(v_extended, v_schema) end;
  if v_schema <> p_output.schema then
    perform holdfast.refuse('TK042', format('The columns of output %s differ from those of generation %s of %s: %s.', p_output.key,
      p_version, p_output.dataset, holdfast.describe_changes(holdfast.schema_changes(v_schema, p_output.schema))),
      'A changed schema is a new generation that extends none: let all of its tasks write the new columns.');
  end if;
end $$;

create or replace function holdfast.write_output(p_dataset uuid, p_version int, p_output holdfast.output) returns void
language plpgsql
as $$
declare
  v_rows uuid := case when p_output.rows is not null then holdfast.uuid7() end;
begin
  insert into holdfast.dataset_file as f (
    dataset_id, version, number, uri, name, key, mode, task_id, attempt, token, rows_id, schema, row_count, bytes)
  values (p_dataset, p_version, nextval('holdfast.dataset_file_number'), p_output.uri, p_output.key, p_output.key, p_output.mode,
          p_output.task_id, p_output.attempt, p_output.token, v_rows, p_output.schema, p_output.row_count, p_output.bytes)
  on conflict (dataset_id, version, key) where key is not null do update set
    uri = excluded.uri, mode = excluded.mode, task_id = excluded.task_id, attempt = excluded.attempt, token = excluded.token,
    rows_id = excluded.rows_id, schema = excluded.schema, row_count = excluded.row_count, bytes = excluded.bytes
  where excluded.mode = 'replace';
  if found and v_rows is not null then
    insert into holdfast.dataset_rows (id, dataset_id, rows) values (v_rows, p_dataset, p_output.rows);
  end if;
end $$;

-- What belongs to no run is current at once, as a generation that extends the one before. One after the other: a caller that
-- publishes next waits for the dataset's row, and then sees this one.
create or replace function holdfast.publish_outside(p_outputs holdfast.output[]) returns void
language plpgsql
as $$
declare
  v_dataset record;
  v_made record;
  v_reason text;
begin
  for v_dataset in select o.owner, o.dataset, array_agg(o order by o.place) as outputs from unnest(p_outputs) o
                   group by o.owner, o.dataset order by o.owner, o.dataset loop
    select * into v_made from holdfast.begin_generation(v_dataset.owner, v_dataset.dataset, 'task', p_extends => true);
    perform holdfast.write_output(v_made.dataset_id, v_made.version, o)
    from (select unnest(v_dataset.outputs) as o) o;
    v_reason := holdfast.complete_generation(v_made.dataset_id, v_made.version);
    if v_reason is not null then
      perform holdfast.refuse('TK042', format('This cannot be published in %s. %s', v_dataset.dataset, v_reason),
                              'Write all of it with a graph whose generation is fresh: hf.dag(..., writes=...).');
    end if;
    perform holdfast.make_current(v_made.dataset_id, v_made.version, 'published', '');
  end loop;
end $$;
