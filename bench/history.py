"""What a past costs: the same drain with 1,000,000 finished tasks in the tables, and while a snapshot is held open.

The finished tasks are copies of one that the engine has really finished (its row, its input, its events) with ids and
times of their own: a seventh on each of the last six days and on today, each day in its partition, in the order of
their ids. Triggers are off for the copying only; then the tables are vacuumed and analysed.

The snapshot is that of a transaction (REPEATABLE READ) on another connection, taken after the tasks were made. While it
is open no dead row can go away, so the cost grows with the drain: its first and its last quarter are given too.
"""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import asyncpg

from bench.engine import drain_fused, fill
from bench.frame import Bench, Place, Spent, processor, servers, spending
from holdfast.engine.store.commands import Store

FINISHED = 1_000_000
DAYS = 7
BATCH = 100

NOW = """
create or replace function holdfast.now() returns timestamptz
language sql stable parallel safe as 'select pg_catalog.now() - interval ''{days} days'''
"""
GONE = """
create temp table gone as
select n, at, (lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3)
               || '8' || substr(md5(n::text), 4, 15))::uuid as id
from generate_series(0, {finished} - 1) n
cross join lateral (select n * {days}::bigint / {finished} as day) y
cross join lateral (select y.day, n * {days}::float8 / {finished} - y.day as part) d
cross join lateral (select date_trunc('day', now()) - interval '1 day' * ({days} - 1 - d.day) as midnight) m
cross join lateral (select m.midnight + d.part * case when d.day = {days} - 1 then now() - m.midnight
                                                      else interval '1 day' end as at) a
order by at
"""
TIMES = dict.fromkeys(("due_at", "entered_at", "created_at", "started_at", "finished_at", "at"), "g.at")
KEYS = {"task_done": "id", "input": "id", "event": "task_id"}


async def measure(bench: Bench) -> None:
    tasks = bench.size(20_000)
    async with contextlib.AsyncExitStack() as stack:
        young = await stack.enter_async_context(bench.database("young"))
        old = await stack.enter_async_context(bench.database("old"))
        await grow_old(bench, old)
        finished = f"{bench.size(FINISHED):,} finished"
        for _ in range(bench.rounds):
            for name, place, beside in (("nothing finished", young, None), (finished, old, "nothing finished")):
                async with place.connections() as (connection,):
                    spent, _ = await drained(bench, place, connection, name, tasks)
                bench.note_drain(name, tasks, spent, beside)
        await note_snapshots(bench, young)


async def note_snapshots(bench: Bench, place: Place) -> None:
    tasks = bench.size(50_000)
    for _ in range(bench.rounds):
        for name, beside in (("no snapshot", None), ("a snapshot held", "no snapshot")):
            async with place.connections() as (connection,):
                spent, quarters = await drained(bench, place, connection, name, tasks, held=beside is not None)
            bench.note_drain(name, tasks, spent, beside)
            for label, quarter in (("first quarter", quarters[0]), ("last quarter", quarters[-1])):
                bench.note_drain(f"{name}, {label}", tasks // 4, quarter, beside and f"{beside}, {label}")


async def drained(
    bench: Bench, place: Place, connection: asyncpg.Connection, name: str, tasks: int, *, held: bool = False
) -> tuple[Spent, list[Spent]]:
    """What all of it took, and each quarter. What it leaves is vacuumed away."""
    store, (server,) = Store(connection), servers([connection])
    await fill(store, tasks)
    passed: list[Spent] = []
    claimed = 0

    def seen(leases: int) -> None:
        nonlocal claimed
        claimed += leases
        if claimed >= tasks * len(passed) / 4:
            passed.append(Spent(time.perf_counter(), processor(server)))

    async with snapshot(place) if held else contextlib.nullcontext(), bench.watched(place, name, [connection]):
        seen(0)
        with spending([server]) as spent:
            await drain_fused(store, BATCH, seen)
    await connection.execute("vacuum holdfast.task")
    return spent, [
        Spent(after.seconds - before.seconds, after.processor - before.processor)
        for before, after in itertools.pairwise(passed)
    ]


@contextlib.asynccontextmanager
async def snapshot(place: Place) -> AsyncIterator[None]:
    async with place.connections() as (other,), other.transaction(isolation="repeatable_read"):
        await other.fetchval("select count(*) from holdfast.queue")
        yield


async def grow_old(bench: Bench, place: Place) -> None:
    """Fill the tables with what a week would have left there."""
    async with place.connections() as (connection,):
        store = Store(connection)
        await fill(store, 1)
        await drain_fused(store, 1)
        await connection.execute(NOW.format(days=DAYS - 1))
        await store.make_partitions(DAYS - 1)
        await connection.execute(NOW.format(days=0))
        await connection.execute(GONE.format(finished=bench.size(FINISHED), days=DAYS))
        await connection.execute("set session_replication_role = replica")
        for table, key in KEYS.items():
            await copy_rows(connection, table, key)
        await connection.execute("reset session_replication_role")
        for table in KEYS:
            await connection.execute(f"vacuum (analyze) holdfast.{table}")


async def copy_rows(connection: asyncpg.Connection, table: str, key: str) -> None:
    """One set of the finished task's rows for each that is gone: all columns as they are but the id and the times."""
    columns = [
        row["attname"]
        for row in await connection.fetch(
            "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped"
            " order by attnum", f"holdfast.{table}",
        )
    ]  # fmt: skip
    replaced = {**TIMES, key: "g.id"}
    values = ", ".join(replaced.get(column, f"d.{column}") for column in columns)
    await connection.execute(
        f"create temp table one as select * from holdfast.{table};"
        f"insert into holdfast.{table} ({', '.join(columns)}) select {values} from gone g, one d;"
        "drop table one"
    )
