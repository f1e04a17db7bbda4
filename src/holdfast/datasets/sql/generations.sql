-- generations.sql: a generation is built, becomes complete, and current in one cutover; or it ends otherwise.
-- Called by deliver, and by the graphs that write datasets. Locks the dataset's row, after all tasks; never against those who
-- refer to it (no key update), since a writer of a generation may still have to lock the run's task.

-- The next generation of a dataset, which is made if it is not there. Locks its row.
create or replace function holdfast.begin_generation(
  p_owner text, p_name text, p_origin text, p_by text default '', p_run uuid default null, p_extends bool default false,
  p_cutover text default 'auto', out dataset_id uuid, out version int)
language plpgsql
as $$
begin
  if p_name is null or p_owner is null or length(p_name) > 200 or p_name !~ '^[^\s/]([^/]*[^\s/])?$' then
    perform holdfast.refuse('TK010', 'A dataset has a name of 1 to 200 characters, without a slash.', 'Give it a short name, such as prices.');
  end if;
  insert into holdfast.dataset as d (owner, name, version, newest) values (p_owner, p_name, 0, 1)
  on conflict (owner, name) do update set newest = d.newest + 1
  returning d.id, d.newest into dataset_id, version;
  insert into holdfast.dataset_version (dataset_id, version, origin, run, runs, extends, cutover, made_by)
  values (begin_generation.dataset_id, begin_generation.version, p_origin, p_run, array_remove(array[p_run], null),
          coalesce(p_extends, false), p_cutover, coalesce(p_by, ''));
end $$;

-- A generation that the tasks of a run are to build. Called in the transaction that starts the run; the same again is the same.
create or replace function holdfast.open_generation(
  p_owner text, p_dataset text, p_run uuid, p_extends bool default false, p_cutover text default 'auto', p_by text default '',
  out dataset_id uuid, out version int)
language plpgsql
as $$
begin
  select v.dataset_id, v.version into dataset_id, version from holdfast.dataset_version v
  join holdfast.dataset d on d.id = v.dataset_id where v.run = p_run and d.owner = p_owner and d.name = p_dataset;
  if not found then
    select n.dataset_id, n.version into dataset_id, version
    from holdfast.begin_generation(p_owner, p_dataset, 'run', p_by, p_run, p_extends, p_cutover) n;
  end if;
end $$;

-- The run has ended. done: its generations are current, or ready where a person is to decide; one that was begun before what is
-- current now stays behind it, unless it extends that: a slow night does not undo the next one. failed, partial: they failed;
-- cancelled: they are rolled back. What its tasks wrote and nobody published is kept for seven days.
create or replace function holdfast.finish_generations(p_run uuid, p_outcome text) returns void
language plpgsql
as $$
declare
  v_one record;
  v_reason text;
begin
  for v_one in select v.dataset_id, v.version, v.cutover, v.extends, v.made_by from holdfast.dataset_version v
               where v.run = p_run and v.state = 'building' order by v.dataset_id loop
    perform from holdfast.dataset d where d.id = v_one.dataset_id for no key update;
    perform from holdfast.dataset_version v
    where v.dataset_id = v_one.dataset_id and v.version = v_one.version and v.state = 'building' for no key update;
    continue when not found;
    v_reason := case p_outcome when 'done' then holdfast.complete_generation(v_one.dataset_id, v_one.version)
                               when 'cancelled' then 'Its run was cancelled.'
                               when 'partial' then 'Some tasks of its run failed.' else 'Its run failed.' end;
    if v_reason is not null then
      perform holdfast.end_generation(v_one.dataset_id, v_one.version,
                                      case p_outcome when 'cancelled' then 'rolled_back' else 'failed' end, v_reason);
    elsif v_one.cutover = 'auto' and not v_one.extends
          and v_one.version < (select d.version from holdfast.dataset d where d.id = v_one.dataset_id) then
      perform holdfast.end_generation(v_one.dataset_id, v_one.version, 'superseded',
                                      'A newer generation was current when it was complete. Cut over to it if it is the one you want.');
    elsif v_one.cutover = 'auto' then
      perform holdfast.make_current(v_one.dataset_id, v_one.version, 'published', v_one.made_by);
    else
      update holdfast.dataset_version v set state = 'ready' where v.dataset_id = v_one.dataset_id and v.version = v_one.version;
    end if;
  end loop;
  perform holdfast.delete_later(n.upstream, 'tables/' || n.upstream, interval '7 days')
  from holdfast.dependency n
  where n.downstream = p_run and n.policy = 'gather'
    and not exists (select from holdfast.dataset_file f where f.folder = 'tables/' || n.upstream);
end $$;

-- A retried run goes on with what the old one has built: failed, or rolled back before it was complete.
create or replace function holdfast.adopt_generations(p_old_run uuid, p_new_run uuid) returns void
language sql
as $$
  select from holdfast.dataset d where d.id in (select v.dataset_id from holdfast.dataset_version v where v.run = p_old_run)
  order by d.id for no key update;
  update holdfast.dataset_version v set state = 'building', run = p_new_run, runs = v.runs || p_new_run, reason = null,
    ended_at = null, kept_until = null
  where v.run = p_old_run and v.completed_at is null and v.state in ('failed', 'rolled_back')
$$;

-- All of it is written: bring in what it extends, number the files, count. From here on it never changes. The caller has locked
-- the dataset. Answers why it cannot be read like that; then nothing was changed.
create or replace function holdfast.complete_generation(p_dataset uuid, p_version int) returns text
language plpgsql
as $$
declare
  v_from int := (select d.version from holdfast.dataset d join holdfast.dataset_version v on v.dataset_id = d.id
                 where d.id = p_dataset and v.version = p_version and v.extends);
  v_kept bigint[];
  v_schemas jsonb[];
  v_differs text;
begin
  select array_agg(f.number) into v_kept from holdfast.dataset_file f
  where f.dataset_id = p_dataset and f.version = v_from and not exists (
    select from holdfast.dataset_file n
    where n.dataset_id = p_dataset and n.version = p_version and n.key = f.key and n.mode = 'replace');
  select array_agg(distinct f.schema) into v_schemas from holdfast.dataset_file f
  where f.dataset_id = p_dataset and f.version in (p_version, v_from) and f.schema is not null
    and (f.version = p_version or f.number = any (v_kept));
  if cardinality(v_schemas) = 1 then
    select holdfast.describe_changes(holdfast.schema_changes(v_schemas[1], c.schema)) into v_differs
    from holdfast.dataset_file f
    join holdfast.dataset_rows r on r.id = f.rows_id
    cross join lateral (select holdfast.rows_schema(r.rows, v_schemas[1]) as schema) c
    where f.dataset_id = p_dataset and f.version in (p_version, v_from) and f.schema is null and c.schema <> v_schemas[1]
      and (f.version = p_version or f.number = any (v_kept))
    order by f.number limit 1;
  end if;
  if cardinality(v_schemas) > 1 then
    return format('Its files have several schemas: %s. A changed schema is a new generation that extends none.',
                  holdfast.describe_changes(holdfast.schema_changes(v_schemas[1], v_schemas[2])));
  elsif v_differs is not null then
    return format('Its rows have other columns than its tables: %s. A changed schema is a new generation that extends none.', v_differs);
  elsif not exists (select from holdfast.dataset_file f where f.dataset_id = p_dataset and f.version = p_version) then
    return 'Nothing was written into it.';
  end if;
  delete from holdfast.dataset_file n
  where n.dataset_id = p_dataset and n.version = p_version and n.mode = 'append' and exists (
    select from holdfast.dataset_file f where f.dataset_id = p_dataset and f.version = v_from and f.key = n.key);
  insert into holdfast.dataset_file (dataset_id, version, number, uri, name, key, mode, task_id, attempt, token, rows_id, schema, row_count, bytes)
  select p_dataset, p_version, row_number() over (order by f.number), f.uri, f.name, f.key, f.mode, f.task_id, f.attempt, f.token,
         f.rows_id, f.schema, f.row_count, f.bytes
  from holdfast.dataset_file f
  where f.dataset_id = p_dataset and f.version = v_from and f.number = any (v_kept);
  update holdfast.dataset_file f set number = p.number
  from (select f.number as old, (select count(*) from holdfast.dataset_file o where o.dataset_id = p_dataset
                                 and o.version = p_version and o.number < 1000000000000)
               + row_number() over (order by f.number) as number
        from holdfast.dataset_file f
        where f.dataset_id = p_dataset and f.version = p_version and f.number >= 1000000000000) p
  where f.dataset_id = p_dataset and f.version = p_version and f.number = p.old;
  update holdfast.dataset_version v set completed_at = holdfast.now(), files = c.files, row_count = c.row_count, bytes = c.bytes,
    schema = v_schemas[1]
  from (select count(*) as files, sum(f.row_count) as row_count, sum(f.bytes) as bytes from holdfast.dataset_file f
        where f.dataset_id = p_dataset and f.version = p_version) c
  where v.dataset_id = p_dataset and v.version = p_version;
  return null;
end $$;

-- The one cutover: from the commit on, every reader sees this one. The caller has locked the dataset, and it is complete.
create or replace function holdfast.make_current(p_dataset uuid, p_version int, p_kind text, p_by text) returns void
language plpgsql
as $$
declare
  v_before int := (select d.version from holdfast.dataset d where d.id = p_dataset);
  v_number int;
begin
  update holdfast.dataset d set version = p_version, changes = d.changes + 1 where d.id = p_dataset returning d.changes into v_number;
  update holdfast.dataset_version v set state = case p_kind when 'rollback' then 'rolled_back' else 'superseded' end,
    ended_at = holdfast.now(), stood_down = v_number, kept_until = holdfast.kept_until(v.origin)
  where v.dataset_id = p_dataset and v.version = v_before;
  update holdfast.dataset_version v set state = 'current', published_at = holdfast.now(), ended_at = null, kept_until = null,
    reason = null, follows = case when v.follows is null then v_before else v.follows end
  where v.dataset_id = p_dataset and v.version = p_version;
  insert into holdfast.dataset_cutover (dataset_id, number, version, before, kind, by)
  values (p_dataset, v_number, p_version, v_before, p_kind, coalesce(p_by, ''));
end $$;

create or replace function holdfast.end_generation(p_dataset uuid, p_version int, p_state text, p_reason text) returns void
language sql
as $$
  update holdfast.dataset_version v set state = p_state, reason = p_reason, ended_at = holdfast.now(), kept_until = holdfast.kept_until(v.origin)
  where v.dataset_id = p_dataset and v.version = p_version
$$;

-- Until when what is not current is kept: what was uploaded, for ever, as batches that were made of it may be made again.
create or replace function holdfast.kept_until(p_origin text) returns timestamptz
language sql stable
as $$ select case when p_origin <> 'upload' then holdfast.now() + interval '30 days' end $$;

-- The columns of rows, as a schema to compare with another: in its order and with its types, which rows do not have. Null if
-- there is nothing to compare.
create or replace function holdfast.rows_schema(p_rows jsonb, p_schema jsonb) returns jsonb
language sql immutable
as $$
  select jsonb_agg(jsonb_build_array(c.name, coalesce(s.one ->> 1, 'any')) order by s.place, c.name)
  from (select distinct k.name from jsonb_array_elements(p_rows) r cross join lateral jsonb_object_keys(r.value) k(name)) c
  left join jsonb_array_elements(p_schema) with ordinality s(one, place) on s.one ->> 0 = c.name
  where p_schema is not null
$$;

-- What differs between two schemas [[name, type], ...], as [{column, change: added, removed or type, before?, after?}].
create or replace function holdfast.schema_changes(p_before jsonb, p_after jsonb) returns jsonb
language sql immutable
as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
           'column', coalesce(a.name, b.name), 'before', b.type, 'after', a.type,
           'change', case when b.name is null then 'added' when a.name is null then 'removed' else 'type' end))
         order by coalesce(b.place, 100000 + a.place)), '[]')
  from (select c.one ->> 0 as name, c.one ->> 1 as type, c.place from jsonb_array_elements(p_before) with ordinality c(one, place)) b
  full join (select c.one ->> 0 as name, c.one ->> 1 as type, c.place from jsonb_array_elements(p_after) with ordinality c(one, place)) a
    on a.name = b.name
  where a.type is distinct from b.type
$$;

create or replace function holdfast.describe_changes(p_changes jsonb) returns text
language sql immutable
as $$
  select coalesce(string_agg(case c.one ->> 'change' when 'added' then format('+ %s %s', c.one ->> 'column', c.one ->> 'after')
                                  when 'removed' then format('- %s %s', c.one ->> 'column', c.one ->> 'before')
                                  else format('%s %s -> %s', c.one ->> 'column', c.one ->> 'before', c.one ->> 'after') end,
                             ', ' order by c.place), 'the order of the columns')
  from jsonb_array_elements(p_changes) with ordinality c(one, place)
$$;
