-- The clock and the ids: the ground under every table, so they are migrations and not replaced with the verbs.

-- The only clock. Everything that asks for the time, in statements, defaults and ids, asks here. A test database
-- replaces the body by a look into a one-row table, so that all its connections see the time a test has set.
create function holdfast.now() returns timestamptz
language sql stable parallel safe
as 'select pg_catalog.now()';

-- A uuid of version 7 from that clock, on every Postgres: a random one of version 4 whose first 48 bits are replaced by
-- the milliseconds. Setting bits 52 and 53 (counted from the low bit of each byte) turns version 4 into 7.
create function holdfast.uuid7() returns uuid
language sql volatile parallel safe
as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send(floor(extract(epoch from holdfast.now()) * 1000)::bigint) from 3)
              from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- The application's role may call what it is granted, and touch no table. Roles belong to the whole server, so another
-- database of the same server may have made it, perhaps at this very moment.
do $$
begin
  if not exists (select from pg_roles where rolname = 'holdfast_app') then
    create role holdfast_app nologin;
  end if;
exception when duplicate_object or unique_violation then
  null;
end $$;

grant usage on schema holdfast to holdfast_app;
revoke all on function holdfast.now(), holdfast.uuid7() from public;
grant execute on function holdfast.now(), holdfast.uuid7() to holdfast_app;
