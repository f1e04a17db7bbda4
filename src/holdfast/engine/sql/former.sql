-- former.sql: granted functions under the names of the release before. Called by its processes while a rolling deploy lasts.

create or replace function holdfast.lose_these(p_id uuid[], p_attempt int[], p_token uuid[]) returns int
language sql security definer set search_path = pg_catalog, pg_temp
as $$ select holdfast.mark_lost(p_id, p_attempt, p_token) $$;

create or replace function holdfast.hand_back(p_worker text, p_kept uuid[] default '{}') returns int
language sql security definer set search_path = pg_catalog, pg_temp
as $$ select holdfast.release_leases(p_worker, p_kept) $$;
