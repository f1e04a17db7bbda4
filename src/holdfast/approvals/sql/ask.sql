-- ask.sql: a task asks a person. The question is written under the lease, once; asking again gives the same one.
-- Called by workers. Locks the task, then the question. Who is late is decided under the same lock as an answer is.

-- status: open; answered (`answer` is what was said); late (nobody answered until `until`); lost (the lease). The secret
-- is 256 random bits, made by the caller, and counts if the question is new.
create or replace function holdfast.ask(
  p_id uuid, p_attempt int, p_token uuid, p_step text, p_question text, p_within interval, p_secret text)
returns table (status text, id uuid, secret text, until timestamptz, answer jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_owner text;
  v_new uuid;
begin
  perform holdfast.check_steps(array[p_step]);
  if p_step is null or p_question is null or length(p_question) not between 1 and 2000 then
    perform holdfast.refuse('TK010', 'A question has 1 to 2000 characters.', 'Put what is long where the link leads.');
  elsif p_within is null or p_within <= interval '0' or not holdfast.is_soon(p_within, null) then
    perform holdfast.refuse('TK010', format('An answer within %s is not possible.', coalesce(p_within::text, 'null')),
                            'Give it more than nothing, and less than a hundred years.');
  elsif p_secret is null or length(p_secret) < 43 then
    perform holdfast.refuse('TK010', 'That is not a secret.', 'Pass 256 random bits, as text that fits into a URL.');
  end if;
  v_owner := (holdfast.lock_held(p_id, p_attempt, p_token)).owner;
  if v_owner is null then
    perform holdfast.add_to_tally('lost', 1);
    return query select 'lost', null::uuid, null, null::timestamptz, null::jsonb;
    return;
  end if;
  insert into holdfast.question (task_id, step, owner, question, attempt, token, secret, hash, until)
  values (p_id, p_step, v_owner, p_question, p_attempt, p_token, p_secret, sha256(convert_to(p_secret, 'UTF8')),
          holdfast.now() + p_within)
  on conflict (task_id, step) do nothing
  returning id into v_new;
  perform holdfast.add_step_event(p_id, p_step, 'question_asked', p_attempt, jsonb_build_object('question', p_question, 'until', q.until))
  from holdfast.question q where q.id = v_new;
  return query
  select case when q.answered_at is not null then 'answered' when q.until <= holdfast.now() then 'late' else 'open' end,
         q.id, q.secret, q.until, q.answer
  from holdfast.question q where q.task_id = p_id and q.step = p_step;
end $$;

-- Questions of tasks that ended long ago.
create or replace function holdfast.forget_questions(p_older interval default interval '30 days', p_n int default 1000)
returns int
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from holdfast.question q where q.id = any (array(
      select q.id from holdfast.question q
      where q.id < holdfast.first_uuid(holdfast.now() - p_older) and greatest(q.until, q.answered_at) < holdfast.now() - p_older
        and (select t.version from holdfast.task t where t.id = q.task_id) is null
      order by q.id limit p_n for update skip locked))
    returning q.id
  )
  select count(*)::int from gone
$$;
