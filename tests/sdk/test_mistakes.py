"""What is easily written wrong is either understood, or fails at once and says what to write."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Holdfast, RateLimited, step
from holdfast.engine.task import Done, Later, Moved
from holdfast.errors import AppInvalid, PayloadInvalid, RequestInvalid
from holdfast.sdk.session import forbid_calls
from holdfast.settings import Settings
from holdfast.testing import Engine
from tests.sdk.test_steps import aone, failure, one

# Durations


def test_an_outcome_reads_its_delay_in_many_ways() -> None:
    ways: list[Any] = ["2m", 120, 120.0, "120", timedelta(minutes=2)]
    for way in ways:
        assert Later(way).delay == Moved("Queued", delay=way).delay == timedelta(minutes=2)
    assert Later().delay is None
    for nonsense in ("soon", -1, True):
        with pytest.raises(RequestInvalid, match="is not a duration"):
            Later(nonsense)


def test_a_task_waits_however_its_delay_is_written(holdfast: Engine) -> None:
    app = Holdfast()
    ways: list[Any] = ["2m", 120, timedelta(minutes=2)]
    seen: list[Any] = []

    @app.task
    def waits(raising: bool) -> Any:
        seen.append(holdfast.clock.now())
        if len(seen) > len(ways):
            return "done"
        if raising:
            raise RateLimited("slow", retry_after=ways[len(seen) - 1])
        return Later(ways[len(seen) - 1])

    for raising in (False, True):
        seen.clear()
        assert holdfast.run(waits, raising).result == "done"
        assert all(later - sooner >= timedelta(minutes=2) for sooner, later in pairwise(seen))


def test_a_delay_that_is_none_fails_at_once(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    def returns() -> Any:
        return Later("soon")

    @app.task
    def raises() -> None:
        raise RateLimited("slow down", retry_after="soon")

    for task in (returns, raises):
        error = failure(holdfast.run(task))
        assert (error.category, error.code) == ("SchemaInvalid", "RequestInvalid")
        assert "'soon' is not a duration" in str(error)


# Steps that are not awaited


def test_a_step_that_is_not_awaited_fails_its_task(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def forgets(how: str) -> Any:
        match how:
            case "call":
                step("charge", one)  # type: ignore[unused-coroutine]
            case "map":
                step.map("charge", abroken, [1])  # type: ignore[unused-coroutine]
            case "task":
                later.append(asyncio.create_task(step("charge", one)))
            case "returned":
                return step("charge", one)
        return "done"

    later: list[asyncio.Task[int]] = []
    for how in ("call", "map", "task"):
        error = failure(holdfast.run(forgets, how))
        assert (error.category, error.code) == ("SchemaInvalid", "StepInvalid")
        assert "Step 'charge' was called and never awaited.\nWrite await step(...)" in str(error)
    assert "returned a coroutine" in str(holdfast.run(forgets, "returned").error)


def test_a_step_that_waits_for_a_slot_is_not_forgotten(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def gathers() -> list[int]:
        first = asyncio.create_task(step("first", one))
        return [*await asyncio.gather(step("a", one), step("b", aone)), await first]

    assert holdfast.run(gathers).result == [1, 1, 1]


def test_a_coroutine_is_no_result(holdfast: Engine) -> None:
    app = Holdfast()

    async def returns_one() -> Any:
        return aone()

    @app.task
    async def in_step() -> Any:
        return await step("fetched", returns_one)

    for task in (in_step, app.task(returns_one)):
        error = failure(holdfast.run(task))
        assert (error.category, error.code) == ("SchemaInvalid", "StepInvalid")
        assert "returns_one returned a coroutine, not its result.\nAwait it" in str(error)


# Results that are not what was promised


def broken(n: int) -> int:
    return "nope" * n  # type: ignore[return-value]


async def abroken(n: int) -> int:
    return broken(n)


def test_a_result_that_cannot_be_read_back_is_not_kept(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def steps(n: int) -> Any:
        return await step("counted", abroken, n)

    @app.task
    def sync_steps(n: int) -> Any:
        return step.sync("counted", broken, n)

    @app.task
    def done(n: int) -> int | Done:
        return Done(broken(n))

    for task, whose, where in (
        (app.task(broken), "broken", None), (done, "done", None),
        (steps, "Step 'counted'", "counted"), (sync_steps, "Step 'counted'", "counted"),
    ):  # fmt: skip
        run = holdfast.run(task, 1)
        assert (failure(run).category, failure(run).step, run.steps) == ("SchemaInvalid", where, [])
        assert f"{whose} returned 'nope', which does not fit its annotation int: it: Input should be" in str(run.error)


# Calls while a worker imports the module


async def test_what_needs_the_database_says_so_while_its_module_is_imported() -> None:
    app = Holdfast("postgresql://nobody@127.0.0.1:1/none")
    task = app.task(one)
    handle = app.handle(uuid4())
    with forbid_calls():
        for name, call in (("start", task.start), ("result", handle.result), ("cancel", handle.cancel)):
            with pytest.raises(AppInvalid, match=rf"\.{name}\(\) \(.*test_mistakes.py:\d+\) is called while its mod"):
                call()
        with pytest.raises(AppInvalid, match=r"\.astart\(\).*\n.*under if __name__"):
            await task.astart()
    assert not app.is_open


# Steps in threads of one's own


def test_a_step_in_a_thread_that_does_not_know_its_task_is_refused(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    def fans_out(known: bool) -> int:
        with ThreadPoolExecutor(1) as pool:
            sync: Any = step.sync
            call = partial(copy_context().run, sync) if known else sync
            return int(pool.submit(call, "a", one).result())

    error = failure(holdfast.run(fans_out, False))
    assert (error.category, error.code) == ("SchemaInvalid", "StepInvalid")
    assert "'a' is called in a thread that does not know its task" in str(error)
    assert "copy_context().run" in str(error)
    run = holdfast.run(fans_out, True)
    assert (run.result, run.steps) == (1, ["a"])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(step.sync, "a", one).result() == 1


# Making tasks


def test_a_task_defined_again_replaces_itself() -> None:
    app = Holdfast()
    for cell in ("first", "second"):
        scope: dict[str, Any] = {"app": app, "__name__": "__main__"}
        code = f"@app.task\ndef report() -> str:\n    return {cell!r}\n"
        exec(compile(code, f"/tmp/{cell}.py", "exec"), scope)  # noqa: S102, S108
        assert app.tasks["report"].function() == cell
    with pytest.raises(AppInvalid, match="cannot both be called 'report'"):
        app.task(name="report")(one)


def test_what_cannot_be_a_task_says_why() -> None:
    app = Holdfast()

    class Mailer:
        def send(self, to: str) -> None: ...

        @staticmethod
        def post(to: str) -> None: ...

    with pytest.raises(AppInvalid, match="A lambda has no name"):
        app.task(lambda: 1)
    with pytest.raises(AppInvalid, match=r"send is a method.*\n.*plain function"):
        app.task(Mailer.send)
    app.task(name="one")(lambda: 1)
    app.task(Mailer.post)
    assert list(app.tasks) == ["one", "post"]


def test_an_argument_that_cannot_be_kept_is_named() -> None:
    app = Holdfast()

    @app.task
    def takes(first: Any, second: Any) -> None: ...

    for wrong in (object(), "\ud800"):
        with pytest.raises(PayloadInvalid, match=r"takes: second=.*\nPass what JSON"):
            takes.submission(1, wrong)


def test_the_database_stays_where_the_application_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("HOLDFAST_HOME", "here")
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    apps = Holdfast(), Holdfast(settings=Settings(home=Path("here")))
    made_in = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert {app.settings.home for app in apps} == {made_in / "here"}
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    assert apps[0].settings.home == tmp_path
