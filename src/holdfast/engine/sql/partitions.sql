-- partitions.sql: what is only ever added lies in partitions by day, so that forgetting a day is a drop.
-- Called by every process at its start, one after the other. Waits for no lock of a writer; whatever has no partition goes to _rest.

-- Makes the next one that is missing and answers 1, or 0 if none is. One per call, so that writers wait for a moment only.
create or replace function holdfast.make_partitions(p_days int default 7) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '200ms' set timezone = 'UTC'
as $$
declare
  v_table text;
  v_day timestamptz;
  v_name text;
  v_from uuid;
  v_to uuid;
  v_taken bool;
begin
  if p_days is null or p_days not between 0 and 60 then
    perform holdfast.refuse('TK010', 'Partitions are made for 0 to 60 days ahead.', 'A week is enough.');
  end if;
  perform set_config('lock_timeout', '0', true);
  perform pg_advisory_xact_lock(hashtextextended('holdfast.make_partitions', 0));
  perform set_config('lock_timeout', '200ms', true);
  foreach v_table in array array['task_done', 'input', 'event', 'step', 'step_event', 'usage'] loop
    for v_day in select date_trunc('day', holdfast.now()) + make_interval(days => d) from generate_series(0, p_days) d loop
      v_name := v_table || to_char(v_day, '_YYYYMMDD');
      continue when to_regclass('holdfast.' || v_name) is not null;
      v_from := holdfast.first_uuid(v_day);
      v_to := holdfast.first_uuid(v_day + interval '1 day');
      execute format('select exists (select from holdfast.%I where %I >= $1 and %2$I < $2)', v_table || '_rest',
                     case when v_table in ('task_done', 'input') then 'id' else 'task_id' end)
        into v_taken using v_from, v_to;
      continue when v_taken;
      begin
        execute format('create table holdfast.%I partition of holdfast.%I for values from (%L) to (%L)',
                       v_name, v_table, v_from, v_to);
        if v_table = 'task_done' then
          execute format('create trigger check_ends after insert on holdfast.%1$I referencing new table as moved'
                         ' for each statement execute function holdfast.check_ends();'
                         'create trigger record_ends after insert on holdfast.%1$I referencing new table as moved'
                         ' for each statement execute function holdfast.record_moves()', v_name);
        end if;
        return 1;
      exception when duplicate_table or lock_not_available or check_violation or invalid_object_definition then
        null;  -- somebody else makes it, or was just writing: the next call sees
      end;
    end loop;
  end loop;
  return 0;
end $$;

-- The lowest uuid v7 of a moment.
create or replace function holdfast.first_uuid(p_at timestamptz) returns uuid
language sql immutable
as $$ select (lpad(to_hex(floor(extract(epoch from p_at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid $$;
