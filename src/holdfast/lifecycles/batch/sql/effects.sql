-- effects.sql: what a transition of a batch, or of the task that stops one, writes beside the task, in the same transaction.
-- Locks the jobs of the batch, whose task is locked already. What it raises undoes the move.

create or replace function holdfast.batch_effects(p_moved holdfast.moved[]) returns void
language plpgsql
as $$
declare
  m holdfast.moved;
begin
  foreach m in array p_moved loop
    if m.from_state = '' then
      perform holdfast.record_batch(m.task_id, m.name, m.owner);
    elsif m.verb = 'retried' then
      update holdfast.batch_stop s set task_id = m.task_id
      from holdfast.input i where i.id = m.task_id and s.task_id = i.retry_of;
      -- A retry of the whole takes all inputs again, also those that were too many for a payload.
      update holdfast.batch b set urls = o.urls, datasets = o.datasets, again_of = o.again_of
      from holdfast.input i join holdfast.batch o on o.task_id = i.retry_of
      where b.task_id = m.task_id and i.id = m.task_id
        and i.payload = (select q.payload from holdfast.input q where q.id = i.retry_of);  -- not if it was edited
    elsif m.lifecycle = 'batch_stop' and m.verb = 'cancel' then
      perform holdfast.report_left_running(m.task_id);
    elsif m.lifecycle = 'batch' and m.verb in ('done', 'partial') then
      perform holdfast.check_batch_verdict(m.task_id, m.to_state);
    elsif m.to_state = 'IN_PROGRESS' and m.from_state <> m.to_state
         and not exists (select from holdfast.batch_job j where j.task_id = m.task_id) then
      perform holdfast.refuse('TK002', 'A batch without jobs is not in progress.', 'Plan its jobs first.');
    end if;
    if m.lifecycle = 'batch' and m.verb <> 'retried' and (select d.id from holdfast.task_done d where d.id = m.task_id) is not null then
      perform holdfast.close_batch(m.task_id, m.to_state);
    end if;
  end loop;
end $$;

-- A new batch: what it is made of is read from its payload, however it was submitted. A payload that names nothing makes a task
-- that its worker refuses.
create or replace function holdfast.record_batch(p_task uuid, p_name text, p_owner text) returns void
language plpgsql
as $$
declare
  v_payload jsonb := (select i.payload from holdfast.input i where i.id = p_task);
  v_offer holdfast.batch_provider;
begin
  select * into v_offer from holdfast.batch_provider p where p.name = p_name limit 1;
  if not found or jsonb_typeof(v_payload) is distinct from 'object' then
    return;
  end if;
  if v_payload ->> 'again_of' is not null and not exists (
    select from holdfast.batch b join holdfast.task_done d on d.id = b.task_id
    where b.task_id::text = lower(v_payload ->> 'again_of') and d.owner = p_owner) then
    perform holdfast.refuse('TK010', format('There is no batch %s that is over.', quote_nullable(left(v_payload ->> 'again_of', 100))),
                            'GET /batch/tasks lists them.');
  end if;
  perform holdfast.check_addresses(array(select jsonb_array_elements_text(holdfast.check_strings(v_payload -> 'urls', 'urls'))), p_owner);
  insert into holdfast.batch (task_id, task_type, provider, datasets, urls, models, again_of)
  values (p_task, v_offer.task_type, v_offer.provider,
          holdfast.pin_datasets(coalesce(v_payload -> 'dataset_ids', '[]'), p_owner),
          holdfast.check_strings(v_payload -> 'urls', 'urls'), holdfast.check_strings(v_payload -> 'models', 'models'),
          (v_payload ->> 'again_of')::uuid);
end $$;

create or replace function holdfast.check_strings(p_given jsonb, p_field text) returns jsonb
language plpgsql immutable
as $$
begin
  if jsonb_typeof(coalesce(p_given, '[]')) <> 'array'
     or jsonb_path_exists(coalesce(p_given, '[]'), '$[*] ? (@.type() != "string")') then
    perform holdfast.refuse('TK010', format('%s is a list of strings.', p_field), format('Write {"%s": ["..."]}.', p_field));
  end if;
  return coalesce(p_given, '[]');
end $$;

-- Datasets as they are now: a batch goes by the version that it was made with. Raises TK010 for one that is not there, or
-- another's.
create or replace function holdfast.pin_datasets(p_ids jsonb, p_owner text) returns jsonb
language plpgsql stable
as $$
declare
  v_missing text;
  v_found jsonb;
begin
  select string_agg(i.id, ', ') filter (where d.id is null),
         coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'version', d.version) order by i.place), '[]')
    into v_missing, v_found
  from jsonb_array_elements_text(holdfast.check_strings(p_ids, 'dataset_ids')) with ordinality i(id, place)
  left join holdfast.dataset d on d.id::text = lower(i.id) and d.owner = p_owner and d.version > 0;
  if v_missing is not null then
    perform holdfast.refuse('TK010', format('There is no dataset %s.', v_missing), 'POST /datasets makes one, GET /datasets lists them.');
  elsif exists (select from jsonb_array_elements(v_found) p join holdfast.dataset_file f
                on f.dataset_id = (p ->> 'id')::uuid and f.version = (p ->> 'version')::int and f.uri is null) then
    perform holdfast.refuse('TK010', 'A dataset of this batch holds rows, and batches are made of files.', 'Write its outputs as files.');
  end if;
  return v_found;
end $$;

-- The task that was to stop what a batch has left running was cancelled: a person is to know of it.
create or replace function holdfast.report_left_running(p_stop uuid) returns void
language sql
as $$
  select holdfast.add_to_inbox(d.id, jsonb_build_object('kind', 'left_running', 'code', 'left-running', 'message', format(
    'What batch %s has left running is not stopped: %s.', s.batch_id, string_agg(
      format('job %s (%s)', j.number, coalesce(j.external_id, j.token)), ', ' order by j.number))), d.from_state)
  from holdfast.task_done d join holdfast.batch_stop s on s.task_id = d.id
  join holdfast.batch_job j on j.task_id = s.batch_id and j.running
  where d.id = p_stop group by d.id, d.from_state, s.batch_id
$$;

-- What the jobs of a batch make of it, once all have ended; null until then.
create or replace function holdfast.batch_verdict(p_task uuid) returns text
language sql stable
as $$
  select case when count(*) filter (where j.finished_at is null) > 0 then null
              when coalesce(sum(j.ok), 0) = 0 then 'FAILED'
              when bool_and(j.status = 'COMPLETED') and (select b.invalid = '[]' from holdfast.batch b where b.task_id = p_task)
              then 'COMPLETED' else 'PARTIAL_COMPLETE' end
  from holdfast.batch_job j where j.task_id = p_task
$$;

-- A batch is completed only as its jobs have ended, and not before their results are merged.
create or replace function holdfast.check_batch_verdict(p_task uuid, p_state text) returns void
language plpgsql
as $$
declare
  v_verdict text := holdfast.batch_verdict(p_task);
begin
  if v_verdict is distinct from p_state then
    perform holdfast.refuse('TK002', format('The jobs of this batch do not make it %s: %s.', p_state,
      coalesce('they make it ' || v_verdict, 'some have not ended')), 'GET /batch/tasks/{id} has each of them.');
  elsif (select b.result_key from holdfast.batch b where b.task_id = p_task) is null then
    perform holdfast.refuse('TK002', 'The results of this batch are not merged yet.', 'Merge them first.');
  end if;
end $$;

-- The batch has ended. What was never sent is not sent any more; what a provider may be at work on is stopped by a task of its
-- own, which is made here and nowhere else. Files are kept for thirty days.
create or replace function holdfast.close_batch(p_task uuid, p_state text) returns void
language plpgsql
as $$
declare
  v_batch holdfast.batch;
begin
  select * into v_batch from holdfast.batch b where b.task_id = p_task;
  if not found then
    return;
  end if;
  perform from holdfast.batch_job j where j.task_id = p_task and j.finished_at is null order by j.number for update;
  update holdfast.batch_job j set status = 'CANCELLED', finished_at = holdfast.now(),
    error = coalesce(j.error, format('The batch was %s before %s.', p_state,
      case j.status when 'PLANNED' then 'it was sent' else 'its results were fetched' end))
  where j.task_id = p_task and j.finished_at is null and not j.running;
  if exists (select from holdfast.batch_job j where j.task_id = p_task and j.running)
     and not exists (select from holdfast.batch_stop s where s.batch_id = p_task) then
    insert into holdfast.batch_stop (task_id, batch_id)
    select holdfast.submit('stop.' || lower(v_batch.provider), jsonb_build_object('batch', t.id, 'provider', v_batch.provider),
                           'batch_stop', queue => t.queue, owner => t.owner), t.id
    from holdfast.task_done t where t.id = p_task;
  end if;
  update holdfast.inbox n set resolved_at = holdfast.now(), resolution = 'resolved', note = format('The batch was %s.', p_state)
  where n.task_id = p_task and n.resolved_at is null and n.error ->> 'kind' = 'job_parked';
  perform holdfast.delete_later(p_task, 'batches/' || p_task, interval '30 days');
end $$;
