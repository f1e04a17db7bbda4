-- answer.sql: a person answers. The answer is the result of the step, and a task that sleeps on it is due at once.
-- Called by those who have the link, and by owners and operators. Locks the task, then the question. A task that a worker
-- still holds is not moved: the worker's own `later` sees the step under the same lock, and does not wait for it.

-- By the hash of the secret, or by task and step; a step of null is the only open question of the task. Answers whether
-- the same answer was given before. Raises TK070 (answered otherwise), TK071 (too late), TK072 (no such question).
create or replace function holdfast.answer(
  p_answer jsonb, p_by text default null, p_hash bytea default null, p_task uuid default null, p_step text default null,
  p_owner text default null)
returns table (id uuid, task_id uuid, step text, repeated bool)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  q holdfast.question;
  v_task record;
  v_lives bool;
begin
  perform holdfast.check_value(p_answer);
  if p_answer is null then
    perform holdfast.refuse('TK010', 'An answer is a JSON value.', 'Say null as JSON, if that is the answer.');
  end if;
  q := holdfast.find_question(p_hash, p_task, p_step, p_owner);
  select t.*, l.name as machine, l.effects into v_task
  from holdfast.task t join holdfast.lifecycle l on l.id = t.lifecycle where t.id = q.task_id for update of t;
  v_lives := found and not v_task.cancel_requested;
  select * into q from holdfast.question o where o.id = q.id for update;  -- as it is, now that nobody else decides
  if q.answered_at is not null then
    if q.answer <> p_answer then
      perform holdfast.refuse('TK070', format('It was answered at %s.', q.answered_at),
                              'The first answer counts; the task has it already.');
    end if;
    return query select q.id, q.task_id, q.step, true;
    return;
  elsif not v_lives then
    perform holdfast.refuse('TK071', 'The task that asked has ended.', 'The answer is not needed any more.');
  elsif q.until <= holdfast.now() then
    perform holdfast.refuse('TK071', format('It had to be answered until %s.', q.until),
                            'The answer is not needed any more.');
  end if;
  update holdfast.question o set answered_at = holdfast.now(), answered_by = p_by, answer = p_answer, secret = null
  where o.id = q.id;
  insert into holdfast.step as s (task_id, name, done, attempt, token, result, at)
  values (q.task_id, q.step, true, q.attempt, q.token, p_answer, holdfast.now())
  on conflict (task_id, name) do update
    set done = true, attempt = excluded.attempt, token = excluded.token, result = excluded.result, at = excluded.at
    where not s.done;
  if not found then
    perform holdfast.refuse('TK071', format('The task has a step %s that was done otherwise.', quote_literal(q.step)),
                            'Give the question a name of its own.');
  end if;
  perform holdfast.add_step_event(q.task_id, q.step, 'question_answered', q.attempt, jsonb_build_object('by', p_by));
  perform holdfast.add_step_event(q.task_id, q.step, 'step_completed', q.attempt);
  if v_task.effects is not null then
    perform holdfast.run_effects(array[v_task.effects], array[(
      q.task_id, v_task.machine, v_task.name, q.owner, 'step', q.step, v_task.state, v_task.state, q.attempt, q.token,
      p_answer)::holdfast.moved]);
  end if;
  if v_task.lease_token is null and v_task.actor = 'worker' and v_task.due_at > holdfast.now()
     and coalesce(v_task.note -> 'steps' ? q.step, false) then
    perform holdfast.move(array[q.task_id], array['later'], array[holdfast.now()],
                          array[jsonb_build_object('kind', 'answered', 'step', q.step)]);
  end if;
  return query select q.id, q.task_id, q.step, false;
end $$;

-- The question that is meant, whatever has become of it. Raises TK072, also for another owner's.
create or replace function holdfast.find_question(p_hash bytea, p_task uuid, p_step text, p_owner text)
returns holdfast.question
language plpgsql stable
as $$
declare
  q holdfast.question;
  v_open text[];
begin
  if p_hash is not null then
    select * into q from holdfast.question o where o.hash = p_hash;
  else
    v_open := array(select o.step from holdfast.question o
                    where o.task_id = p_task and (p_owner is null or o.owner = p_owner) and o.answered_at is null
                    order by o.step);
    if p_step is null and cardinality(v_open) > 1 then
      perform holdfast.refuse('TK010', format('Task %s asks %s questions.', p_task, cardinality(v_open)),
                              format('Name the step: %s.', array_to_string(v_open, ', ')));
    end if;
    select * into q from holdfast.question o
    where o.task_id = p_task and (p_step is null or o.step = p_step) and (p_owner is null or o.owner = p_owner)
    order by o.answered_at is null desc, o.id desc limit 1;
  end if;
  if q.id is null then
    perform holdfast.refuse('TK072', case when p_hash is not null then 'No question has this link.'
      else format('Task %s asks no such question.', p_task) end, 'GET /api/v1/questions lists those that are open.');
  end if;
  return q;
end $$;

-- What the holder of a link sees: what is asked, and whether anybody still waits for the answer.
create or replace function holdfast.read_question(p_hash bytea)
returns table (id uuid, task_id uuid, name text, step text, question text, state text, asked_at timestamptz,
               until timestamptz, answered_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select q.id, q.task_id, t.name, q.step, q.question,
         case when q.answered_at is not null then 'answered' when t.id is null or t.cancel_requested then 'closed'
              when q.until <= holdfast.now() then 'late' else 'open' end,
         q.asked_at, q.until, q.answered_at
  from holdfast.find_question(p_hash, null, null, null) q
  left join lateral (select * from holdfast.task t where t.id = q.task_id offset 0) t on true
$$;

-- Questions that somebody waits for, the oldest first: of one owner, or of all. No secret is among it.
create or replace function holdfast.questions(
  p_owner text default null, p_after uuid default null, p_limit int default 50, p_task uuid default null)
returns table (id uuid, task_id uuid, lifecycle text, name text, owner text, step text, question text,
               asked_at timestamptz, until timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select q.id, q.task_id, l.name, t.name, q.owner, q.step, q.question, q.asked_at, q.until
  from holdfast.question q
  join holdfast.task t on t.id = q.task_id and not t.cancel_requested
  join holdfast.lifecycle l on l.id = t.lifecycle
  where q.answered_at is null and q.until > holdfast.now() and (p_owner is null or q.owner = p_owner)
    and (p_task is null or q.task_id = p_task) and (p_after is null or q.id > p_after)
  order by q.id limit least(p_limit, 1000)
$$;
