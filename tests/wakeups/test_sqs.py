"""What becomes of a message of SQS: kept while its task runs here, deleted when nobody needs it, else handed on."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done
from holdfast.errors import SettingInvalid
from holdfast.settings import Settings
from holdfast.testing.providers.faults import status
from holdfast.wakeups import queue as queues
from holdfast.wakeups import sqs
from holdfast.wakeups.publishing import PendingWakeups
from holdfast.wakeups.queue import Message, Queue, queue_named, region_of, task_named
from holdfast.wakeups.sqs import SqsWakeups
from tests.eventually import eventually
from tests.promises.stage import MINUTE, submit
from tests.tiers import deep_but
from tests.wakeups.amazon import RECEIVE, Line

SOON = 20.0

Listen = Callable[..., SqsWakeups]


@pytest.fixture
async def listen(line: Line, store: Store) -> AsyncIterator[Listen]:
    """Makes ears on the queue; what is told after the first hearing comes back after a second."""
    made: list[SqsWakeups] = []

    def listen(*, visibility_seconds: float = 30.0, settle_after_seconds: float = 0.2) -> SqsWakeups:
        subscriber = SqsWakeups(
            Queue(line.queue_url),
            PendingWakeups.over(store).which_wait,
            visibility_seconds=visibility_seconds,
            settle_after_seconds=settle_after_seconds,
            poll_seconds=1,
        )
        made.append(subscriber)
        return subscriber

    yield listen
    for subscriber in made:
        await subscriber.close()


async def gone(line: Line) -> None:
    """No message is left, seen or not."""

    async def look() -> bool:
        return await line.counted() == (0, 0)

    await eventually(look, "the deleting", SOON)


async def test_a_message_about_a_task_that_waits_wakes(listen: Listen, line: Line, store: Store) -> None:
    task = await submit(store)
    subscriber = listen()
    await line.send(task)
    assert await subscriber.wait(SOON)
    assert subscriber.is_listening


@pytest.mark.deep
async def test_a_message_is_kept_while_its_task_runs_and_deleted_when_it_has_ended(
    listen: Listen, line: Line, store: Store
) -> None:
    task = await submit(store)
    held: dict[UUID, object] = {}
    subscriber = listen(visibility_seconds=1)
    subscriber.watch_held(held)
    await line.send(task)
    assert await subscriber.wait(SOON)
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="me")
    held[task] = lease
    heard = await line.queue.receive(visibility_seconds=30, poll_seconds=3)  # three times as long as it is hidden
    assert heard == []
    assert await line.counted() == (0, 1)
    assert line.asked("ChangeMessageVisibilityBatch") >= 3
    await store.finish(lease, Done())
    held.clear()
    await gone(line)


async def test_the_message_of_a_worker_that_died_comes_back(listen: Listen, line: Line, store: Store) -> None:
    task = await submit(store)
    subscriber = listen(visibility_seconds=1, settle_after_seconds=SOON)
    await line.send(task)
    assert await subscriber.wait(SOON)
    subscriber._task.cancel()
    subscriber._hand.clear()  # it died, and gave nothing back
    (again,) = await line.queue.receive(visibility_seconds=30, poll_seconds=10)
    assert (again.task_id, again.received) == (task, 2)


@pytest.mark.parametrize("why", deep_but(["ended"], ["held", "ended", "later", "unheard of"]))
async def test_a_message_about_a_task_that_nobody_may_take_wakes_nobody_and_is_deleted(
    listen: Listen, line: Line, store: Store, why: str
) -> None:
    task = await submit(store) if why != "unheard of" else uuid4()
    if why == "later":
        await store.cancel(task)
        task = await submit(store, delay=MINUTE)
    elif why != "unheard of":
        (lease,) = await store.claim_these([task], lasting=MINUTE, worker="other")
        if why == "ended":
            await store.finish(lease, Done())
    subscriber = listen()
    await line.send(task)
    waiting = asyncio.create_task(subscriber.wait(SOON))
    await gone(line)
    assert not waiting.done()
    waiting.cancel()


async def test_a_task_that_is_taken_elsewhere_meanwhile_leaves_no_message(
    listen: Listen, line: Line, store: Store
) -> None:
    task = await submit(store)
    subscriber = listen()
    await line.send(task)
    assert await subscriber.wait(SOON)
    await store.claim_these([task], lasting=MINUTE, worker="other")
    await gone(line)


async def test_a_message_that_is_of_no_use_here_is_handed_on_later_each_time(
    listen: Listen, line: Line, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqs, "hand_on_seconds", (1.0, 60.0))
    task = await submit(store)
    subscriber = listen()
    await line.send(task)
    assert await subscriber.wait(SOON)
    (again,) = await line.queue.receive(visibility_seconds=1, poll_seconds=10)  # somebody else hears it
    assert (again.task_id, again.received) == (task, 2)
    hidden = [sqs.hidden_for(queues.Message("", "", None, received)) for received in (1, 3, 5, 50)]
    assert hidden == sorted(hidden)
    assert hidden[-1] < 80


@pytest.mark.deep
async def test_who_stops_listening_gives_back_what_was_not_begun(listen: Listen, line: Line, store: Store) -> None:
    task = await submit(store)
    subscriber = listen(settle_after_seconds=SOON)
    await line.send(task)
    assert await subscriber.wait(SOON)
    assert await line.counted() == (0, 1)
    await subscriber.close()
    assert await line.counted() == (1, 0)


class Counting(Queue):
    received = 0

    async def receive(self, **how: Any) -> list[Message]:
        self.received += 1
        return await super().receive(**how)


async def test_nothing_is_received_while_nobody_waits(line: Line, store: Store) -> None:
    async def all_wait(tasks: Sequence[UUID]) -> Sequence[UUID]:
        return tasks

    await line.send(await submit(store))
    queue = Counting(line.queue_url)
    subscriber = SqsWakeups(queue, all_wait, settle_after_seconds=SOON, poll_seconds=1)
    async with contextlib.aclosing(Closing(subscriber)):
        assert await subscriber.wait(SOON)
        assert await line.counted() == (0, 1)
        assert queue.received == 1


async def test_doubled_messages_leave_one_in_hand(listen: Listen, line: Line, store: Store) -> None:
    task = await submit(store)
    subscriber = listen()
    held = {task: None}
    subscriber.watch_held(held)
    await line.send(*[task] * 30)
    assert not await subscriber.wait(1)  # the worker has it already

    async def one_left() -> bool:
        await subscriber.wait(0.05)
        return await line.counted() == (0, 1)

    await eventually(one_left, "one message", SOON)
    held.clear()
    await gone(line)


STRANGE = ["", "nonsense", "17", "[]", "{}", '{"task_id": 17}', '{"task_id": "x"}', '{"task_id": null}', '"task_id"']


async def test_messages_that_are_not_ours_are_deleted_and_logged_once(
    listen: Listen, line: Line, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    task = await submit(store)
    subscriber = listen()
    await line.say(*STRANGE[1:])
    await line.send(task)
    async with asyncio.timeout(SOON):
        while not await subscriber.wait(1):
            pass
    await store.claim_these([task], lasting=MINUTE, worker="other")

    async def all_gone() -> bool:
        await subscriber.wait(0.1)
        return await line.counted() == (0, 0)

    await eventually(all_gone, "the deleting", SOON)
    assert len([one for one in caplog.records if "not ours" in one.message]) == 1


@pytest.mark.parametrize("body", STRANGE)
def test_what_is_no_pointer_names_no_task(body: str) -> None:
    assert task_named(body) is None


async def test_a_queue_that_is_away_is_logged_once_and_heard_again(
    listen: Listen, line: Line, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.wakeups")
    line.faults.add("POST", "/", status(503), headers=RECEIVE, times=3)
    subscriber = listen()
    assert not await subscriber.wait(0.05)
    assert not subscriber.is_listening
    task = await submit(store)
    await line.send(task)
    assert await subscriber.wait(SOON)
    messages = [one.message for one in caplog.records if one.name == "holdfast.wakeups"]
    assert messages == ["wake-ups do not arrive; polling goes on", "wake-ups arrive again"]


@pytest.mark.deep
async def test_a_database_that_is_away_costs_no_message(line: Line, store: Store) -> None:
    """Who cannot ask takes every message for one that may matter."""

    async def away(_: object) -> set[UUID]:
        raise ConnectionError

    task = await submit(store)
    subscriber = SqsWakeups(Queue(line.queue_url), away, settle_after_seconds=SOON, poll_seconds=1)
    async with contextlib.aclosing(Closing(subscriber)):
        await line.send(task)
        assert await subscriber.wait(SOON)
    assert await line.counted() == (1, 0)


class Closing:
    """An ear with the name that `aclosing` wants."""

    def __init__(self, subscriber: SqsWakeups) -> None:
        self.aclose = subscriber.close


# The setting


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-central-1.amazonaws.com/123456789012/holdfast", "eu-central-1"),
        ("https://eu-west-1.queue.amazonaws.com/123456789012/holdfast", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/holdfast", "cn-north-1"),
        ("http://127.0.0.1:9324/123456789012/holdfast", "ap-south-1"),
    ],
)
def test_the_region_is_read_off_the_address_of_the_queue(
    url: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert region_of(url) == region


def test_without_its_driver_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "find_spec", lambda _: None)
    assert queue_named(Settings()) is None
    with pytest.raises(SettingInvalid, match=r"pip install 'holdfast-engine\[sqs\]'"):
        queue_named(Settings(wakeups="sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/holdfast"))
