"""The door through which a worker learns of work: hints, of which any may be lost, doubled or late.

One suite for every implementation. A worker's ear is told apart from the worker: here the test itself says `idle` and
claims, so that what is heard is known exactly.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.postgres.connections import Address, connect, open_pool
from holdfast.testing import Database, Ground
from holdfast.wakeups import postgres as by_postgres
from holdfast.wakeups.postgres import PostgresWakeups
from holdfast.wakeups.publishing import PendingWakeups, publish_on
from holdfast.wakeups.queue import Queue
from holdfast.wakeups.sqs import SqsWakeups
from tests.promises.stage import MINUTE, submit
from tests.promises.test_connections import answers, pooler
from tests.tiers import deep
from tests.wakeups.amazon import Line

SOON = 20.0
"""Nothing here takes so long, unless it does not happen."""

BRIEFLY = 0.2


Wakeups = PostgresWakeups | SqsWakeups


class Subscriber:
    """A worker of which there is only the ear: it says what it is ready for, and hears."""

    def __init__(self, store: Store, worker: str, wakeups: Wakeups) -> None:
        self.store = store
        self.worker = worker
        self.wakeups = wakeups

    async def doze(self) -> None:
        """As a worker does before it sleeps: look, say so, look once more. What was heard until now is old."""
        await self.store.hello(self.worker, label="ear", queues=["default"], names=["work"], slots=1)
        while await self.wakeups.wait(BRIEFLY):
            pass
        await self.store.idle(self.worker)

    async def claim(self) -> list[str]:
        leases = await self.store.claim(["default"], 10, lasting=MINUTE, worker=self.worker, names=["work"])
        await self.store.settle(*((lease, Done()) for lease in leases))
        return [str(lease.task_id) for lease in leases]


async def heard(wakeups: Wakeups) -> None:
    """Return once it hears."""
    async with asyncio.timeout(SOON):
        while not wakeups.is_listening:
            await wakeups.wait(0.01)
        await wakeups.wait(0.01)  # whoever hears from now on is woken once, for what was missed


Listen = Callable[[Address, asyncpg.Pool, str], Wakeups]


class PublishedWakeups(SqsWakeups):
    """An ear on a queue, with somebody who publishes."""

    def __init__(self, line: Line, pool: asyncpg.Pool) -> None:
        super().__init__(Queue(line.queue_url), PendingWakeups(pool).which_wait, poll_seconds=1)
        every = timedelta(seconds=0.02)
        self._publishing = asyncio.create_task(publish_on(PendingWakeups(pool), Queue(line.queue_url), every))

    async def close(self) -> None:
        self._publishing.cancel()
        await asyncio.gather(self._publishing, return_exceptions=True)
        await super().close()


@pytest.fixture(params=["postgres", deep("sqs")])
def listen(request: pytest.FixtureRequest) -> Listen:
    """How each implementation is made. A new one is added here."""
    if request.param == "postgres":
        return PostgresWakeups
    line: Line = request.getfixturevalue("line")
    return lambda address, pool, worker: PublishedWakeups(line, pool)


only_postgres = pytest.mark.parametrize("listen", ["postgres"], indirect=True)
"""What is notified, to whom and through what: the others have no part in it."""


@contextlib.asynccontextmanager
async def hearing(listen: Listen, url: str) -> AsyncIterator[Subscriber]:
    address = Address(given=url)
    async with open_pool(address, connections=5) as pool:
        worker = uuid4().hex
        wakeups = listen(address, pool, worker)
        try:
            yield Subscriber(Store(pool), worker, wakeups)
        finally:
            await wakeups.close()


@pytest.fixture
async def subscriber(listen: Listen, database: Database) -> AsyncIterator[Subscriber]:
    async with hearing(listen, database.url) as subscriber:
        await heard(subscriber.wakeups)
        yield subscriber


async def submitted(store: Store, database: Database) -> None:
    await submit(store)


async def unblocked(store: Store, database: Database) -> None:
    (first, _) = await store.submit(Submission("first", queue="quiet"), Submission("work", after=[0]))
    assert first.id
    (lease,) = await store.claim_these([first.id], lasting=MINUTE, worker="other")
    await store.finish(lease, Done())


async def resumed(store: Store, database: Database) -> None:
    await store.pause_queue("default")
    await submit(store)
    await store.resume_queue("default")


async def due_again(store: Store, database: Database) -> None:
    task = await submit(store)
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="other")
    await store.finish(lease, Failed("Transient", "not now"))
    database.clock.advance(minutes=1)
    await store.sweep()


async def released(store: Store, database: Database) -> None:
    task = await submit(store)
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="other")
    await store.finish(lease, Later())


async def lost(store: Store, database: Database) -> None:
    task = await submit(store)
    await store.claim_these([task], lasting=MINUTE, worker="other")
    database.clock.advance(minutes=2)
    await store.sweep()


async def handed_back(store: Store, database: Database) -> None:
    task = await submit(store)
    await store.claim_these([task], lasting=MINUTE, worker="other")
    await store.release_leases("other")


async def learned(store: Store, database: Database) -> None:
    """A task that was set aside since nobody knew it comes back with a worker that does."""
    await store.hello("ignorant", label="", queues=["default"], names=["nothing"], slots=1)
    await submit(store)
    assert await store.claim(["default"], lasting=MINUTE, worker="ignorant", names=["nothing"]) == []
    await store.hello("expert", label="", queues=["default"], names=["work"], slots=1)


Makes = Callable[[Store, Database], Awaitable[None]]


@pytest.mark.parametrize("make", [submitted, unblocked, resumed, due_again, released, lost, handed_back, learned])
async def test_whatever_makes_work_wakes_a_sleeper(
    subscriber: Subscriber, store: Store, database: Database, make: Makes
) -> None:
    await store.make_queue("quiet")
    await subscriber.doze()
    await make(store, database)
    assert await subscriber.wakeups.wait(SOON)
    database.clock.advance(seconds=1)  # what falls due in the same moment
    assert len(await subscriber.claim()) == 1


async def test_a_hint_that_came_before_the_wait_is_not_lost(subscriber: Subscriber, store: Store) -> None:
    await subscriber.doze()
    await submit(store)
    await asyncio.sleep(0)
    assert await subscriber.wakeups.wait(SOON)


@only_postgres
async def test_without_any_hint_the_work_is_found_after_the_wait(subscriber: Subscriber, store: Store) -> None:
    """Nobody said idle, so nobody is told: the row is enough."""
    await submit(store)
    assert not await subscriber.wakeups.wait(BRIEFLY)
    assert len(await subscriber.claim()) == 1


@only_postgres
async def test_doubled_and_spurious_hints_do_no_harm(subscriber: Subscriber, store: Store, database: Database) -> None:
    await subscriber.doze()
    channel = database.ask_owner("select holdfast.channel($1)", subscriber.worker)
    await submit(store)
    for payload in ("", "", "nonsense", "echo", ""):
        database.ask_owner("select pg_notify($1, $2)", channel, payload)
    assert await subscriber.wakeups.wait(SOON)
    assert len(await subscriber.claim()) == 1
    while await subscriber.wakeups.wait(BRIEFLY):
        assert await subscriber.claim() == []
    assert subscriber.wakeups.is_listening


@only_postgres
async def test_a_listener_that_was_cut_off_hears_again_and_is_woken_once(
    subscriber: Subscriber, store: Store, database: Database
) -> None:
    await subscriber.doze()
    cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1 and query ilike 'listen%'"
    assert database.ask_owner(cut, database.name) == 1
    await submit(store)  # nobody hears this one
    assert await subscriber.wakeups.wait(SOON)  # but who listens anew looks once for what was missed
    await heard(subscriber.wakeups)
    assert len(await subscriber.claim()) == 1
    await subscriber.doze()
    await submit(store)
    assert await subscriber.wakeups.wait(SOON)


@pytest.mark.deep
@only_postgres
async def test_behind_a_pooler_nothing_is_heard_and_that_is_known(
    listen: Listen, ground: Ground, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_postgres, "echo_within_seconds", 0.3)
    with pooler(ground.server.url(database=database.name)) as url:
        await answers(url)
        async with hearing(listen, url) as subscriber:
            await subscriber.doze()
            await submit(subscriber.store)
            assert not await subscriber.wakeups.wait(1)
            assert not subscriber.wakeups.is_listening
            assert len(await subscriber.claim()) == 1


@only_postgres
async def test_nobody_is_notified_when_nobody_sleeps(subscriber: Subscriber, store: Store, database: Database) -> None:
    """The ear hears all that is sent to this worker; another connection listens for what might be sent to it."""
    notified: list[str] = []
    busy = "busy"

    async def notified_times(times: int) -> None:
        async with asyncio.timeout(SOON):
            while len(notified) < times:  # noqa: ASYNC110 - the driver calls back
                await asyncio.sleep(0.01)

    await store.hello(busy, label="busy", queues=["default"], names=["work"], slots=1)
    async with contextlib.AsyncExitStack() as stack:
        listener = await connect(database.url)
        stack.push_async_callback(listener.close)
        channel = await listener.fetchval("select holdfast.channel($1)", busy)
        await listener.add_listener(channel, lambda *_: notified.append("woken"))
        while await subscriber.wakeups.wait(BRIEFLY):
            pass
        await submit(store)
        assert not await subscriber.wakeups.wait(BRIEFLY)
        await store.idle(busy)
        await submit(store)
        await notified_times(1)  # what was sent before would have come before
        assert notified == ["woken"]
        await store.claim(["default"], 5, lasting=MINUTE, worker=busy, names=["work"])
        await submit(store)  # it has work now: nobody sleeps
        database.ask_owner("select pg_notify($1, '')", channel)
        await notified_times(2)
        assert notified == ["woken"] * 2


@only_postgres
async def test_who_cannot_run_it_is_left_asleep(subscriber: Subscriber, store: Store) -> None:
    await subscriber.doze()
    await store.make_queue("elsewhere")
    for task in (Submission("strange"), Submission("work", queue="elsewhere"), Submission("work", delay=MINUTE)):
        await store.submit(task)
        assert not await subscriber.wakeups.wait(BRIEFLY), task


async def test_a_wait_ends_with_its_time(subscriber: Subscriber) -> None:
    await subscriber.doze()
    assert not await subscriber.wakeups.wait(0.01)
