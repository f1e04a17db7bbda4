-- installed.sql: what is installed in this database, for any process that starts on it.
-- Called by every starter, also as the application's role, which may not read the tables. Takes no lock.

create or replace function holdfast.installed() returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select jsonb_build_object(
    'migrations', (select coalesce(jsonb_object_agg(m.room || '/' || m.number, m.sha256), '{}') from holdfast.migration m),
    'version', r.version,
    'functions', r.sha256)
  from holdfast.release r
$$;
