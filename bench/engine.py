"""What the rules cost: tasks submitted, claimed and settled through the engine, beside the limit of the same round.

`claim and settle` are two calls and two commits for a batch, `turn` is one (what was claimed last is settled, then more
is claimed), as workers do. Time by the clock, and time that the server's processes ran (`processor`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import asyncpg

from bench import limits
from bench.frame import Bench, Spent, servers, spending
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Settlement, Submission
from holdfast.worker.claim_loop import ClaimCursor

BATCHES = {1: 500, 10: 3_000, 100: 10_000, 500: 10_000}
AT_ONCE = 1000
LEASE = timedelta(seconds=30)

Drain = Callable[[Store, int], Awaitable[None]]


async def measure(bench: Bench) -> None:
    async with bench.database("engine") as place, place.connections(2) as connections:
        await connections[0].execute(limits.TABLE)
        for _ in range(bench.rounds):
            await note_submits(bench, connections[0])
            for number in (1, 2):
                for batch, tasks in BATCHES.items():
                    used, wanted = connections[:number], bench.size(tasks)
                    limit = await limits.note_drain(bench, used, batch, wanted)
                    for kind, drain in DRAINS.items():
                        name = limit.replace("limit", kind)
                        await fill(Store(used[0]), wanted)
                        async with bench.watched(place, name, used):
                            spent = await drained(used, drain, batch)
                        bench.note_drain(name, wanted, spent, limit)


async def note_submits(bench: Bench, connection: asyncpg.Connection) -> None:
    await limits.note_inserts(bench, connection)
    store = Store(connection)
    tasks = bench.size(500)
    with spending(servers([connection])) as spent:
        for number in range(tasks):
            await store.submit(Submission("work", {"n": number}))
    bench.note_drain("submit 1", tasks, spent, "limit, insert 1")
    await drain_fused(store, AT_ONCE)
    tasks = bench.size(10 * AT_ONCE)
    with spending(servers([connection])) as spent:
        await fill(store, tasks)
    bench.note_drain("submit 1,000", tasks, spent, "limit, insert 1,000")
    await drain_fused(store, AT_ONCE)


async def fill(store: Store, tasks: int, name: str = "work") -> None:
    for first in range(0, tasks, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, tasks))
        await store.submit(*(Submission(name, {"n": number}) for number in numbers))


async def drained(connections: Sequence[asyncpg.Connection], drain: Drain, batch: int) -> Spent:
    with spending(servers(connections)) as spent:
        await asyncio.gather(*(drain(Store(connection), batch) for connection in connections))
    return spent


async def drain_apart(store: Store, batch: int) -> None:
    while leases := await store.claim(["default"], batch, lasting=LEASE, worker="bench", names=["work"]):
        await store.settle(*((lease, Done()) for lease in leases))


async def drain_fused(store: Store, batch: int, seen: Callable[[int], None] = lambda leases: None) -> None:
    """Calls `seen` with how many were claimed, after each call."""
    settlements: list[Settlement] = []
    cursor = ClaimCursor()
    while True:
        since = cursor.since()
        _, leases = await store.settle_and_claim(
            settlements, ["default"], batch, lasting=LEASE, worker="bench", names=["work"], since=since
        )  # fmt: skip
        cursor.move(leases, batch)
        seen(len(leases))
        if not leases and since is None:
            return
        settlements = [(lease, Done()) for lease in leases]


DRAINS: dict[str, Drain] = {"claim and settle": drain_apart, "turn": drain_fused}
