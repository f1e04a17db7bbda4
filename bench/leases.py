"""What it costs to hold many leases: a heartbeat for 10,000 in one statement, and the sweep beside so many.

Every process sweeps about twice a second, every supervisor beats three times within a lease. The limit beside the
heartbeat is an update of as many rows that are only an id and a time.
"""

import statistics
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import asyncpg

from bench.engine import AT_ONCE, fill
from bench.frame import Bench, servers, spending
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Lease

HELD = (0, 2_000, 10_000, 20_000)
BEATING = 10_000
LASTING = timedelta(hours=1)
times = 5

LIMIT = """
create table bare_beat (id uuid primary key, expires_at timestamptz) with (fillfactor = 50);
insert into bare_beat select gen_random_uuid(), now() from generate_series(1, {rows});
"""


async def measure(bench: Bench) -> None:
    beating = bench.size(BEATING)
    async with bench.database("leases") as place, place.connections() as (connection,):
        await connection.execute(LIMIT.format(rows=beating))
        rows = [row["id"] for row in await connection.fetch("select id from bare_beat")]
        store = Store(connection)
        for _ in range(bench.rounds):
            await fill(store, bench.size(HELD[-1]))
            held: list[Lease] = []
            for number in HELD:
                await take(store, held, bench.size(number) if number else 0)
                beside = f"sweep, {HELD[0]} leases held" if number else None
                await note(bench, connection, f"sweep, {len(held):,} leases held", store.sweep, beside)
            await note_beats(bench, connection, rows, held[:beating])
            for first in range(0, len(held), AT_ONCE):
                await store.settle(*((lease, Done()) for lease in held[first : first + AT_ONCE]))
            await connection.execute("vacuum holdfast.task, holdfast.beat, bare_beat")


async def note_beats(bench: Bench, connection: asyncpg.Connection, rows: list[UUID], held: list[Lease]) -> None:
    async def update() -> None:
        await connection.execute("update bare_beat set expires_at = now() where id = any ($1)", rows)

    async def beat() -> None:
        await Store(connection).heartbeat(held, lasting=LASTING)

    limit = f"limit, update {len(rows):,} rows"
    await note(bench, connection, limit, update)
    await note(bench, connection, f"first heartbeat of {len(held):,} leases", beat, limit, once=True)
    await note(bench, connection, f"heartbeat of {len(held):,} leases", beat, limit)


async def take(store: Store, held: list[Lease], number: int) -> None:
    while len(held) < number:
        n = min(AT_ONCE, number - len(held))
        held += await store.claim(["default"], n, lasting=LASTING, worker="bench")


async def note(
    bench: Bench,
    connection: asyncpg.Connection,
    name: str,
    work: Callable[[], Awaitable[object]],
    beside: str | None = None,
    *,
    once: bool = False,
) -> None:
    """The median of a few, by the clock and of the server's processor."""
    seen = []
    for _ in range(1 if once else times):
        with spending(servers([connection])) as spent:
            await work()
        seen.append(spent)
    bench.note(name, statistics.median(one.seconds for one in seen) * 1000, "ms", beside)
    of_processor = f"{beside}, processor" if beside else None
    bench.note(f"{name}, processor", statistics.median(one.processor for one in seen) * 1000, "ms", of_processor)
