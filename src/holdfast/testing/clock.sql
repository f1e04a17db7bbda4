-- The moved clock of a test database: `holdfast.now()` reads this row, so every connection sees the time a test has set.
create table holdfast.test_clock (
  single bool primary key default true check (single),
  at timestamptz not null
);
insert into holdfast.test_clock (at) values ('2030-01-01 00:00:00+00');
grant select on holdfast.test_clock to public;

create or replace function holdfast.now() returns timestamptz
language sql stable parallel safe
as 'select at from holdfast.test_clock';
