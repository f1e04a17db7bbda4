"""Settling and claiming in one runner: what comes again too soon is not run twice, and none waits for others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Container, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Lease, Moved, Settlement
from holdfast.postgres.connections import Address, open_pool
from holdfast.testing import Clock, Database
from holdfast.wakeups import Wakeups
from holdfast.worker.claim_loop import ClaimLoop
from holdfast.worker.config import WorkerConfig
from tests.eventually import eventually
from tests.promises.stage import declare_polled, state_of, submit


class Polling:
    """Wake-ups that never come: looking is all there is."""

    def watch_held(self, held: Container[UUID]) -> None:
        """No wake-up is about them."""

    async def wait(self, seconds: float) -> bool:
        await asyncio.sleep(min(seconds, 0.02))
        return False

    async def close(self) -> None:
        """Nothing to close."""


class Woken(Polling):
    """Wake-ups that come when the test says so."""

    def __init__(self) -> None:
        self.asleep, self.woken = asyncio.Event(), asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        self.asleep.set()
        await self.woken.wait()
        return True


class LateAnswer(Store):
    """The store, over a connection on which the first answer to a result waits for the test."""

    is_late = True

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.is_kept, self.arrives = asyncio.Event(), asyncio.Event()

    async def settle_and_claim(
        self, settlements: Sequence[Settlement], *given: Any, **more: Any
    ) -> tuple[dict[UUID, str], list[Lease]]:
        answer = await super().settle_and_claim(settlements, *given, **more)
        if settlements and self.is_late:
            self.is_late = False
            self.is_kept.set()
            await self.arrives.wait()
        return answer


class SlowAnnouncement(Store):
    """The store, over a connection on which the answer to an announcement waits for the test."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.claimed: list[int] = []
        self.is_announced, self.arrives = asyncio.Event(), asyncio.Event()

    async def settle_and_claim(
        self, settlements: Sequence[Settlement], queues: Sequence[str], n: int = 1, **more: Any
    ) -> tuple[dict[UUID, str], list[Lease]]:
        self.claimed.append(n)
        return await super().settle_and_claim(settlements, queues, n, **more)

    async def idle(self, worker: str) -> timedelta | None:
        self.is_announced.set()
        await self.arrives.wait()
        return await super().idle(worker)


class HeldUp(Store):
    """The store, over a connection that holds the first tasks up for most of their lease."""

    was_late = False

    async def settle_and_claim(
        self, *given: Any, lasting: timedelta, **more: Any
    ) -> tuple[dict[UUID, str], list[Lease]]:
        refused, leases = await super().settle_and_claim(*given, lasting=lasting, **more)
        if leases and not self.was_late:
            self.was_late = True
            await asyncio.sleep(lasting.total_seconds() * 0.75)
        return refused, leases


class Bench:
    """A runner's claim loop, which starts nothing by itself."""

    def __init__(
        self,
        store: Store,
        *queues: str,
        slots: int = 5,
        lease_seconds: float = 30,
        wakeups: Wakeups | None = None,
    ) -> None:
        self.store = store
        self.started: asyncio.Queue[Lease] = asyncio.Queue()
        self.stopped: asyncio.Queue[UUID] = asyncio.Queue()
        self.ended: list[UUID] = []
        config = WorkerConfig("app", queues, slots=slots, poll_seconds=0.02, lease_seconds=lease_seconds)
        self.loop = ClaimLoop(
            store, config, "bench", ["work"], wakeups or Polling(),
            start=self.start, on_ended=self.ended.extend, stop=self.stopped.put_nowait, is_kept=lambda: True,
        )  # fmt: skip

    def start(self, leases: list[Lease], _: float) -> None:
        for lease in leases:
            self.started.put_nowait(lease)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.loop.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def started_again(self, task: UUID, clock: Clock) -> Lease:
        """The next that is begun. What came too soon goes back for a second, and time passes only by the clock."""

        async def look() -> Lease | None:
            is_free = (await self.store.read(task))["lease_expires_at"] is None  # a lease must not pass
            if self.started.empty() and is_free:
                clock.advance(seconds=1)
                await self.store.sweep()
            return None if self.started.empty() else self.started.get_nowait()

        found = await eventually(look, "its start")
        assert found
        return found

    async def until_settled(self, task: UUID, state: str) -> None:
        async def is_there() -> bool:
            return await state_of(self.store, task) == state

        await eventually(is_there, state)


@pytest.fixture
async def bench(store: Store) -> Bench:
    await declare_polled(store)
    return Bench(store, "default", "polled")


async def test_a_task_whose_limit_passed_is_not_run_twice_at_once(bench: Bench, store: Store, clock: Clock) -> None:
    async with bench.running():
        task = await submit(store, lifecycle="polled")
        bench.loop.settle(await bench.started.get(), Moved("IN_PROGRESS"))
        old = await bench.started_again(task, clock)
        await store.heartbeat([old], lasting=timedelta(hours=24))
        clock.advance(hours=20)
        await store.heartbeat([old], lasting=timedelta(hours=24))
        clock.advance(hours=7)
        await store.sweep()
        assert await bench.stopped.get() == task, "what still runs of it is stopped"
        assert bench.started.empty(), "and not begun again beside it"
        bench.loop.forget([old])
        new = await bench.started_again(task, clock)
        assert (new.task_id, new.timed_out) == (task, True)
        bench.loop.settle(new, Done())
        await bench.until_settled(task, "COMPLETED")
    assert (await store.read(task))["crashes"] == 0
    assert bench.loop.held == {}


async def test_what_comes_again_before_its_result_is_answered_is_begun_a_moment_later(
    database: Database, store: Store, clock: Clock
) -> None:
    await declare_polled(store)
    link, wakeups = LateAnswer(database.bridge()), Woken()
    bench = Bench(link, "polled", wakeups=wakeups)
    task = await submit(store, lifecycle="polled")
    async with bench.running():
        first = await bench.started.get()
        await wakeups.asleep.wait()
        bench.loop.settle(first, Moved("IN_PROGRESS"))
        await link.is_kept.wait()
        wakeups.woken.set()
        assert await bench.stopped.get() == task, "it came again"
        assert bench.started.empty(), "and was not started, as if the first lease still ran"
        link.arrives.set()
        new = await bench.started_again(task, clock)
        bench.loop.settle(new, Done())
        await bench.until_settled(task, "COMPLETED")
    assert [event.verb for event in await store.events(task)].count("claim") == 3
    read = await store.read(task)
    assert (read["attempt"], read["crashes"], bench.loop.held) == (1, 0, {})


async def test_the_late_end_of_an_old_lease_does_not_end_the_new_one(bench: Bench, store: Store, clock: Clock) -> None:
    async with bench.running():
        task = await submit(store, lifecycle="polled")
        first = await bench.started.get()
        bench.loop.settle(first, Moved("IN_PROGRESS"))
        second = await bench.started_again(task, clock)
        bench.loop.forget([first])
        assert bench.loop.held == {second.task_id: second}


async def test_what_is_looked_for_before_the_sleep_is_announced_is_looked_for_again(
    database: Database, store: Store
) -> None:
    link, wakeups = SlowAnnouncement(database.bridge()), Woken()
    bench = Bench(link, "default", slots=2, wakeups=wakeups)
    task = await submit(store)
    async with bench.running():
        first = await bench.started.get()
        await link.is_announced.wait()
        bench.loop.settle(first, Done())
        await bench.until_settled(task, "Completed")
        assert link.claimed == [2, 0], "nothing is claimed meanwhile: who submits now wakes nobody"
        late = await submit(store)
        link.arrives.set()
        assert (await bench.started.get()).task_id == late
        await wakeups.asleep.wait()
    assert link.claimed == [2, 0, 2, 1]


async def test_a_locked_row_keeps_only_its_own_result_waiting(bench: Bench, store: Store, database: Database) -> None:
    async with bench.running(), database.connect() as client:
        held, others = await submit(store), [await submit(store) for _ in range(3)]
        leases = {lease.task_id: lease for lease in [await bench.started.get() for _ in range(4)]}
        transaction = client.transaction()
        await transaction.start()
        await client.execute("select holdfast.submit('work', after => array[$1::uuid])", held)
        for lease in leases.values():
            bench.loop.settle(lease, Done())
        for task in others:
            await bench.until_settled(task, "Completed")
        assert await state_of(store, held) == "Running"
        await transaction.rollback()
        await bench.until_settled(held, "Completed")


async def test_what_was_long_on_its_way_is_given_back_and_not_begun(database: Database, store: Store) -> None:
    async with open_pool(Address(given=database.url)) as pool:
        bench = Bench(HeldUp(pool), "default", lease_seconds=6)
        task = await submit(store)
        async with bench.running():
            lease = await bench.started.get()
            bench.loop.settle(lease, Done())
            await bench.until_settled(task, "Completed")
    assert bench.started.empty(), "the first lease was not begun"
    events = await store.events(task)
    assert [event.verb for event in events] == ["submit", "claim", "later", "claim", "done"]
    assert (lease.version, lease.crashes) == (3, 0)
