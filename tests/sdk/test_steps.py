"""Steps: done once, kept, blamed for what goes wrong in them; and what an attempt makes of everything else."""

import asyncio
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, SchemaInvalid, Transient, cancelled, current, progress, step, usage
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Checkpointed, Later
from holdfast.errors import StepInvalid, TaskFailed
from holdfast.execution.attempt import Attempt
from holdfast.testing import Engine, Ran
from tests.promises.stage import submit, take_one


def failure(run: Ran[Any]) -> TaskFailed:
    assert isinstance(run.error, TaskFailed)
    return run.error


def one(value: int = 1) -> int:
    return value


async def aone(value: int = 1) -> int:
    return value


# Outside of a task


async def test_outside_of_a_task_a_step_just_runs() -> None:
    assert await step("a", one, 2) == await step("a", aone, 2) == step.sync("a", one, 2) == 2
    assert await step.map("b", one, [1, 2]) == [1, 2]
    progress(1, 2)
    usage("model")
    assert not cancelled()
    with pytest.raises(StepInvalid, match="No task is running here"):
        current()


async def test_a_step_begins_with_its_name() -> None:
    with pytest.raises(StepInvalid, match=r"'one' is not a name.*\n.*a name, the function, its arguments"):
        await step(one, 1)  # type: ignore[call-overload]
    with pytest.raises(StepInvalid, match="is not a function"):
        step.sync("a", one())  # type: ignore[arg-type]


# Inside


def test_one_name_stands_for_one_step(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def twice() -> None:
        await step("same", one)
        await step("same", one)

    @app.task
    def nameless() -> None:
        step.sync("", one)

    run = holdfast.run(twice)
    assert (failure(run).category, failure(run).code) == ("SchemaInvalid", "StepInvalid")
    assert "'same' was run twice" in str(run.error)
    assert "1 to 200 characters" in str(holdfast.run(nameless).error)


def test_the_wrong_colour_of_step_says_which_is_right(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def asynchronous() -> int:
        return step.sync("a", one)

    @app.task
    def plain() -> Any:
        return step("a", one)

    @app.task
    def mixed() -> Any:
        return step.sync("a", aone)

    assert "Write await step('a', ...)" in str(holdfast.run(asynchronous).error)
    assert "Write step.sync('a', ...), no await" in str(holdfast.run(plain).error)
    assert "Make the task `async def`" in str(holdfast.run(mixed).error)


@dataclass
class Found:
    at: datetime
    names: set[str]


def find() -> Found:
    return Found(datetime(2030, 1, 1, tzinfo=UTC), {"a"})


def find_plainly():  # type: ignore[no-untyped-def]
    return find(), (1, 2)


def test_a_value_is_the_same_in_the_first_run_and_in_a_resumed_one(holdfast: Engine) -> None:
    app = Holdfast()
    seen: list[Any] = []

    @app.task
    async def finds() -> None:
        seen.append((await step("typed", find), await step("untyped", find_plainly)))
        await step("end", one)

    holdfast.run(finds, crash_before="end")
    assert seen == [(find(), [{"at": "2030-01-01T00:00:00Z", "names": ["a"]}, [1, 2]])] * 2


def test_what_a_step_spent_counts_once_though_its_attempt_was_stopped_while_it_was_kept(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast()
    send = Attempt._send_alone

    async def interrupted(self: Attempt, checkpoint: Checkpoint) -> Checkpointed:
        saved = await send(self, checkpoint)
        self.interrupt(Later(kind="released"))
        await asyncio.sleep(0)
        return saved

    monkeypatch.setattr(Attempt, "_send_alone", interrupted)

    def spend() -> int:
        usage("model", cost_cents=1)
        return 1

    @app.task
    async def spends() -> int:
        return await step("first", spend) + await step("second", spend)

    run = holdfast.run(spends)
    assert (run.result, run.steps, len(run.usage)) == (2, ["first", "second"], 2)


async def test_an_attempt_that_has_lost_its_lease_waits_for_no_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.execution.attempt.answer_within_seconds", 60.0)
    app = Holdfast()
    ended = asyncio.Event()

    @app.task
    async def work() -> None:
        try:
            await step("first", one)
        finally:
            ended.set()

    await submit(store, "work")

    async def lose_the_lease(_: Checkpoint) -> Checkpointed:
        """The connection is cut while a step is on its way, and the lease is lost."""
        attempt.interrupt(None)
        await asyncio.Event().wait()
        raise AssertionError

    attempt = Attempt(await take_one(store), app.tasks["work"], store, send_checkpoint=lose_the_lease)
    running = asyncio.create_task(attempt.run())
    await asyncio.wait_for(ended.wait(), 30)
    assert await running is None


def test_map_keeps_the_order_and_each_of_its_steps(holdfast: Engine) -> None:
    app = Holdfast()
    calls: list[int] = []

    async def half(n: int) -> float:
        calls.append(n)
        await asyncio.sleep(0.01 / (n + 1))  # the last one is done first
        if n == 3 and calls.count(3) == 1:
            raise Transient("not this time")
        return n / 2

    @app.task(retries=1)
    async def halves() -> list[float]:
        return await step.map("half", half, range(6), at_once=4)

    run = holdfast.run(halves)
    assert (run.result, run.attempts) == ([0, 0.5, 1, 1.5, 2, 2.5], 2)
    assert sorted(calls) == [0, 1, 2, 3, 3, 4, 5]  # those under way were kept, those not begun waited
    assert sorted(run.steps) == [f"half[{n}]" for n in range(6)]


def test_errors_are_blamed_on_their_step(holdfast: Engine) -> None:
    app = Holdfast()
    tries = {"a": 0, "b": 0}

    def fragile(name: str) -> str:
        tries[name] += 1
        if tries[name] < 3:
            raise Transient(f"{name} fails")
        return name

    @app.task(retries=2)
    async def both() -> str:
        return await step("a", fragile, "a") + await step("b", fragile, "b")

    run = holdfast.run(both)
    assert (run.result, run.attempts) == ("ab", 5)  # two retries for each step by itself
    assert tries == {"a": 3, "b": 3}

    @app.task(retries=0)
    async def wrapped() -> None:
        try:
            await step("parsed", int, "x")
        except ValueError as error:
            raise SchemaInvalid("no number") from error

    error = failure(holdfast.run(wrapped))
    assert (error.step, error.category) == ("parsed", "SchemaInvalid")

    @app.task(retries=0)
    async def unkept() -> None:
        await step("odd", object)

    error = failure(holdfast.run(unkept))
    assert (error.step, error.category) == ("odd", "SchemaInvalid")


def test_what_was_spent_is_written_down_once_whatever_came_of_it(holdfast: Engine) -> None:
    app = Holdfast()

    def spend(cents: float) -> None:
        usage("model", cost_cents=cents)
        if cents == 2 and current().attempt == 1:
            raise Transient("after the call")

    @app.task(retries=1)
    async def spends() -> None:
        await step("good", spend, 1)
        await step("bad", spend, 2)
        usage("model", cost_cents=4)

    run = holdfast.run(spends)
    assert [spent["cost_cents"] for spent in run.usage] == [1, 2, 2, 4]
    (total,) = holdfast.call(holdfast.store.costs.totals())
    assert total.cost_cents == 9


# What an attempt makes of the rest


class Alien(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


async def leave() -> None:
    sys.exit(3)


def test_whatever_a_handler_raises_is_an_outcome(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task(retries=0, errors={OSError: Transient})
    async def raises(what: str) -> object:
        match what:
            case "exit":
                await asyncio.gather(step("leaves", leave), step("b", one))
            case "alien":
                raise Alien("from afar")
            case "mute":
                raise Mute
            case "group":
                raise ExceptionGroup("several", [ConnectionError("gone"), ValueError("b")])
            case "itself":
                raise asyncio.CancelledError
            case "returned":
                return SchemaInvalid("wrong", code="E1")
        return None

    @app.task(retries=0)
    def exits() -> None:
        sys.exit(3)

    record = {
        what: (error.category, error.code, error.step)
        for what in ("exit", "alien", "mute", "group", "itself", "returned")
        for error in [failure(holdfast.run(raises, what))]
    }
    assert record == {
        "exit": ("Transient", "Exited", "leaves"),
        "alien": ("Transient", "Alien", None),
        "mute": ("Transient", "Mute", None),
        "group": ("Transient", "ConnectionError", None),
        "itself": ("Transient", "CancelledError", None),
        "returned": ("SchemaInvalid", "E1", None),
    }
    assert "SystemExit: 3" in str(holdfast.run(exits).error)


@pytest.mark.parametrize("plain", [False, True])
def test_an_attempt_that_takes_too_long_is_stopped(holdfast: Engine, plain: bool) -> None:
    app = Holdfast()
    stopped = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def loops() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            stopped.set()

    run = holdfast.run(app.task(name="slow", timeout="0.5s", retries=0)(loops if plain else waits))
    assert (failure(run).category, failure(run).code) == ("Transient", "timeout")
    assert stopped.is_set()


def test_a_task_called_inside_another_is_part_of_it(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def inner(n: int) -> int:
        return await step("inner", one, n)

    @app.task
    async def outer() -> int:
        return await inner(5)

    run = holdfast.run(outer, crash_after="inner")
    assert (run.result, run.steps, run.attempts) == (5, ["inner"], 2)


def test_the_log_shows_the_handlers_own_lines_first(holdfast: Engine, caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast()

    async def asynchronous() -> None:
        raise ValueError("broken")

    def plain() -> None:
        raise ValueError("broken")

    for function in (asynchronous, plain):
        caplog.clear()
        holdfast.run(app.task(retries=0)(function))
        (record,) = [one for one in caplog.records if one.message == "task raised"]
        assert record.exc_info
        assert record.exc_info[2]
        assert record.exc_info[2].tb_frame.f_code.co_name == function.__name__


def test_a_failure_with_a_category_is_one_line_in_the_log(holdfast: Engine, caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast()

    def charge() -> None:
        raise SchemaInvalid("x" * 1000, code="E1")

    @app.task
    async def pays(n: int) -> None:
        await step("charged", charge)

    run = holdfast.run(pays, 1)
    (record,) = [one for one in caplog.records if one.name == "holdfast.task"]
    assert not record.exc_info
    fields = ("task", "task_id", "attempt", "category", "code", "step", "error")
    assert {name: vars(record)[name] for name in fields} == {
        "task": "pays", "task_id": str(run.id), "attempt": 1, "category": "SchemaInvalid", "code": "E1",
        "step": "charged", "error": "x" * 300,
    }  # fmt: skip
    assert (record.levelname, record.message) == ("WARNING", "task failed")
