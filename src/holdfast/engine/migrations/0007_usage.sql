-- What was spent: a row for each call of a model that a step reported, with all that sums need. Never changed.
--
-- Money is in millionths of a dollar, as decimals: a cent is 10,000. Twelve digits behind the point hold tokens times a price
-- per million tokens without rounding.

create table holdfast.usage (
  task_id uuid not null,
  number int not null,  -- of the step event that told of it
  place int not null,   -- in its list, from 1
  at timestamptz not null,
  step text not null,
  model text not null,
  tokens_in bigint not null check (tokens_in >= 0),
  tokens_out bigint not null check (tokens_out >= 0),
  cost_micros numeric(36, 12) not null check (cost_micros >= 0),
  given bool not null,   -- the cost was told
  priced bool not null,  -- the cost is tokens times a price of the table. Neither: nobody knows it, and it counts 0
  lifecycle smallint not null,
  name text not null,
  owner text not null,
  primary key (task_id, number, place),
  constraint a_cost_has_one_source check (not (given and priced))
) partition by range (task_id);
create index usage_at on holdfast.usage (at);
create index usage_owner on holdfast.usage (owner, at) where owner <> '';
create table holdfast.usage_rest partition of holdfast.usage default;
create trigger refuse_change before update on holdfast.usage
for each row execute function holdfast.refuse_change();

-- What a model costs from a day on, until a newer price. What was recorded keeps the price that it was recorded with.
create table holdfast.price (
  model text not null check (length(model) between 1 and 200),
  since timestamptz not null,
  in_micros_per_million numeric(24, 6) not null check (in_micros_per_million >= 0),
  out_micros_per_million numeric(24, 6) not null check (out_micros_per_million >= 0),
  set_by text not null,
  set_at timestamptz not null,
  primary key (model, since)
);

-- What step events tell until now.
insert into holdfast.usage
select e.task_id, e.number, u.place, e.at, e.step, left(u.one ->> 'model', 200), coalesce(s.tokens_in, 0),
       coalesce(s.tokens_out, 0), coalesce(s.cents, 0) * 10000, s.cents is not null, false, t.lifecycle, t.name, t.owner
from holdfast.step_event e
join (select id, lifecycle, name, owner from holdfast.task
      union all select id, lifecycle, name, owner from holdfast.task_done) t on t.id = e.task_id
cross join lateral jsonb_array_elements(
  case jsonb_typeof(e.data) when 'array' then e.data when 'object' then jsonb_build_array(e.data) end)
  with ordinality u(one, place)
cross join lateral (
  select max(f.amount) filter (where f.key = 'tokens_in') as tokens_in,
         max(f.amount) filter (where f.key = 'tokens_out') as tokens_out,
         max(f.amount) filter (where f.key = 'cost_cents') as cents
  from (select f.key, case when jsonb_typeof(f.value) = 'number'
                           then least(greatest((f.value #>> '{}')::numeric, 0), 1e15) end as amount
        from jsonb_each(case when jsonb_typeof(u.one) = 'object' then u.one end) f) f) s
where e.kind in ('step_completed', 'usage') and jsonb_typeof(u.one -> 'model') = 'string';
