"""What the supervisor gives back of a runner that has died, and what it leaves to processes that run one task."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Proof
from holdfast.testing import Database
from holdfast.worker import supervisor as module
from holdfast.worker.config import WorkerConfig
from holdfast.worker.runner_handle import RunnerHandle
from holdfast.worker.supervisor import Supervisor
from tests.promises.stage import MINUTE, submit


class SlowToLose(Store):
    """The store, over a connection on which the report of a lost task waits for the test."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def mark_lost(self, proofs: Sequence[Proof]) -> int:
        self.is_asked.set()
        await self.goes_on.wait()
        return await super().mark_lost(proofs)


class Dying(RunnerHandle):
    """A process that has started its task, and dies when the test says so."""

    starts, dies = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        self.has_started = True
        self.starts.set()
        self.exited = asyncio.create_task(self.listen())

    def begin(self) -> None:
        """It runs already."""

    async def listen(self) -> int:
        await self.dies.wait()
        return -9


async def test_a_task_that_kills_its_own_process_is_lost_though_its_runner_was_buried_before(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RunnerHandle", Dying)
    monkeypatch.setattr(Dying, "starts", asyncio.Event())
    monkeypatch.setattr(Dying, "dies", asyncio.Event())
    task = await submit(store)
    (lease,) = await store.claim(["default"], lasting=MINUTE, worker="w")
    isolated: dict[str, Any] = {"task_id": task.hex, "attempt": lease.attempt, "token": lease.token.hex}
    supervisor = Supervisor(WorkerConfig("app", ("default",)))
    supervisor.backend = slow = SlowToLose(database.bridge())
    runner = RunnerHandle(supervisor.config, "w")
    runner.leaving = True  # or it would be given back once more, a second later
    running = asyncio.create_task(supervisor._run_isolated(runner, isolated))
    await Dying.starts.wait()
    Dying.dies.set()
    await slow.is_asked.wait()
    await supervisor._clean_up(runner, -9)
    slow.goes_on.set()
    await running
    read = await store.read(task)
    assert (read["crashes"], [event.verb for event in await store.events(task)]) == (
        1,
        ["submit", "claim", "lost", "due"],
    )
