-- waiting.sql: what waits for a person beside the tasks that failed (those are in inbox.sql): questions that nobody has
-- answered, schedules whose start is refused, webhooks whose deliveries do not arrive. Nothing is kept of it: an entry is
-- there for as long as its reason is. Called by the inbox. Takes no lock.

-- By kind, and within it by id or name; of one owner, or of all. `after` is the id of the last one that was seen.
create or replace function holdfast.waiting(p_owner text default null, p_after text default null, p_limit int default 50)
returns table (id text, kind text, task_id uuid, name text, owner text, since timestamptz, until timestamptz, why text,
               acts text, command text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_kind text := coalesce(split_part(p_after, ':', 1), '');
  v_after text := substr(p_after, length(v_kind) + 2);
  v_question uuid;
begin
  perform holdfast.check_limit(p_limit, 1000, 'entries cannot be shown');
  if v_kind not in ('', 'question', 'schedule', 'webhook') or v_kind = '' and p_after <> '' or v_kind <> 'schedule'
     and v_after !~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then
    perform holdfast.refuse('TK010', format('%s is not a place in this list.', quote_literal(left(p_after, 100))),
                            'Pass the `next` of the page before.');
  end if;
  if v_kind = 'question' then
    v_question := v_after::uuid;
  end if;
  return query
  select * from (
    select 'question:' || q.id as id, 'question' as kind, q.task_id, q.name, q.owner, q.asked_at, q.until, q.question,
           'owner', format('holdfast answer %s --step %s --approve', q.task_id, holdfast.shell_quote(q.step))
    from holdfast.questions(p_owner, v_question, p_limit) q where v_kind in ('', 'question')
    union all
    (select 'schedule:' || s.name, 'schedule', s.last_task, s.name, s.owner, coalesce(s.next_at, s.error_at), s.try_at,
            'It is not started: ' || s.error, 'operator', 'holdfast cron show ' || s.name
     from holdfast.schedule s
     where s.error is not null and s.paused_at is null and (p_owner is null or s.owner = p_owner)
       and v_kind <= 'schedule' and (v_kind < 'schedule' or s.name > v_after collate "C")
     order by s.name collate "C" limit p_limit)
    union all
    (select 'webhook:' || w.id, 'webhook', null, w.name, coalesce(w.owner, ''), p.since, null::timestamptz, p.why,
            'operator', format('holdfast webhooks %s', format(p.command, case when w.name ~ '^[\w.:/-]+$' then w.name else w.id::text end))
     from holdfast.webhook w
     cross join lateral holdfast.webhook_trouble(w) p
     where p.why is not null and (p_owner is null or w.owner = p_owner)
       and (v_kind < 'webhook' or w.id::text > v_after)
     order by w.id limit p_limit)) one
  order by one.id collate "C" limit p_limit;
end $$;

-- Why a webhook needs a person, since when, and the command to begin with; null if it does not. What failed twice may be a
-- restart: only the third failure counts, some five minutes on. Counts up to a thousand.
create or replace function holdfast.webhook_trouble(
  p_webhook holdfast.webhook, out why text, out since timestamptz, out command text)
language plpgsql stable
as $$
declare
  v_given_up int;
  v_last text;
begin
  if p_webhook.disabled_at is not null then
    why := 'It is sent nothing more: ' || p_webhook.disabled_why;
    since := p_webhook.disabled_at;
    command := 'resume %s';
    return;
  end if;
  select count(*) filter (where d.state = 'failed'), min(d.made_at), (array_agg(
           coalesce(d.error, 'it answered ' || d.status) order by d.state, d.id desc))[1]
    into v_given_up, webhook_trouble.since, v_last
  from (select d.* from holdfast.webhook_delivery d
        where d.webhook_id = p_webhook.id and (d.state = 'failed' or (d.state = 'pending' and d.tries > 2))
        order by d.id limit 1000) d
  where d.state = 'failed' or p_webhook.paused_at is null;
  if v_given_up > 0 then
    why := format('%s %s given up: %s.', v_given_up,
                  case when v_given_up = 1 then 'delivery was' else 'deliveries were' end, holdfast.one_line(v_last));
    command := 'deliveries %s --state failed';
  elsif since is not null then
    why := format('It does not take what is sent to it: %s.', holdfast.one_line(v_last));
    command := 'deliveries %s --state pending';
  end if;
end $$;

-- A text as one argument of a shell.
create or replace function holdfast.shell_quote(p_text text) returns text
language sql immutable
as $$ select case when p_text ~ '^[[:alnum:]_.:/-]+$' then p_text else '''' || replace(p_text, '''', '''\''''') || '''' end $$;
