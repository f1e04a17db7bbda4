-- The moved clock of a test database: `holdfast.now()` reads this row, so every connection sees the time a test has set.
create table holdfast.test_clock (
  single bool primary key default true check (single),
  at timestamptz not null,
  run uuid  -- the test run that copied this database: no other run may restore it
);
insert into holdfast.test_clock (at) values ('2030-01-01 00:00:00+00');
grant select on holdfast.test_clock to public;

create or replace function holdfast.now() returns timestamptz
language sql stable parallel safe
as 'select at from holdfast.test_clock';

-- When time alone will change something next. A lease ends just after its time, as `sweep` sees it.
create function holdfast.test_next(p_held uuid[]) returns timestamptz
language sql stable
as $$
  select min(x.at) from (
    select t.due_at as at from holdfast.task t where t.lease_token is null and t.actor in ('worker', 'clock')
    union all
    select t.deadline from holdfast.task t where t.actor <> 'owner'
    union all
    select greatest(t.lease_expires_at, b.expires_at) + interval '1 millisecond'
    from holdfast.task t left join holdfast.beat b on b.task_id = t.id and b.token = t.lease_token
    where t.lease_token is not null and t.id <> all (p_held)
    union all
    select s.until from holdfast.setback s) x
  where x.at > holdfast.now()
$$;
revoke execute on function holdfast.test_next(uuid[]) from public;
