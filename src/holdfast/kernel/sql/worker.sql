-- worker.sql: who is there, and what it can run. Nothing depends on these rows but explanations: a lease alone decides
-- who holds a task.

-- Said at the start and then every few seconds. Tasks that nobody knew and this worker knows come back into their queue.
create or replace function holdfast.hello(
  p_id text, p_label text, p_queues text[], p_names text[], p_slots int)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
set timezone = 'UTC'
as $$
begin
  if p_id is null or length(p_id) not between 1 and 200 or p_label is null or length(p_label) > 200 then
    perform holdfast.refuse('TK010', 'A worker has an id of 1 to 200 characters, and a label.',
                            'Give each process an id of its own.');
  end if;
  if p_slots is null or p_slots < 1 or coalesce(cardinality(p_queues), 0) = 0 then
    perform holdfast.refuse('TK010', 'A worker has at least one slot and one queue.', '');
  end if;
  perform holdfast.check_queues(p_queues);
  insert into holdfast.worker as w (id, label, queues, names, slots)
  values (p_id, p_label, p_queues, p_names, p_slots)
  on conflict (id) do update set label = excluded.label, queues = excluded.queues, names = excluded.names,
    slots = excluded.slots, seen_at = holdfast.now();
  perform holdfast.admit_known(p_queues, p_names);
end $$;

create or replace function holdfast.goodbye(p_id text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$ delete from holdfast.worker w where w.id = p_id $$;

-- A worker that has said nothing for half a minute is not counted on.
create or replace function holdfast.workers()
returns table (id text, label text, queues text[], names text[], slots int, started_at timestamptz, seen_at timestamptz,
               live bool)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select w.id, w.label, w.queues, w.names, w.slots, w.started_at, w.seen_at,
         w.seen_at > holdfast.now() - interval '30 seconds'
  from holdfast.worker w order by w.started_at, w.id
$$;

grant execute on function holdfast.hello(text, text, text[], text[], int), holdfast.goodbye(text), holdfast.workers()
  to holdfast_app;
