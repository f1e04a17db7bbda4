-- enforce.sql: no generation changes but as it may, whichever role writes; what is complete stays as it is.
-- Called by the triggers of migration 0002. Takes no lock.

create or replace function holdfast.check_version() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    if old.state in ('building', 'ready', 'current') and exists (select from holdfast.dataset d where d.id = old.dataset_id) then
      raise exception 'Generation % is %, and stays.', old.version, old.state using errcode = 'TK002',
        hint = 'Roll it back first: holdfast.rollback_dataset.';
    end if;
    return old;
  elsif tg_op = 'INSERT' then
    if new.state <> 'building' or new.completed_at is not null then
      raise exception 'A generation begins as building.' using errcode = 'TK002', hint = 'Use holdfast.open_generation.';
    end if;
    return new;
  end if;
  if (new.dataset_id, new.version) is distinct from (old.dataset_id, old.version)
     or (new.state <> old.state and not (old.state, new.state) in (
       ('building', 'ready'), ('building', 'current'), ('building', 'superseded'), ('building', 'failed'), ('building', 'rolled_back'),
       ('ready', 'current'), ('ready', 'rolled_back'), ('current', 'superseded'), ('current', 'rolled_back'),
       ('superseded', 'current'), ('rolled_back', 'current'), ('failed', 'building'), ('rolled_back', 'building')))
     or (old.completed_at is not null and (
       (new.completed_at, new.files, new.schema, new.row_count, new.bytes)
         is distinct from (old.completed_at, old.files, old.schema, old.row_count, old.bytes)
       or (new.state = 'building' and old.state <> 'building'))) then
    raise exception 'Generation % is %, and does not become % like that.', old.version, old.state, new.state
      using errcode = 'TK002', hint = 'Use holdfast.cutover_dataset and holdfast.rollback_dataset, not its tables.';
  end if;
  return new;
end $$;

-- Files come while a generation is built, and go with it. (The row of a generation that is being deleted is gone already.)
create or replace function holdfast.check_files() returns trigger
language plpgsql
as $$
begin
  if tg_op <> 'INSERT' and exists (select from holdfast.dataset_version v where v.dataset_id = old.dataset_id
                                   and v.version = old.version and v.completed_at is not null)
     or tg_op <> 'DELETE' and exists (select from holdfast.dataset_version v where v.dataset_id = new.dataset_id
                                      and v.version = new.version and v.completed_at is not null) then
    raise exception 'A generation that is complete never changes.' using errcode = 'TK002',
      hint = 'Publish the next one.';
  end if;
  return case when tg_op = 'DELETE' then old else new end;
end $$;

-- What a dataset calls current, is; and nothing else is.
create or replace function holdfast.check_current() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid := case tg_table_name when 'dataset' then to_jsonb(new) ->> 'id' else to_jsonb(new) ->> 'dataset_id' end;
begin
  if (select nullif(d.version, 0) from holdfast.dataset d where d.id = v_id) is distinct from
     (select v.version from holdfast.dataset_version v where v.dataset_id = v_id and v.state = 'current') then
    raise exception 'The current generation of a dataset is one, and the dataset names it.' using errcode = 'TK002',
      hint = 'Use holdfast.cutover_dataset and holdfast.rollback_dataset, not its tables.';
  end if;
  return null;
end $$;
