"""Whatever dies, what it was running is run again soon, once, and what is innocent is not punished."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psutil
import pytest

from holdfast.sdk.task import Task
from holdfast.testing import Database
from tests.eventually import eventually
from tests.promises.stage import until_somebody_waits_for_a_lock
from tests.worker import app
from tests.worker.crew import Crew, Worker

LONG = 30.0
"""A lease so long that nothing in a test can have waited for its end."""
IMPATIENT = 0.5
"""How long a handler has to stop where the test wants it to be killed."""


@pytest.mark.over_http("deep")
async def test_what_a_killed_runner_ran_is_run_again_at_once(crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG)
    tasks = await crew.submit(*(app.hold.submission("go", f"held-{n}") for n in range(3)))
    for n in range(3):
        await crew.noted(f"held-{n}")
    worker.kill(supervisor=False)
    killed = time.monotonic()
    for n in range(3):
        await crew.noted(f"held-{n}", 2)
    assert time.monotonic() - killed < LONG - 5
    crew.open("go")
    for end in await crew.ended(tasks):
        read = await crew.read(end.task_id)
        assert (end.outcome, read["attempt"], read["crashes"]) == ("done", 2, 1)


HOLD_CLAIMS_UP = """
create function public.hold_up() returns trigger language plpgsql as
'begin perform pg_advisory_xact_lock_shared(7); return new; end';
create trigger hold_up before update on holdfast.task for each row
when (new.lease_token is not null and old.lease_token is null) execute function public.hold_up()
"""


@contextlib.asynccontextmanager
async def a_last_claim(live: Database, crew: Crew, worker: Worker) -> AsyncIterator[UUID]:
    """The task of a claim that is under way when its runner is killed and buried, and is committed at the end."""
    async with live.connect_owner() as owner:
        await owner.execute(HOLD_CLAIMS_UP)
        (known,) = await eventually(crew.store.workers, "its greeting")
        await owner.execute("select pg_advisory_lock(7)")
        (task,) = await crew.submit(app.add.submission(1, 2))
        await until_somebody_waits_for_a_lock(owner)
        worker.kill(supervisor=False)

        async def is_buried() -> bool:
            return known.id not in [one.id for one in await crew.store.workers()]

        await eventually(is_buried, "its burial")
        yield task
        await owner.execute("select pg_advisory_unlock(7)")


@pytest.mark.deep
@pytest.mark.over_http("deep")
async def test_what_a_runner_claimed_as_it_died_is_run_at_once(live: Database, crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG)
    async with a_last_claim(live, crew, worker) as task:
        pass
    (end,) = await crew.ended([task], within=LONG / 2)
    read = await crew.read(end.task_id)
    assert (end.outcome, read["attempt"], read["crashes"]) == ("done", 1, 0)


@pytest.mark.deep
@pytest.mark.over_http("deep")
async def test_a_worker_that_leaves_gives_back_what_a_runner_claimed_as_it_died(live: Database, crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG)
    async with a_last_claim(live, crew, worker) as task:
        worker.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.process.wait, LONG / 2) == 0
    read = await crew.read(task)
    assert (read["lease_expires_at"], read["crashes"]) == (None, 0)


@pytest.mark.deep
async def test_a_runner_without_its_supervisor_gives_its_work_back_and_ends(crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG, cancel_seconds=IMPATIENT)
    tasks = await crew.submit(
        app.hold.submission("go", "async"), app.hold_sync.submission("go", "sync"), app.sleeps.submission("asleep")
    )
    for mark in ("async", "sync", "asleep"):
        await crew.noted(mark)
    (runner,) = worker.runners()
    worker.kill(runners=False)

    async def given_back() -> bool:
        return all([(await crew.verbs(task))[-1] == "later" for task in tasks[:2]])

    await eventually(given_back, within=LONG / 2)
    crew.open("go")
    crew.start(lease_seconds=LONG)
    for end in await crew.ended(tasks[:2]):
        read = await crew.read(end.task_id)
        assert (end.outcome, read["attempt"], read["crashes"], read["failures"]) == ("done", 1, 0, 0)
    # The third sleeps in C and cannot be stopped; its process ends all the same.
    assert psutil.wait_procs([runner], timeout=20)[1] == []


async def test_when_both_are_gone_others_take_over_after_the_lease(crew: Crew) -> None:
    worker = crew.start(lease_seconds=5.0)
    tasks = await crew.submit(app.hold.submission("go", "held"))
    await crew.noted("held")
    worker.kill()
    crew.start(lease_seconds=LONG)
    await crew.noted("held", 2)
    crew.open("go")
    (end,) = await crew.ended(tasks)
    read = await crew.read(end.task_id)
    assert (end.outcome, read["attempt"], read["crashes"]) == ("done", 2, 1)


WAYS = ["exit", "exit_0", "segfault", "kill", "forked"]


async def test_a_task_that_kills_its_worker_ends_after_three_and_harms_nobody(crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG)
    neighbours = await crew.submit(*(app.hold.submission("go", f"near-{n}") for n in range(2)))
    for n in range(2):
        await crew.noted(f"near-{n}")
    poisons = await crew.run(*(app.die.submission(way) for way in WAYS))
    for way, poison in zip(WAYS, poisons, strict=True):
        assert poison.outcome == "failed", way
        assert len(crew.notes(f"die-{way}")) in (1, 2, 3), "one took the others with it, begun or not"
        assert (await crew.read(poison.task_id))["crashes"] == 2, "the third one ended it"
    crew.open("go")
    for end in await crew.ended(neighbours):
        read = await crew.read(end.task_id)
        assert end.outcome == "done", "whatever it was taken along with, it had its last chance alone"
        assert read["crashes"] == 2
    assert (await crew.run(app.add.submission(1, 1)))[0].result == 2
    assert worker.process.poll() is None


@pytest.mark.parametrize(
    "task",
    [pytest.param(app.stepped_sync, id="sync"), pytest.param(app.stepped, id="async", marks=pytest.mark.deep)],
)
@pytest.mark.over_http("deep")
async def test_what_is_done_is_not_done_again_after_a_crash(crew: Crew, task: object) -> None:
    crew.start(lease_seconds=LONG)
    sync = task is app.stepped_sync
    (end,) = await crew.run((app.stepped_sync if sync else app.stepped).submission("kill"))
    marks = ["one", "two"] if sync else ["one", "two", "x", "y", "z"]
    assert end.result == marks
    assert [len(crew.notes(f"step-{mark}")) for mark in marks] == [1] * len(marks)
    used = {one.group: one for one in await crew.store.costs.totals()}
    assert used["tiny"].tokens_in == 10 * len(marks)


# Processes that are stopped and go on


async def stopped(crew: Crew, **who: bool) -> tuple[Worker, Worker]:
    """A worker stopped in the middle of a task, and another that has taken the task over."""
    first = crew.start(lease_seconds=2.0)
    (task,) = await crew.submit(app.hold.submission("go", "held"))
    await crew.noted("held")
    second = crew.start(lease_seconds=LONG)
    first.signal(signal.SIGSTOP, **who)
    await crew.noted("held", 2)
    crew.open("go")
    (end,) = await crew.ended([task])
    assert end.outcome == "done"
    first.signal(signal.SIGCONT, **who)
    return first, second


async def finals(crew: Crew) -> list[str]:
    """The final moves of all tasks of this database."""
    ended = (await crew.store.list_tasks(live=False, limit=200)).items
    return [verb for task in ended for verb in await crew.verbs(task["id"]) if verb in ("done", "fail", "cancel")]


@pytest.mark.deep
@pytest.mark.parametrize(
    "who", ["both", *(pytest.param(one, marks=pytest.mark.long) for one in ("runner", "supervisor"))]
)
async def test_a_worker_that_slept_through_its_lease_changes_nothing(crew: Crew, who: str) -> None:
    first, _ = await stopped(crew, supervisor=who != "runner", runners=who != "supervisor")
    ends = await crew.run(*(app.add.submission(n, 1) for n in range(50)))  # by both: it is of use again
    assert {end.outcome for end in ends} == {"done"}
    assert first.process.poll() is None
    assert await finals(crew) == ["done"] * 51


@pytest.mark.deep
async def test_a_stopped_supervisor_costs_a_task_no_more_than_one_crash(crew: Crew) -> None:
    worker = crew.start(lease_seconds=2.0, poll_seconds=0.1)
    (task,) = await crew.submit(app.hold.submission("go", "held"))
    await crew.noted("held")
    worker.signal(signal.SIGSTOP, runners=False)

    async def lost() -> bool:
        await crew.store.sweep()
        return bool((await crew.read(task))["crashes"])

    await eventually(lost)
    since = time.monotonic()

    async def many_looks_later() -> bool:
        await crew.store.sweep()
        return time.monotonic() - since > 1.5

    await eventually(many_looks_later)  # its runner lives, and must not take tasks that nobody keeps for it
    assert (await crew.verbs(task)).count("claim") == 1
    assert (await crew.read(task))["crashes"] == 1
    worker.signal(signal.SIGCONT, runners=False)
    crew.open("go")
    assert (await crew.ended([task]))[0].outcome == "done"


# Handlers that do not stop


def ends(task: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(task["lease_expires_at"])


async def test_a_stuck_handler_keeps_its_lease_and_can_be_cancelled(crew: Crew) -> None:
    worker = crew.start(lease_seconds=8.0, cancel_seconds=IMPATIENT)
    (near,) = await crew.submit(app.hold.submission("go", "near"))
    await crew.noted("near")
    (stuck,) = await crew.submit(app.stuck.submission("stuck"))
    await crew.noted("stuck")
    (runner,) = worker.runners()
    later = ends(await crew.read(stuck)) + timedelta(seconds=4)

    async def are_kept() -> bool:
        await crew.store.sweep()
        read = [await crew.read(task) for task in (stuck, near)]
        assert [one["attempt"] for one in read] == [1, 1]
        return all(ends(one) > later for one in read)

    await eventually(are_kept)
    assert await crew.store.cancel(stuck) == "requested"
    assert (await crew.ended([stuck]))[0].outcome == "cancelled"
    await crew.noted("near", 2)
    assert not runner.is_running()
    crew.open("go")
    (end,) = await crew.ended([near])
    read = await crew.read(near)
    assert (end.outcome, read["attempt"], read["crashes"], read["failures"]) == ("done", 1, 0, 0)


@pytest.mark.deep
async def test_a_handler_that_will_not_be_cancelled_is_ended(crew: Crew) -> None:
    crew.start(cancel_seconds=IMPATIENT)
    (task,) = await crew.submit(app.stubborn.submission("stubborn"))
    await crew.noted("stubborn")
    await crew.store.cancel(task)
    assert (await crew.ended([task]))[0].outcome == "cancelled"
    await crew.noted("stubborn-swallowed")


@pytest.mark.deep
async def test_a_handler_stuck_past_its_timeout_is_ended_and_tried_again(crew: Crew) -> None:
    crew.start(lease_seconds=LONG, cancel_seconds=IMPATIENT)
    (end,) = await crew.run(app.stuck_too_long.submission())
    assert (end.outcome, end.note["code"]) == ("failed", "timeout")
    assert len(crew.notes("stuck_too_long")) == 2
    assert (await crew.read(end.task_id))["crashes"] == 0


@pytest.mark.deep
@pytest.mark.parametrize(("hog", "seconds"), [(app.busy, 4), (app.parse, 2.5)], ids=["a loop", "a huge json.loads"])
async def test_a_handler_that_holds_the_interpreter_does_not_cost_others_their_leases(
    crew: Crew, hog: Task[..., Any], seconds: float
) -> None:
    crew.start(lease_seconds=2.0)
    busy, near = await crew.submit(hog.submission(seconds), app.hold.submission("go", "near"))
    await crew.noted(hog.name)
    await crew.ended([busy])
    crew.open("go")
    await crew.ended([near])
    assert [(await crew.read(task))["attempt"] for task in (busy, near)] == [1, 1]
    assert len(crew.notes("near")) == 1


# Replacements


@pytest.mark.deep
async def test_runners_come_and_go_and_leave_nothing_open(crew: Crew) -> None:
    worker = crew.start(lease_seconds=LONG)
    before = 0
    for round_number in range(6):
        (poison,) = await crew.submit(app.die_once.submission("exit", f"turn-{round_number}"))
        assert (await crew.ended([poison]))[0].outcome == "done"
        if round_number == 1:
            before = worker.supervisor.num_fds()
    assert worker.supervisor.num_fds() <= before + 2
    assert len({pid for round_number in range(6) for pid in crew.notes(f"once-turn-{round_number}")}) >= 7
