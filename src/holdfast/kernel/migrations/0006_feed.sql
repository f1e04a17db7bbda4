-- The live feed finds events by the transaction that wrote them.
--
-- A plain index: the newest numbers are what is asked for, in order, and a transaction's entries share one. It costs the
-- writers some 2 % (python -m bench kernel). BRIN would read whole ranges of pages to find the last ten events.

create index event_xid on holdfast.event (xid);

-- What a reader must have seen to have missed nothing that is gone with a dropped partition.
create table holdfast.feed_floor (
  single bool primary key default true check (single),
  seen pg_snapshot not null
);
insert into holdfast.feed_floor (seen) values ('1:1:');
