"""A worker that runs for long needs no more than one that has just begun."""

import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Clock
from tests.worker import app
from tests.worker.crew import Crew

MEGABYTE = 1024 * 1024


@pytest.mark.deep
async def test_memory_and_files_stay_flat(crew: Crew) -> None:
    worker = crew.start(slots=50)
    (runner,) = worker.runners()

    async def work(count: int) -> tuple[int, int, int, int]:
        await crew.run(*(app.add.submission(n, 1) for n in range(count)))
        assert worker.runners() == [runner]
        used = [(process.memory_info().rss, process.num_fds()) for process in (runner, worker.supervisor)]
        return *used[0], *used[1]

    await work(500)
    before = await work(500)
    for _ in range(3):
        after = await work(1000)
    assert after[0] - before[0] < 20 * MEGABYTE
    assert after[2] - before[2] < 20 * MEGABYTE
    assert (after[1], after[3]) <= (before[1] + 4, before[3] + 4)


async def test_a_worker_that_is_long_gone_is_forgotten(store: Store, clock: Clock) -> None:
    await store.hello("gone", label="", queues=["default"], names=None, slots=1)
    clock.advance(minutes=59)
    await store.hello("here", label="", queues=["default"], names=None, slots=1)
    await store.sweep()
    assert {worker.id for worker in await store.workers()} == {"gone", "here"}
    clock.advance(minutes=2)
    await store.sweep()
    assert {worker.id for worker in await store.workers()} == {"here"}
