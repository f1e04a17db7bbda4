"""What the keeper gives back of a runner that has died, and what it leaves to the processes that run one task."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Proof
from holdfast.testing import Database
from holdfast.worker import supervisor as module
from holdfast.worker.child import Child
from holdfast.worker.config import Plan
from holdfast.worker.supervisor import Supervisor
from tests.promises.stage import MINUTE, submit


class SlowToLose(Store):
    """The kernel, over a link on which the word of a lost task waits for the test."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def mark_lost(self, proofs: Sequence[Proof]) -> int:
        self.is_asked.set()
        await self.goes_on.wait()
        return await super().mark_lost(proofs)


class Dying(Child):
    """A process that has begun, and dies when the test says so."""

    begins, dies = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        self.has_begun = True
        self.begins.set()

    def go(self) -> None:
        """It runs already."""

    async def listen(self) -> int:
        await self.dies.wait()
        return -9


async def test_a_task_that_kills_its_own_process_is_lost_though_its_runner_was_buried_before(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Child", Dying)
    monkeypatch.setattr(Dying, "begins", asyncio.Event())
    monkeypatch.setattr(Dying, "dies", asyncio.Event())
    task = await submit(store)
    (lease,) = await store.claim(["default"], lasting=MINUTE, worker="w")
    alone: dict[str, Any] = {"task_id": task.hex, "attempt": lease.attempt, "token": lease.token.hex}
    keeper = Supervisor(Plan("app", ("default",)))
    keeper.store = slow = SlowToLose(database.bridge())
    runner = Child(keeper.plan, "w")
    runner.leaving = True  # or it would be given back once more, a second later
    apart = asyncio.create_task(keeper._run_apart(runner, alone))
    await Dying.begins.wait()
    Dying.dies.set()
    await slow.is_asked.wait()
    await keeper._bury(runner, -9)
    slow.goes_on.set()
    await apart
    read = await store.read(task)
    assert (read["crashes"], [event.verb for event in await store.events(task)]) == (
        1,
        ["submit", "claim", "lost", "due"],
    )
