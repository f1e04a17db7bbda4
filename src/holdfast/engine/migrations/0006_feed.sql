-- The live feed finds events by the transaction that wrote them.
--
-- The entries of a transaction share one key, so the index is small (7 % of the table). Writers pay for it: in 24 paired
-- rounds on a busy machine a submit took 9 % more in the median (quartiles -12 to +43), a claim and a settle 4 % (-4 to
-- +12); the best rounds differ by 3 and 2 %. There is no BRIN for numbers of transactions, and without an index a look
-- at the feed would read every event.

create index event_xid on holdfast.event (xid);

-- What a reader must have seen to have missed nothing that is gone with a dropped partition.
create table holdfast.feed_floor (
  single bool primary key default true check (single),
  seen pg_snapshot not null
);
insert into holdfast.feed_floor (seen) values ('1:1:');
