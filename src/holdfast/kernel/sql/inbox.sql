-- inbox.sql: what failed for good and waits for a person. Rows are written by the move that fails (move.sql).

-- Open entries first, newest first.
create or replace function holdfast.inbox(p_all bool default false, p_limit int default 100)
returns table (id uuid, task_id uuid, category text, signature text, error jsonb, at timestamptz,
               resolved_at timestamptz, resolved_by text, resolution text, note text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform holdfast.refuse('TK010', format('%s entries cannot be shown.', coalesce(p_limit::text, 'null')),
                            'Ask for 1 to 10000.');
  end if;
  return query
  select n.id, n.task_id, n.category, n.signature, n.error, n.at, n.resolved_at, n.resolved_by, n.resolution, n.note
  from holdfast.inbox n where p_all or n.resolved_at is null
  order by n.resolved_at is not null, n.at desc, n.id desc limit p_limit;
end $$;

-- A person says that nothing more is to be done.
create or replace function holdfast.resolve(p_id uuid, p_by text, p_note text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update holdfast.inbox n set resolved_at = holdfast.now(), resolved_by = p_by, resolution = 'resolved', note = p_note
  where n.id = p_id and n.resolved_at is null;
  if found then
    return;
  elsif exists (select from holdfast.inbox n where n.id = p_id) then
    raise exception 'Inbox entry % has been handled already.', p_id using errcode = 'TK002', hint = '';
  end if;
  raise exception 'No inbox entry has the id %.', p_id using errcode = 'TK003', hint = 'holdfast.inbox() lists them.';
end $$;

grant execute on function holdfast.inbox(bool, int), holdfast.resolve(uuid, text, text) to holdfast_app;
