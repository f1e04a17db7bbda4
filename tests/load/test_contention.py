"""Many workers on one queue: nothing lost, nothing twice."""

import asyncio
from collections import Counter

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Lease, Outcome, Settlement, Submission
from holdfast.errors import TaskBusy
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE

tasks, claimers, batch = 20_000, 16, 50


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_sixteen_claimers_on_twenty_thousand_tasks_lose_nothing(database: Database) -> None:
    claimed: Counter[object] = Counter()
    settled: Counter[object] = Counter()
    async with database.store(connections=claimers) as store:
        for _ in range(tasks // 1000):
            await store.submit(*(Submission("work", {"n": n}) for n in range(1000)))

        async def work(worker: str) -> None:
            finished: list[Settlement] = []
            while True:
                refused, leases = await store.settle_and_claim(
                    finished, ["default"], batch, lasting=MINUTE, worker=worker
                )
                settled.update(lease.task_id for lease, _ in finished if lease.task_id not in refused)
                claimed.update(lease.task_id for lease in leases)
                if not leases:
                    break
                finished = [(lease, Done(lease.payload["n"])) for lease in leases]

        await asyncio.gather(*(work(f"worker-{n}") for n in range(claimers)))
        assert (len(claimed), set(claimed.values())) == (tasks, {1})
        assert settled == claimed
        assert await store.verify() == []
    assert database.ask_owner("select count(*) from holdfast.task") == 0
    assert database.ask_owner("select count(*) from holdfast.event") == 3 * tasks


@pytest.mark.deep
@pytest.mark.timeout(180)
async def test_a_storm_of_graphs_cancels_failures_and_lost_workers_leaves_nothing_stuck(database: Database) -> None:
    """Submits onto live tasks, settles in any order, cancels and sweeps, all at once; then everything drains."""
    async with database.store(connections=12) as store:
        known: list[object] = []

        async def submit(seed: int) -> None:
            for n in range(20):
                after = [known[(seed * 7 + n * 3 + i) % len(known)] for i in range(2)] if known else []
                policy = ("cancel", "skip", "ignore")[(seed + n) % 3]
                made = await store.submit(
                    Submission("work", after=after, on_failure=policy, limit_key=f"key-{n % 3}" if n % 2 else None),  # type: ignore[arg-type]
                    Submission("work", after=[0]),
                )
                known.extend(one.id for one in made)

        async def work(worker: int) -> None:
            for _ in range(60):
                for lease in await store.claim(["default"], 5, lasting=MINUTE, worker=str(worker)):
                    await settle(store, lease)
                await asyncio.sleep(0)

        async def cancel() -> None:
            for n in range(60):
                if known:
                    await store.cancel(str(known[n * 5 % len(known)]))
                await asyncio.sleep(0)

        async def sweep(clock: Clock) -> None:
            for _ in range(40):
                await asyncio.to_thread(clock.advance, seconds=20)
                await store.sweep()

        await asyncio.gather(
            *(submit(n) for n in range(4)), *(work(n) for n in range(4)), cancel(), cancel(), sweep(database.clock)
        )
        await drain(store, database.clock)
        assert len(known) == 160
        assert await store.verify() == []
    assert database.ask_owner("select count(*) from holdfast.task") == 0


async def settle(store: Store, lease: Lease) -> None:
    """As a worker does: whoever finds a task busy asks again."""
    for call in range(1, 6):
        try:
            await store.settle((lease, outcome_of(lease)))
        except TaskBusy:
            assert call < 5, "five times in a row somebody held it for seconds"
        else:
            return


def outcome_of(lease: Lease) -> Outcome:
    kind = (lease.task_id.int + lease.version) % 10
    return (
        Later()
        if kind == 0
        else Failed("Transient", "no")
        if kind == 1
        else Failed("Fatal", "no")
        if kind == 2
        else Done()
    )


async def drain(store: Store, clock: Clock) -> None:
    for _ in range(200):
        clock.advance(minutes=10)
        await store.sweep()
        leases = await store.claim(["default"], 100, lasting=MINUTE, worker="drain")
        await store.settle(*((lease, Done()) for lease in leases))
