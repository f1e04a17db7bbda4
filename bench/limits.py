"""The limits: the fewest row writes that a durable task needs, and one commit.

A task is one row: inserted, claimed by an update that skips what others have locked, deleted. No matrix, no event, no
history, no fence. Prepared statements, on one connection and on two, which take turns in one Python process.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence

import asyncpg

from bench.frame import Bench, Spent, servers, spending

BATCHES = {1: 1_500, 10: 10_000, 100: 30_000, 500: 30_000}
"""How many a call, and how many in all, so that every drain takes about a second."""
AT_ONCE = 1000

TABLE = """
create table bare (id bigint primary key generated always as identity, queue text, priority smallint,
                   due_at timestamptz, token uuid, payload jsonb);
create index on bare (queue, priority, due_at, id) where token is null;
create table bare_commit (id bigint primary key generated always as identity, payload jsonb);
"""
INSERT = "insert into bare (queue, priority, due_at, payload) select 'default', 0, now(), p from unnest($1::jsonb[]) p"
CLAIM = """
with picked as materialized (
  select id from bare where queue = 'default' and priority = 0 and due_at <= now() and token is null
  order by due_at, id limit $1 for update skip locked)
update bare set token = gen_random_uuid() where id = any (array(select id from picked)) returning id, payload
"""
DELETE = "delete from bare where id = any ($1) and token is not null"


async def measure(bench: Bench) -> None:
    async with bench.database("limits") as place, place.connections(2) as connections:
        await connections[0].execute(TABLE)
        for _ in range(bench.rounds):
            bench.note("one commit", await commit(connections[0], bench.size(500)) * 1000, "ms")
            await note_inserts(bench, connections[0])
            for number in (1, 2):
                for batch, tasks in BATCHES.items():
                    await note_drain(bench, connections[:number], batch, bench.size(tasks))


def named(batch: int, connections: int) -> str:
    return f"limit, {batch} a call, {connections} connection{'s' if connections > 1 else ''}"


async def note_drain(bench: Bench, connections: Sequence[asyncpg.Connection], batch: int, tasks: int) -> str:
    """The name of the figure, for those that stand beside it."""
    name = named(batch, len(connections))
    bench.note_drain(name, tasks, await drained(connections, batch, tasks))
    return name


async def drained(connections: Sequence[asyncpg.Connection], batch: int, tasks: int) -> Spent:
    await fill(connections[0], tasks)
    with spending(servers(connections)) as spent:
        await asyncio.gather(*(drain(connection, batch) for connection in connections))
    return spent


async def note_inserts(bench: Bench, connection: asyncpg.Connection) -> None:
    tasks = bench.size(1000)
    with spending(servers([connection])) as spent:
        for number in range(tasks):
            await connection.execute(INSERT, [json.dumps({"n": number})])
    bench.note_drain("limit, insert 1", tasks, spent)
    tasks = bench.size(20 * AT_ONCE)
    with spending(servers([connection])) as spent:
        await fill(connection, tasks)
    bench.note_drain("limit, insert 1,000", tasks, spent)
    await connection.execute("truncate bare")


async def fill(connection: asyncpg.Connection, tasks: int) -> None:
    for first in range(0, tasks, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, tasks))
        await connection.execute(INSERT, [json.dumps({"n": number}) for number in numbers])


async def drain(connection: asyncpg.Connection, batch: int) -> None:
    while rows := await connection.fetch(CLAIM, batch):
        await connection.execute(DELETE, [row["id"] for row in rows])


async def commit(connection: asyncpg.Connection, times: int) -> float:
    """The seconds that one small insert takes until it is committed, in the median."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        await connection.execute("insert into bare_commit (payload) values ('{}')")
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
