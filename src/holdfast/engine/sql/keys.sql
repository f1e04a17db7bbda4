-- keys.sql: who may call the server. A key is made elsewhere from 256 random bits; only its sha256 comes here.
-- Called by the HTTP server with every request, and by those who give out keys. Takes no lock but on the key's row.

create or replace function holdfast.make_key(p_name text, p_roles text[], p_owner text, p_hash bytea) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
begin
  if p_name is null or length(p_name) not between 1 and 200 or length(p_owner) > 200 then
    perform holdfast.refuse('TK010', 'A key has a name of 1 to 200 characters, and so has its owner.',
                            'Name it after its user.');
  elsif coalesce(cardinality(p_roles), 0) = 0 or not p_roles <@ array['user', 'worker', 'operator'] then
    perform holdfast.refuse('TK010', format('%s are not roles.', coalesce(p_roles::text, 'null')),
                            'Roles are user, worker and operator; a key has at least one.');
  elsif p_hash is null or octet_length(p_hash) <> 32 then
    perform holdfast.refuse('TK010', 'That is not the sha256 of a key.', 'Never pass the key itself.');
  end if;
  insert into holdfast.api_key (name, roles, owner, hash)
  values (p_name, array(select distinct r from unnest(p_roles) r order by r), coalesce(p_owner, p_name), p_hash)
  returning id into v_id;
  return v_id;
end $$;

-- The key with this hash, if there is one that counts; and whether any key counts at all. One row.
create or replace function holdfast.check_key(p_hash bytea)
returns table (id uuid, name text, roles text[], owner text, any_key bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
  select k.id, k.name, k.roles, k.owner, exists (select from holdfast.api_key o where o.revoked_at is null)
  from (select) one
  left join lateral (
    select * from holdfast.api_key k where k.hash = p_hash and k.revoked_at is null offset 0) k on true
$$;

create or replace function holdfast.list_keys()
returns table (id uuid, name text, roles text[], owner text, created_at timestamptz, revoked_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select k.id, k.name, k.roles, k.owner, k.created_at, k.revoked_at from holdfast.api_key k order by k.created_at, k.id
$$;

-- From this commit on no server takes the key any more.
create or replace function holdfast.revoke_key(p_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update holdfast.api_key k set revoked_at = coalesce(k.revoked_at, holdfast.now()) where k.id = p_id;
  if not found then
    perform holdfast.refuse('TK023', format('No key has the id %s.', coalesce(p_id::text, 'null')),
                            'See holdfast keys ls.');
  end if;
end $$;
