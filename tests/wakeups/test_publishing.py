"""Messages are published for tasks that workers could take: once, then after ever longer times, and never in floods."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.errors import RequestInvalid
from holdfast.testing import Clock, Database
from holdfast.testing.providers.faults import rewrite
from holdfast.wakeups.publishing import PendingWakeups, Publisher, Unsent, publish_on
from holdfast.wakeups.queue import Queue
from tests.eventually import eventually
from tests.promises.stage import MINUTE, submit
from tests.wakeups.amazon import SEND, Line

WAITING = """
set session_replication_role = replica;
insert into holdfast.task (id, lifecycle, name, state, actor, queue, priority, max_attempts, due_at)
select holdfast.uuid7(), l.id, 'work', 'Queued', 'worker', 'default', n % 10, 3, holdfast.now()
from holdfast.lifecycle l, generate_series(1, 10000) n where l.name = 'dispatch';
insert into holdfast.input (id, payload) select id, '{}' from holdfast.task;
insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)
select id, 0, 'submit', '', 'Queued', 1 from holdfast.task;
reset session_replication_role;
"""


@pytest.fixture
def pending(store: Store) -> PendingWakeups:
    return PendingWakeups.over(store)


@pytest.fixture
async def crowd(database: Database) -> None:
    """Ten thousand that wait, of all priorities."""
    async with database.connect_owner() as owner:
        await owner.execute(WAITING)


async def test_a_task_is_published_once(store: Store, pending: PendingWakeups) -> None:
    task = await submit(store)
    assert await pending.take() == [task]
    assert await pending.take() == []


async def test_what_no_worker_could_take_is_not_published(store: Store, pending: PendingWakeups, clock: Clock) -> None:
    held, later, paused = await submit(store), await submit(store, delay=MINUTE), Submission("work", queue="paused")
    await store.claim_these([held], lasting=timedelta(hours=1), worker="me")
    await store.make_queue("paused")
    (waiting, _) = await store.submit(paused, Submission("work", after=[0]))
    await store.pause_queue("paused")
    assert await pending.take() == []
    await store.resume_queue("paused")
    assert await pending.take() == [waiting.id]
    clock.advance(minutes=1)
    assert later in await pending.take()


async def test_a_task_that_comes_back_to_the_workers_is_published_anew(
    store: Store, pending: PendingWakeups, clock: Clock
) -> None:
    task = await submit(store)
    assert await pending.take() == [task]
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="me")
    await store.finish(lease, Later())
    clock.advance(seconds=1)
    assert await pending.take() == [task]  # it was given back
    await store.claim_these([task], lasting=MINUTE, worker="dies")
    assert await pending.take() == []
    clock.advance(minutes=2)
    await store.sweep()
    assert await pending.take() == [task]  # its worker was lost
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="me")
    await store.finish(lease, Failed("Transient", "not now"))
    assert await pending.take() == []
    clock.advance(minutes=1)
    await store.sweep()
    assert await pending.take() == [task]  # it is tried again
    assert await pending.take() == []


async def test_a_task_that_was_waited_for_brings_a_message_for_the_next(store: Store, pending: PendingWakeups) -> None:
    first, second = [one.id for one in await store.submit(Submission("work"), Submission("work", after=[0]))]
    assert first
    assert await pending.take() == [first]
    (lease,) = await store.claim_these([first], lasting=MINUTE, worker="me")
    await store.finish(lease, Done())
    assert await pending.take() == [second]


async def test_a_message_without_effect_is_repeated_after_ever_longer_times(
    store: Store, pending: PendingWakeups, clock: Clock, database: Database
) -> None:
    task = await submit(store)
    assert await pending.take() == [task]
    for seconds in (30, 60, 120, 240, 480, 900, 900):
        clock.advance(seconds=seconds - 1)
        assert await pending.take() == []
        clock.advance(seconds=1)
        assert await pending.take() == [task]
    assert database.ask_owner("select times from holdfast.wakeup where last_published_at = holdfast.now()") == 8


@pytest.mark.usefixtures("crowd")
async def test_ten_thousand_that_wait_make_no_flood(pending: PendingWakeups, clock: Clock) -> None:
    async def taken() -> int:
        number = 0
        while some := await pending.take():
            number += len(some)
        return number

    assert await taken() == 200  # those at the front
    assert await taken() == 0
    clock.advance(seconds=31)
    assert await taken() == 200
    clock.advance(seconds=31)
    assert await taken() == 0


@pytest.mark.usefixtures("crowd")
async def test_those_behind_are_published_when_their_time_comes(store: Store, pending: PendingWakeups) -> None:
    first = set(await pending.take(1000))
    leases = await store.claim(["default"], 50, lasting=MINUTE, worker="me", names=["work"])
    assert {lease.priority for lease in leases} == {9}
    assert {lease.task_id for lease in leases} <= first  # the most urgent, as workers take them
    second = set(await pending.take(1000))
    assert (len(second), first & second) == (50, set())


async def test_many_publishers_take_each_task_once(database: Database, store: Store, pending: PendingWakeups) -> None:
    tasks = [one.id for one in await store.submit(*[Submission("work")] * 150)]
    async with database.store() as other:
        both = [pending, PendingWakeups.over(other)]
        found = await asyncio.gather(*(one.take(40) for one in both * 10))
    taken = [task for some in found for task in some]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(tasks)
    rest = [task for _ in range(5) for task in await pending.take(40)]
    assert sorted(map(str, taken + rest)) == sorted(map(str, tasks))


async def test_what_was_published_is_forgotten_with_its_task(
    store: Store, pending: PendingWakeups, clock: Clock, database: Database
) -> None:
    ended, held, waits = [await submit(store) for _ in range(3)]
    assert len(await pending.take()) == 3
    (lease,) = await store.claim_these([ended], lasting=MINUTE, worker="me")
    await store.finish(lease, Done())
    await store.claim_these([held], lasting=timedelta(hours=1), worker="me")
    clock.advance(seconds=31)
    assert await pending.take() == [waits]
    assert database.ask_owner("select array_agg(task_id) from holdfast.wakeup") == [waits]


@pytest.mark.parametrize("n", [0, -1, 1001, None])
async def test_a_number_that_is_none_is_refused(pending: PendingWakeups, n: int | None) -> None:
    with pytest.raises(RequestInvalid, match="Give 1 to 1000"):
        await pending.take(n)  # type: ignore[arg-type]


async def test_which_tasks_wait_is_read_from_their_rows(store: Store, pending: PendingWakeups) -> None:
    waits, held, ended, later = [await submit(store) for _ in range(3)] + [await submit(store, delay=MINUTE)]
    for lease in await store.claim_these([held, ended], lasting=MINUTE, worker="me"):
        if lease.task_id == ended:
            await store.finish(lease, Done())
    assert await pending.which_wait([waits, held, ended, later]) == {waits}
    await store.pause_queue("default")
    assert await pending.which_wait([waits]) == {waits}  # resuming publishes nothing anew, so the message must live


# With a queue


@pytest.fixture
def publisher(pending: PendingWakeups, line: Line) -> Publisher:
    return Publisher(pending, line.queue)


async def test_a_message_is_a_pointer_and_nothing_else(store: Store, publisher: Publisher, line: Line) -> None:
    tasks = [await submit(store, payload={"secret": "of the task"}) for _ in range(12)]
    assert await publisher.publish() == 12
    assert line.asked("SendMessageBatch") == 2
    found = [json.loads(body) for body in await line.bodies()]
    assert sorted(one["task_id"] for one in found) == sorted(map(str, tasks))
    assert all(set(one) == {"task_id"} for one in found)


async def test_what_the_queue_refused_is_published_again_soon(
    store: Store, publisher: Publisher, line: Line, clock: Clock
) -> None:
    tasks = [await submit(store) for _ in range(3)]

    def refuse_one(answer: dict[str, list[dict[str, str]]]) -> dict[str, list[dict[str, str]]]:
        first, *others = answer["Successful"]
        failed = {"Id": first["Id"], "SenderFault": "false", "Code": "InternalError", "Message": "not now"}
        return {"Successful": others, "Failed": [failed]}

    line.faults.add("POST", "/", rewrite(refuse_one), headers=SEND)
    with pytest.raises(Unsent, match="1 of 3"):
        await publisher.publish()
    assert await publisher.publish() == 0
    await line.bodies()
    clock.advance(seconds=3)
    assert await publisher.publish() == 1
    (again,) = await line.bodies()
    assert UUID(json.loads(again)["task_id"]) in tasks


@pytest.mark.deep
async def test_messages_that_nobody_receives_do_not_pile_up(
    store: Store, pending: PendingWakeups, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that have much to do take tasks without receiving; the messages of those tasks stay behind."""
    monkeypatch.setattr("holdfast.wakeups.publishing.counted_every_seconds", 0.0)
    publisher = Publisher(pending, line.queue, waiting_at_most=20)
    for _ in range(4):
        await store.submit(*[Submission("work")] * 15)
        await publisher.publish()
        for lease in await store.claim(["default"], 15, lasting=MINUTE, worker="busy", names=["work"]):
            await store.finish(lease, Done())
    seen, _ = await line.counted()
    assert seen == 20
    assert len(await line.bodies()) == 20
    await submit(store)
    assert await publisher.publish() == 1


@pytest.mark.deep
async def test_a_queue_that_is_away_stops_nobody_for_good(
    store: Store, pending: PendingWakeups, line: Line, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast.wakeups")
    tasks = [await submit(store) for _ in range(3)]
    line.server.stop()
    publishing = asyncio.create_task(publish_on(pending, Queue(line.queue_url), timedelta(seconds=0.01)))

    def logged(what: str) -> int:
        return sum(what in one.message for one in caplog.records)

    async def is_logged() -> bool:
        return logged("not published") > 0

    try:
        await eventually(is_logged, "the warning", 20)
        line.server.start()

        async def published() -> bool:
            clock.advance(seconds=3)  # what was taken in vain
            return (await line.counted())[0] >= 3 and logged("published again") > 0

        await eventually(published, "the messages", 30)
    finally:
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
    assert {json.loads(body)["task_id"] for body in await line.bodies()} == {str(task) for task in tasks}
    assert (logged("not published"), logged("published again")) == (1, 1)
