"""A database that a test has used serves the next one only if nothing tells it from a new copy."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from holdfast.engine.task import Done, Failed, Submission
from holdfast.errors import DatabaseUnreachable
from holdfast.postgres.connections import connect
from holdfast.testing import Database, Ground
from holdfast.testing.ground import SpareDatabases, uses_at_most
from holdfast.testing.reuse import Snapshot, rows_restored_at_most
from tests.eventually import eventually
from tests.promises.stage import take

OWN = """
create table public.orders
  (id int generated always as identity, total int, twice int generated always as (total * 2) stored);
insert into public.orders (total) select generate_series(1, 3);
create sequence public.numbers;
create table public.letters (t text, total int);
insert into public.letters values ('t', 1);
select lo_from_bytea(7, 'seven');
create schema "of Mine";
create table "of Mine"."Lines" ("No" int);
insert into "of Mine"."Lines" values (7)
"""


@pytest.fixture(scope="module")
def spares(ground: Ground) -> Iterator[SpareDatabases]:
    """Databases with tables of a user's own, which hold rows, beside those of Holdfast."""
    template = f"template_{uuid4().hex[:8]}"

    async def fill() -> None:
        connection = await asyncpg.connect(ground.server.owner_url(template, by_socket=True))
        await connection.execute(OWN)
        await connection.close()

    with ground.fresh_database() as made, ExitStack() as stack:
        ground.background.call(execute(ground, f"create database {template} template {made.name} strategy file_copy"))
        stack.callback(lambda: ground.background.call(execute(ground, f"drop database {template} with (force)")))
        ground.background.call(fill())
        spares = SpareDatabases(ground, template)
        stack.callback(spares.close)
        yield spares


async def execute(ground: Ground, statement: str) -> None:
    connection = await asyncpg.connect(ground.server.owner_url("postgres", by_socket=True))
    await connection.execute(statement)
    await connection.close()


async def what_is_in(database: Database) -> dict[str, str]:
    async with database.connect_owner() as connection:
        snapshot = await Snapshot.of(connection)
    return {one.quoted: one.digest for one in snapshot.relations}


async def test_the_next_test_finds_what_the_first_one_found(
    spares: SpareDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.testing.reuse.sessions_end_within_ms", 60_000)
    with spares.borrow() as first:
        found = await what_is_in(first)
        async with first.store() as store:
            await store.submit(*(Submission("work", key=f"k{n}", tags=["a"]) for n in range(20)))
            leases = await take(store, n=10)
            await store.settle(*((lease, Done(n)) for n, lease in enumerate(leases[:5])))
            await store.settle(*((lease, Failed("Fatal", "no")) for lease in leases[5:]))
            await store.limit_concurrency("k", 3)
            await store.pause_queue("default")
        first.clock.advance(days=3)
        first.ask_owner("insert into public.orders (total) values (9) returning nextval('public.numbers')")
        first.ask_owner("delete from public.orders where total = 2 returning 1")
        first.ask_owner("""update "of Mine"."Lines" set "No" = 8 returning 1""")
        first.ask_owner("update public.letters set total = 2 returning 1")
        first.ask_owner("set search_path = nowhere")
        assert await what_is_in(first) != found
    with spares.borrow() as second:
        assert second is first
        assert await what_is_in(second) == found
        assert second.clock.now().isoformat() == "2030-01-01T00:00:00+00:00"
        assert second.ask_owner("show search_path") != "nowhere"
        orders = second.ask_owner("select array_agg((id, total, twice)::text order by id) from public.orders")
        assert orders == ["(1,1,2)", "(2,2,4)", "(3,3,6)"]
        assert second.ask_owner("select total from public.letters") == 1
        assert second.ask_owner("select nextval('public.numbers')") == 1
        assert second.ask_owner("insert into public.orders (total) values (1) returning id") == 4
        async with second.store() as store:
            assert [one.created for one in await store.submit(Submission("work", key="k1"))] == [True]
            assert await store.verify() == []


@pytest.mark.parametrize(
    "change",
    [
        "create table public.more ()",
        "alter table public.orders add column note text",
        "alter table public.orders alter column total set default 5",
        "alter table public.orders add check (total > 0)",
        "truncate public.orders",
        "create index on public.orders (total)",
        "create view public.seen as select 1 as one",
        "create or replace function holdfast.now() returns timestamptz language sql as 'select pg_catalog.now()'",
        "drop function holdfast.test_next",
        "grant select on public.orders to public",
        "revoke execute on function holdfast.sweep from holdfast_app",
        "create trigger t before insert on public.orders for each row execute function"
        " pg_catalog.suppress_redundant_updates_trigger()",
        "alter table holdfast.task disable trigger user",
        "create type public.kind as enum ('a')",
        "create schema more",
        "analyze public.orders",
        'create collation public.german from "C"',
        "create text search configuration public.words (copy = simple)",
        "create cast (int as public.letters) with inout",
        "create operator public.=== (function = int4eq, leftarg = int, rightarg = int)",
        "create foreign data wrapper elsewhere",
        "comment on table public.orders is 'more'",
        "do $$ begin execute format('comment on database %I is ''mine''', current_database()); end $$",
        "do $$ begin execute format('alter database %I owner to holdfast_app', current_database()); end $$",
        "select lo_put(7, 0, 'S')",
        "do $$ begin execute format('alter database %I set work_mem = ''1MB''', current_database()); end $$",
        "do $$ begin execute format('grant connect on database %I to public', current_database()); end $$",
        "drop schema holdfast cascade",
        "drop table holdfast.test_clock",
        "update holdfast.test_clock set run = null",
        f"insert into public.orders (total) select generate_series(1, {rows_restored_at_most + 1})",
    ],
)
def test_whoever_changes_more_than_rows_gets_it_dropped(spares: SpareDatabases, change: str) -> None:
    with spares.borrow() as database:
        database.ask_owner(change)
    with spares.borrow() as other:
        assert other is not database
        assert other.ask_owner("select count(*) from pg_database where datname = $1", database.name) == 0


@pytest.mark.parametrize(
    ("change", "mended", "refusal"),
    [
        (
            "do $$ begin execute format('alter database %I is_template true', current_database()); end $$",
            "do $$ begin execute format('alter database %I is_template false', current_database()); end $$",
            asyncpg.WrongObjectTypeError,
        ),
        (
            "create subscription mine connection 'host=/nowhere' publication p"
            " with (connect = false, slot_name = none, create_slot = false)",
            "drop subscription mine",
            asyncpg.ObjectInUseError,
        ),
    ],
)
def test_a_test_that_makes_its_database_undroppable_fails_and_no_later_one(
    ground: Ground, spares: SpareDatabases, change: str, mended: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal), spares.borrow() as database:
        database.ask_owner(change)
    with spares.borrow() as other:
        assert other is not database
    database.ask_owner(mended)
    ground.drop(database)


def test_a_test_may_drop_its_database_and_end_all_sessions(ground: Ground) -> None:
    with ground.fresh_database() as database:
        ground.background.call(execute(ground, f"drop database {database.name}"))
        owner = ground._postgres._owner
        assert owner
        ground.background.call(execute(ground, f"select pg_terminate_backend({owner.get_server_pid()}, 10000)"))
    with ground.fresh_database() as another:
        assert another.ask_owner("select count(*) from holdfast.task") == 0


async def test_a_session_that_is_left_open_costs_the_database(spares: SpareDatabases) -> None:
    """Its owner might go on in the middle of the next test."""
    with spares.borrow() as database:
        left = await asyncpg.connect(database.url)
        await left.execute("begin")
        await left.fetch("select holdfast.submit('work')")
    with spares.borrow() as other:
        assert other is not database
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await left.fetch("select 1")


async def test_who_outlives_a_test_does_not_write_into_the_next_one(spares: SpareDatabases) -> None:
    with spares.borrow() as database:
        async with database.store() as store:
            await store.submit(Submission("work"))
        bridge = database.bridge()
    with spares.borrow() as again:
        assert again is database
        with pytest.raises(DatabaseUnreachable, match="over"):
            await store.submit(Submission("late"))
        with pytest.raises(DatabaseUnreachable, match="over"):
            await bridge.execute("select holdfast.submit('late')")
        assert again.ask_owner("select count(*) from holdfast.task") == 0


async def test_who_still_waits_for_a_connection_when_the_test_ends_is_refused(
    spares: SpareDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, opens = threading.Event(), threading.Event()

    async def open_slowly(*given: Any, **more: Any) -> asyncpg.Connection:
        opens.set()
        await asyncio.to_thread(may_open.wait, 60)
        return await connect(*given, **more)

    with spares.borrow() as database:
        for one in database._kept:
            database.ground.background.call(one.close())
        monkeypatch.setattr("holdfast.testing.ground.connect", open_slowly)
        late = asyncio.create_task(database.bridge().execute("select holdfast.submit('late')"))
        assert await asyncio.to_thread(opens.wait, 60)
    with spares.borrow() as again:
        assert again is database
        may_open.set()
        with pytest.raises(DatabaseUnreachable, match="over"):
            await late
        assert again.ask_owner("select count(*) from holdfast.task") == 0


async def test_a_setting_that_came_and_went_is_in_no_session_of_the_next_test(spares: SpareDatabases) -> None:
    change = "do $$ begin execute format('alter database %I {}', current_database()); end $$"
    with spares.borrow() as database:
        database.ask_owner(change.format("set lock_timeout = ''4s''"))
        async with asyncio.TaskGroup() as group:  # more at once than are open
            for _ in range(5):
                group.create_task(database.bridge().execute("select pg_sleep(0.01)"))
        database.ask_owner(change.format("reset lock_timeout"))
    with spares.borrow() as other:
        assert [(await other.bridge().fetch("show lock_timeout"))[0][0] for _ in range(5)] == ["0"] * 5


async def test_connections_stay_open_for_the_next_test_and_keep_nothing(spares: SpareDatabases) -> None:
    async def session(database: Database) -> tuple[int, str]:
        query = "select pg_backend_pid(), current_setting('search_path')"
        (row,) = await database.bridge().fetch(query)
        return row[0], row[1]

    with spares.borrow() as database:
        before = await session(database)
        for change in ("set search_path = nowhere", "select pg_advisory_lock(2)", "prepare mine as select 1"):
            await database.bridge().execute(change)
        assert await session(database) != before
    with spares.borrow() as again:
        assert (again, await session(again)) == (database, before)
        assert again.ask_owner("select pg_try_advisory_lock(2)")
        await again.bridge().execute("prepare mine as select 1")


async def test_a_call_that_is_still_running_costs_the_database(spares: SpareDatabases) -> None:
    with spares.borrow() as database:
        running = asyncio.create_task(database.bridge().fetch("select pg_advisory_lock(1), pg_sleep(100)"))
        held = (
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
            " where l.locktype = 'advisory' and d.datname = current_database()"
        )
        await eventually(lambda: asyncio.to_thread(database.ask_owner, held))
    with spares.borrow() as other:
        assert other is not database
    with pytest.raises(asyncpg.PostgresError):
        await running


@pytest.mark.parametrize("wrong", ["run", "name"])
async def test_nothing_is_touched_where_the_mark_of_this_run_is_not_found(ground: Ground, wrong: str) -> None:
    """A database that somebody named is never put back, whatever the caller believes."""
    with ground.database() as database:
        async with database.connect_owner() as owner:
            snapshot = await Snapshot.of(owner)
            async with database.connect() as client, database.store() as store:
                await store.submit(Submission("precious"))
                run, name = (uuid4(), database.name) if wrong == "run" else (ground.run, "another")
                fingerprint = await owner.fetchval(snapshot.fingerprint)
                assert not await snapshot.restore(owner, run=run, database=name, fingerprint=fingerprint, kept=[])
                assert await client.fetchval("select 1") == 1, "nobody was sent away"
        assert database.ask_owner("select count(*) from holdfast.task") == 1


def test_it_is_used_a_limited_number_of_times(spares: SpareDatabases) -> None:
    seen = []
    for _ in range(uses_at_most + 1):
        with spares.borrow() as database:
            seen.append(database.name)
    assert max(map(seen.count, seen)) <= uses_at_most
    assert len(set(seen)) >= 2


def test_time_passes_in_a_live_database(ground: Ground) -> None:
    with ground.live_database() as database:
        assert database.ask_owner("select holdfast.now() = pg_catalog.now()")
        assert database.ask_owner("select holdfast.make_partitions()") in (0, 1), "one more after midnight"


def test_a_fresh_database_is_nobody_elses(ground: Ground) -> None:
    with ground.fresh_database() as first:
        assert first.ask_owner("select count(*) from holdfast.task") == 0
    with ground.fresh_database() as second:
        assert second.name != first.name
