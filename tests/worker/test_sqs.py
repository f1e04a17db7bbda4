"""Workers that are woken by messages of SQS: lost, doubled and reordered ones change nothing but when a task begins."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from holdfast.engine.task import Submission
from holdfast.testing.providers.faults import change
from holdfast.wakeups.publishing import PendingWakeups, publish_on
from holdfast.wakeups.queue import Queue
from tests.eventually import eventually
from tests.wakeups.amazon import RECEIVE, Line
from tests.worker.crew import Crew

RARELY = 60.0
"""Who looks so rarely was woken, if it begins sooner."""


def adding(*numbers: int) -> list[Submission]:
    return [Submission("add", {"a": number, "b": 1}) for number in numbers]


def times(crew: Crew, *numbers: int) -> list[int]:
    """How often each was run, by the ledger."""
    return [len(crew.notes(f"add-{number}")) for number in numbers]


@pytest.fixture
async def crew(crew: Crew, line: Line, transport: str) -> AsyncIterator[Crew]:
    """Who has the database publishes: the workers over SQL, and over HTTP the server."""
    crew.environment |= line.variables
    if transport == "sql":
        yield crew
        return
    publishing = asyncio.create_task(publish_on(PendingWakeups.over(crew.store), Queue(line.queue_url)))
    yield crew
    publishing.cancel()
    await asyncio.wait([publishing])


async def until_asleep(crew: Crew, line: Line) -> None:
    """A worker has nothing to do and waits for a message."""

    async def look() -> bool:
        return line.asked("ReceiveMessage") >= 1  # which told that there is a queue; the next is under way

    await eventually(look, "its listening")


@pytest.mark.deep
async def test_a_message_wakes_a_worker_that_seldom_looks(crew: Crew, line: Line) -> None:
    crew.start(poll_seconds=RARELY)
    await until_asleep(crew, line)
    began = time.monotonic()
    ended = await crew.run(*adding(1, 2, 3))
    assert [end.result for end in ended] == [2, 3, 4]
    assert time.monotonic() - began < RARELY / 2

    async def no_message() -> bool:
        return await line.counted() == (0, 0)

    await eventually(no_message, "the deleting")


@pytest.mark.deep
async def test_messages_that_are_all_lost_cost_the_time_until_the_next_look(crew: Crew, line: Line) -> None:
    line.faults.add("POST", "/", change({}, remove=["Messages"]), headers=RECEIVE, times=None)
    crew.start(poll_seconds=0.5)
    ended = await crew.run(*adding(1, 2))
    assert [end.outcome for end in ended] == ["done", "done"]
    assert times(crew, 1, 2) == [1, 1]


@pytest.mark.deep
async def test_messages_that_come_ten_times_and_in_any_order_run_nothing_twice(crew: Crew, line: Line) -> None:
    numbers = range(6)
    await crew.store.pause_queue("default")
    ids = await crew.submit(*adding(*numbers))
    doubled: list[UUID] = ids * 10
    random.shuffle(doubled)
    await line.send(*doubled)
    for _ in range(2):
        crew.start(poll_seconds=RARELY, slots=2)
    await crew.store.resume_queue("default")
    await crew.ended(ids)
    await line.send(*doubled)  # and once more, for tasks that have ended
    last = await crew.submit(*adding(99))
    await crew.ended(last)
    assert times(crew, *numbers, 99) == [1] * 7


@pytest.mark.long
async def test_a_queue_that_is_away_leaves_workers_polling(crew: Crew, line: Line, transport: str) -> None:
    line.server.stop()
    worker = crew.start(poll_seconds=0.5)
    ended = await crew.run(*adding(1, 2))
    assert [end.outcome for end in ended] == ["done", "done"]

    async def is_warned() -> bool:
        text = worker.log.read_text()
        warnings = ["wake-ups do not arrive; polling goes on"]
        if transport == "sql":
            warnings.append("wake-ups are not published")
        return all(one in text for one in warnings)

    await eventually(is_warned, "the warning")
    line.server.start()

    async def is_listening() -> bool:
        return "wake-ups arrive again" in worker.log.read_text()

    await eventually(is_listening, "the listening")


@pytest.mark.long
async def test_what_a_killed_worker_held_is_published_anew_for_the_others(crew: Crew, line: Line) -> None:
    """Its listening may outlive it and take the new message; then another one is published half a minute later."""
    first = crew.start(poll_seconds=2 * RARELY, lease_seconds=5.0)
    (task,) = await crew.submit(Submission("hold", {"name": "door", "mark": "held"}))
    await crew.noted("held")
    crew.start(poll_seconds=2 * RARELY)
    await until_asleep(crew, line)
    first.kill()
    crew.open("door")
    (end,) = await crew.ended([task], within=RARELY)
    assert (end.outcome, len(crew.notes("held"))) == ("done", 2)
