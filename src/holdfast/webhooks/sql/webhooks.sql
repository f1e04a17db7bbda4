-- webhooks.sql: endpoints, as operators make and mend them. Takes no lock but on the webhook's own row.

-- A webhook that gets what happens from now on.
create or replace function holdfast.add_webhook(
  p_url text, p_secret text, p_name text, p_kinds text[] default null, p_lifecycle text default null,
  p_task_name text default null, p_owner text default null, p_by text default '')
returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
  v_now text := (select f.cursor from holdfast.feed() f limit 1);
  v_kinds text[] := coalesce(p_kinds, array['completed', 'partial', 'failed', 'cancelled']);
begin
  if p_url is null or length(p_url) not between 1 and 2000 or p_url !~* '^https?://' then
    perform holdfast.refuse('TK010', 'A webhook has an address of http or https, of 2000 characters at most.',
                            'Write https://example.org/hook.');
  elsif p_name is null or length(p_name) not between 1 and 200 then
    perform holdfast.refuse('TK010', 'A webhook has a name of 1 to 200 characters.', 'Name it after the receiver.');
  elsif cardinality(v_kinds) = 0 or not v_kinds <@ array['completed', 'partial', 'failed', 'cancelled', 'moved'] then
    perform holdfast.refuse('TK010', format('%s are not events.', array_to_string(v_kinds, ', ')),
                            'Events are completed, partial, failed, cancelled; and moved, for every other move.');
  elsif p_secret is null or p_secret !~ '^whsec_.{32,}$' then
    perform holdfast.refuse('TK010', 'That is not a secret.', 'Pass whsec_ and 24 random bytes or more, in base64.');
  elsif p_lifecycle is not null and not exists (select from holdfast.lifecycle l where l.name = p_lifecycle) then
    perform holdfast.refuse('TK011', format('There is no lifecycle %s.', quote_literal(p_lifecycle)),
                            'See holdfast lifecycle ls.');
  end if;
  insert into holdfast.webhook (name, url, secret, kinds, lifecycle, task_name, owner, cursor, created_by)
  values (p_name, p_url, p_secret, v_kinds, p_lifecycle, p_task_name, p_owner, v_now, coalesce(p_by, ''))
  on conflict (name) do nothing
  returning id into v_id;
  if v_id is null then
    perform holdfast.refuse('TK010', format('There is a webhook %s already.', quote_literal(p_name)),
                            'Give it another name, or remove the old one: holdfast webhooks rm.');
  end if;
  return v_id;
end $$;

-- Webhooks by name, without their secrets; or one of them. What waits is counted up to a thousand.
create or replace function holdfast.webhooks(p_id uuid default null)
returns table (id uuid, name text, url text, kinds text[], lifecycle text, task_name text, owner text,
               paused_at timestamptz, disabled_at timestamptz, disabled_why text, missed_at timestamptz,
               created_at timestamptz, created_by text, waiting int, failed int)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select w.id, w.name, w.url, w.kinds, w.lifecycle, w.task_name, w.owner, w.paused_at, w.disabled_at, w.disabled_why,
         w.missed_at, w.created_at, w.created_by,
         (select count(*) from (select from holdfast.webhook_delivery d
                                where d.webhook_id = w.id and d.state = 'pending' limit 1000) d)::int,
         (select count(*) from (select from holdfast.webhook_delivery d
                                where d.webhook_id = w.id and d.state = 'failed' limit 1000) d)::int
  from holdfast.webhook w
  where p_id is null or w.id = p_id
  order by w.name, w.id
$$;

-- Let nothing be sent; what happens meanwhile is kept, and sent when it goes on.
create or replace function holdfast.pause_webhook(p_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_webhook(p_id);
  update holdfast.webhook w set paused_at = coalesce(w.paused_at, holdfast.now()) where w.id = p_id
$$;

-- Send again. One that was disabled hears of what happens from now on.
create or replace function holdfast.resume_webhook(p_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_webhook(p_id);
  update holdfast.webhook w set paused_at = null, disabled_at = null, disabled_why = null,
    cursor = case when w.disabled_at is null then w.cursor else (select f.cursor from holdfast.feed() f limit 1) end
  where w.id = p_id
$$;

-- Remove it, and all that was to be sent.
create or replace function holdfast.remove_webhook(p_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select holdfast.check_webhook(p_id);
  delete from holdfast.webhook w where w.id = p_id
$$;

create or replace function holdfast.check_webhook(p_id uuid) returns void
language plpgsql
as $$
begin
  if not exists (select from holdfast.webhook w where w.id = p_id) then
    perform holdfast.refuse('TK073', format('No webhook has the id %s.', coalesce(p_id::text, 'null')),
                            'See holdfast webhooks ls.');
  end if;
end $$;
