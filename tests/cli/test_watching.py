"""`holdfast watch`: every move is told once, and the exit code says how it ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from holdfast.cli import watcher
from holdfast.cli.tasks import Feed, Look
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Event, Failed, Later, Outcome, Partial, StepEvent
from holdfast.lifecycles.dispatch.store import NodeMove
from holdfast.testing import Clock
from tests.cli.conftest import Keyboard, Stage
from tests.lifecycles.dispatch.graphs import FATAL, Running
from tests.promises.stage import submit, take_one


def ending_as(outcome: Outcome) -> Callable[[Store], Awaitable[UUID]]:
    async def play(store: Store) -> UUID:
        await submit(store, "brief", lifecycle="pipeline", max_attempts=1)
        lease = await take_one(store, "pipeline", worker="w1")
        await store.keep(lease, "fetched", 1)
        await store.finish(lease, outcome)
        return lease.task_id

    return play


@pytest.mark.parametrize(
    ("outcome", "code", "last"),
    [
        (Done(1), 0, "COMPLETED"),
        (Failed("Fatal", "no feed"), 1, "FAILED: Fatal: no feed"),
        (Partial(1), 6, "PARTIAL"),
    ],
)
def test_the_exit_code_says_how_it_ended(
    holdfast: Keyboard, stage: Stage, outcome: Outcome, code: int, last: str
) -> None:
    watched = holdfast("watch", str(stage(ending_as(outcome))))
    assert (watched.code, watched.lines[-1], watched.err) == (code, last, "")


def test_a_cancelled_task_is_exit_7(holdfast: Keyboard, stage: Stage) -> None:
    task = str(stage(submit))
    holdfast("cancel", task, "--reason", "asked to")
    watched = holdfast("watch", task)
    assert (watched.code, watched.lines[-1]) == (7, "Canceled: asked to")


def test_without_a_terminal_each_move_is_a_line(holdfast: Keyboard, stage: Stage) -> None:
    lines = holdfast("watch", str(stage(ending_as(Done(1))))).lines
    at = "2030-01-01T00:00:00.000Z"
    assert lines[:3] == [
        f"{at}  submit  PENDING  attempt 1",
        f"{at}  claim  PENDING -> RUNNING  attempt 1  worker w1",
        f"{at}  done  RUNNING -> COMPLETED  attempt 1  worker w1",
    ]
    assert f"{at}  step completed  fetched  attempt 1" in lines


def test_in_json_the_last_line_is_the_end(holdfast: Keyboard, stage: Stage) -> None:
    task = stage(ending_as(Failed("Fatal", "no feed")))
    answered = [json.loads(line) for line in holdfast("watch", str(task), "--json").lines]
    assert [one["version"] for one in answered if one["of"] == "task"] == [0, 1, 2]
    assert answered[-1] == {
        "of": "end", "task_id": str(task), "state": "FAILED", "outcome": "failed", "attempt": 1, "result": None,
        "error": {"message": "no feed", "category": "Fatal"},
    }  # fmt: skip


def test_what_does_not_end_in_time_is_exit_124(holdfast: Keyboard, stage: Stage) -> None:
    watched = holdfast("watch", str(stage(submit)), "--timeout", "1ms")
    assert (watched.code, len(watched.lines) <= 1) == (124, True)
    assert "It goes on." in watched.err
    assert "No worker serves queue" in watched.err


def followed(store: Store, task: UUID) -> AsyncIterator[Look]:
    return watcher.poll(Feed(store, task).look, None, lambda look: bool(look.task["outcome"]))


async def test_every_move_is_printed_once_and_in_order_while_it_moves(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "soonest_seconds", 0)
    task = await submit(store)

    async def work() -> None:
        for number in range(10):
            lease = await take_one(store)
            await store.keep(lease, f"step {number}", number)
            await store.finish(lease, Later() if number < 9 else Done())

    working = asyncio.create_task(work())
    seen = [one async for look in followed(store, task) for one in look.events]
    await working
    moves = [one.version for one in seen if isinstance(one, Event)]
    steps = [one.number for one in seen if isinstance(one, StepEvent)]
    assert moves == [one.version for one in await store.events(task)]
    assert steps == [one.number for one in await store.step_events(task)]
    assert len(moves) == 21


async def failing_run(store: Store, clock: Clock) -> tuple[UUID, UUID]:
    """A run that has ended in part, and the node that failed."""
    run = await Running.of(store, "load -> clean", "clean -> publish")
    for outcomes in ({"load": Done(1)}, {"clean": FATAL}):
        clock.advance(seconds=1)
        await run.end(**outcomes)
    return run.id, (await run.ids())["clean"]


def test_of_a_run_the_moves_of_its_nodes_are_printed_with_its_own(
    holdfast: Keyboard, stage: Stage, clock: Clock
) -> None:
    run, clean = stage(lambda store: failing_run(store, clock))
    watched = holdfast("watch", str(run))
    answered = [line.partition("Z  ")[2] for line in watched.lines]
    assert answered == [
        "submit  Running  attempt 1",
        "load  submit  Queued  attempt 1",
        "clean  submit_blocked  Blocked  attempt 1",
        "publish  submit_blocked  Blocked  attempt 1",
        "load  claim  Queued -> Running  attempt 1  worker worker",
        "load  done  Running -> Completed  attempt 1  worker worker",
        "clean  unblock  Blocked -> Queued  attempt 1",
        "clean  claim  Queued -> Running  attempt 1  worker worker",
        "clean  fail  Running -> Dead  attempt 1  worker worker  Fatal: no",
        f"publish  cancel  Blocked -> Canceled  attempt 1  It waited for {clean}, which failed.",
        "partial  Running -> Partial  attempt 1",
        "",
    ]
    assert (watched.code, watched.lines[-1]) == (6, "Partial")
    objects = [json.loads(line) for line in holdfast("watch", str(run), "--json").lines]
    assert [one["node"] for one in objects if one["of"] == "node"] == [line.split()[0] for line in answered[1:10]]
    assert [one["of"] for one in objects if one["of"] != "node"] == ["task", "task", "end"]


async def test_every_move_of_a_node_is_printed_once_also_of_one_that_is_retried(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "soonest_seconds", 0)
    run = await Running.of(store, "a -> b", "c")

    async def work() -> None:
        await run.end(a=FATAL)
        await store.retry_dependents((await run.ids())["a"])
        await run.done("a c b")

    working = asyncio.create_task(work())
    seen = [one async for look in followed(store, run.id) for one in look.events]
    await working
    answered = [(one.task_id, one.version) for one in seen if isinstance(one, NodeMove)]
    assert len(answered) == len(set(answered))
    assert seen[-1].to_state == "Completed"  # type: ignore[union-attr]
    for task in (await run.ids()).values():
        versions = [version for one, version in answered if one == task]
        assert versions == [one.version for one in await store.events(task)]
