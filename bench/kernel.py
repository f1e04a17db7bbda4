"""What the rules cost: processor time of the Postgres process for 1,000 tasks, claimed and settled.

Against the fewest row writes that a leased task needs (claim with SKIP LOCKED, delete), with no matrix, no event, no
history. One connection, so nothing waits; time is what the scheduler counted for the server's process (Linux). Three
rounds, the variants in turn, on the server of the test ground (fsync off) with the real clock.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import asyncpg

from holdfast.kernel.migrate import migrate
from holdfast.kernel.postgres import connect
from holdfast.kernel.store import Store
from holdfast.kernel.task import Done, Settlement, Submission
from holdfast.lifecycles import declare_all
from holdfast.testing import Database, Ground

ROUNDS, TASKS = 3, 4000
LEASE = timedelta(seconds=30)

BARE = """
create table bare (id bigint primary key generated always as identity, queue text, priority smallint,
                   due_at timestamptz, token uuid, payload jsonb);
create index on bare (queue, priority, due_at, id) where token is null;
"""

Drain = Callable[[asyncpg.Connection, Store, int], Awaitable[None]]


def measure() -> dict[str, list[float]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Ground(Path(folder, "ground")) as ground,
        ground.empty_database() as database,
    ):
        return asyncio.run(compare(database))


async def compare(database: Database) -> dict[str, list[float]]:
    await migrate(database.owner_url)
    variants: dict[str, tuple[int, Drain]] = {
        "bare statements, 100 a call": (100, drain_bare),
        "kernel, 1 a call": (1, drain),
        "kernel, 10 a call": (10, drain),
        "kernel, 100 a call": (100, drain),
        "kernel, 500 a call": (500, drain),
        "kernel, 100 a call, fused": (100, drain_fused),
    }
    seconds: dict[str, list[float]] = {name: [] for name in [*variants, "submit, 1,000 a call"]}
    connection = await connect(database.owner_url, prepared=True)
    store = Store(connection)
    await declare_all(store)
    await connection.execute(BARE)
    number = await connection.fetchval("select pg_backend_pid()")
    for _ in range(ROUNDS):
        for name, (batch, work) in variants.items():
            before = processor(number)
            await fill(connection, store, bare=work is drain_bare)
            filled = processor(number)
            await work(connection, store, batch)
            seconds[name].append((processor(number) - filled) / TASKS * 1000)
            if work is drain:
                seconds["submit, 1,000 a call"].append((filled - before) / TASKS * 1000)
    await connection.close()
    return seconds


def processor(number: int) -> float:
    """Seconds that a process has run."""
    return int(Path(f"/proc/{number}/schedstat").read_text().split()[0]) / 1e9


async def fill(connection: asyncpg.Connection, store: Store, *, bare: bool) -> None:
    for _ in range(TASKS // 1000):
        if bare:
            await connection.execute(
                "insert into bare (queue, priority, due_at, payload) select 'default', 0, now(), '{}'"
                " from generate_series(1, 1000)"
            )
        else:
            await store.submit(*(Submission("work", {"n": n}) for n in range(1000)))


async def drain_bare(connection: asyncpg.Connection, _: Store, batch: int) -> None:
    while rows := await connection.fetch(
        "with picked as materialized (select id from bare where queue = 'default' and priority = 0 and due_at <= now()"
        " and token is null order by due_at, id limit $1 for update skip locked)"
        " update bare set token = gen_random_uuid() where id = any (array(select id from picked))"
        " returning id, payload",
        batch,
    ):
        await connection.execute(
            "delete from bare where id = any ($1) and token is not null", [row["id"] for row in rows]
        )


async def drain(_: asyncpg.Connection, store: Store, batch: int) -> None:
    while leases := await store.claim(["default"], batch, lasting=LEASE, worker="bench", names=["work"]):
        await store.settle(*((lease, Done()) for lease in leases))


async def drain_fused(_: asyncpg.Connection, store: Store, batch: int) -> None:
    settlements: list[Settlement] = []
    while True:
        _refused, leases = await store.turn(
            settlements, ["default"], batch, lasting=LEASE, worker="bench", names=["work"]
        )  # fmt: skip
        if not leases:
            return
        settlements = [(lease, Done()) for lease in leases]
