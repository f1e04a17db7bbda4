-- retention.sql: what is not current any more is kept for thirty days, then its rows go, and the files that nobody else has.
-- Called by every process that serves, all the time. Takes the datasets that nobody has locked; locks the dataset's row.

-- Forget what is due in up to so many datasets; answers how many generations that were. Of those that single tasks have published
-- only the last hundred are kept for longer than a day: each of them lists all files.
create or replace function holdfast.forget_generations(p_n int default 20) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := holdfast.now();
  v_id uuid;
  v_versions int[];
  v_folders text[];
  v_gone int := 0;
begin
  for v_id in
    select d.id from holdfast.dataset d where d.id in (
      select v.dataset_id from holdfast.dataset_version v where v.kept_until <= v_now
      union all
      select v.dataset_id from holdfast.dataset_version v where v.kept_until is not null and v.origin = 'task'
      group by v.dataset_id having count(*) > 100 and min(v.ended_at) <= v_now - interval '1 day')
    order by d.id limit p_n for no key update skip locked
  loop
    select array_agg(v.version) into v_versions from (
      select v.version, v.kept_until, v.origin, v.ended_at, row_number() over (partition by v.origin order by v.version desc) as place
      from holdfast.dataset_version v where v.dataset_id = v_id and v.kept_until is not null) v
    where v.kept_until <= v_now or (v.origin = 'task' and v.place > 100 and v.ended_at <= v_now - interval '1 day');
    continue when v_versions is null;
    select array_agg(distinct f.folder) into v_folders from holdfast.dataset_file f
    where f.dataset_id = v_id and f.version = any (v_versions) and f.folder is not null;
    delete from holdfast.dataset_version v where v.dataset_id = v_id and v.version = any (v_versions);
    delete from holdfast.dataset_rows r where r.dataset_id = v_id
      and not exists (select from holdfast.dataset_file f where f.rows_id = r.id);
    perform holdfast.delete_later(split_part(o.folder, '/', 2)::uuid, o.folder, interval '0') from unnest(v_folders) o(folder)
    where not exists (select from holdfast.dataset_file f where f.folder = o.folder);
    v_gone := v_gone + cardinality(v_versions);
  end loop;
  delete from holdfast.delivery d where d.task_id in (
    select d.task_id from holdfast.delivery d where d.at < v_now - interval '30 days' limit 1000 for update skip locked);
  return v_gone;
end $$;
