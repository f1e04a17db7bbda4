"""What the fixture `holdfast` promises to the tests of those who use it."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Fatal, Holdfast, Later, RateLimited, Transient, progress, step, usage
from holdfast.engine.lifecycle.model import Lifecycle, after, final, owner, work
from holdfast.engine.task import Lease, Moved
from holdfast.errors import RequestInvalid, TaskCancelled, TaskError, TaskFailed
from holdfast.execution.context import current
from holdfast.sdk.client import override_settings
from holdfast.testing import Engine
from tests.eventually import eventually

hf = Holdfast()
calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def fetch(doc: str) -> str:
    calls.append("fetch")
    usage("reader", tokens_in=10)
    return f"text of {doc}"


def count(text: str) -> int:
    calls.append("count")
    return len(text.split())


@hf.task(retries=3)
async def ingest(doc: str) -> int:
    text = await step("fetched", fetch, doc)
    calls.append("between")
    return await step("counted", count, text)


@hf.task
def plain_ingest(doc: str) -> int:
    text = step.sync("fetched", fetch, doc)
    calls.append("between")
    try:
        return step.sync("counted", count, text)
    except Exception:
        calls.append("caught")
        raise


def test_a_task_is_run_to_its_end(holdfast: Engine) -> None:
    run = holdfast.run(ingest, "a.pdf")
    assert (run.result, run.state, run.outcome, run.attempts) == (3, "Completed", "done", 1)
    assert run.steps == ["fetched", "counted"]
    assert [event.verb for event in run.events] == ["submit", "claim", "done"]
    assert run.usage == [{"model": "reader", "tokens_in": 10, "tokens_out": 0}]
    assert run.error is None
    assert calls == ["fetch", "between", "count"]


@pytest.mark.parametrize("task", [ingest, plain_ingest], ids=lambda task: task.name)
def test_after_a_crash_what_is_done_is_not_done_again(holdfast: Engine, task: object) -> None:
    run = holdfast.run(task, "a.pdf", crash_after="fetched")  # type: ignore[call-overload]
    assert (run.result, run.attempts) == (3, 2)
    assert calls == ["fetch", "between", "count"]  # no line of the handler ran between the crash and the second attempt


@pytest.mark.parametrize("task", [ingest, plain_ingest], ids=lambda task: task.name)
def test_a_step_that_was_not_kept_is_done_again(holdfast: Engine, task: object) -> None:
    run = holdfast.run(task, "a.pdf", crash_before="counted")  # type: ignore[call-overload]
    assert (run.result, run.attempts) == (3, 2)
    assert calls == ["fetch", "between", "count", "between", "count"]


def test_a_task_can_crash_more_than_once(holdfast: Engine) -> None:
    run = holdfast.run(ingest, "a.pdf", crash_after="fetched", crashes=2)
    assert (run.result, run.attempts) == (3, 3)
    assert calls == ["fetch", "between", "count"]
    assert [event.verb for event in run.events] == [
        "submit", "claim", "lost", "due", "claim", "lost", "due", "claim", "done",
    ]  # fmt: skip


def test_a_task_that_brings_down_every_worker_ends(holdfast: Engine) -> None:
    run = holdfast.run(ingest, "a.pdf", crash_before="fetched", crashes=9)
    assert run.outcome == "failed"
    assert isinstance(run.error, TaskFailed)
    with pytest.raises(TaskFailed, match="worker was lost"):
        _ = run.result


def test_nothing_is_settled_or_recorded_in_a_crash(holdfast: Engine) -> None:
    @hf.task(name="spender")
    async def spender() -> None:
        usage("outside")
        try:
            await step("paid", fetch, "a")
        except BaseException:
            with contextlib.suppress(asyncio.CancelledError):
                await step("late", fetch, "b")
            calls.append("goes on")

    run = holdfast.run(spender, crash_after="paid")
    assert (run.steps, run.attempts) == (["paid"], 2)
    assert [spent["model"] for spent in run.usage] == ["reader", "outside"]
    assert calls == ["fetch", "goes on"]


def test_steps_beside_the_one_that_crashes_go_down_with_it(holdfast: Engine) -> None:
    async def wait_for_ever() -> str:
        calls.append("waits")
        if calls.count("waits") == 1:
            await asyncio.Event().wait()
        return "waited"

    @hf.task(name="two at once")
    async def both() -> list[str]:
        return list(await asyncio.gather(step("quick", fetch, "a"), step("slow", wait_for_ever)))

    run = holdfast.run(both, crash_after="quick")
    assert (run.result, run.attempts) == (["text of a", "waited"], 2)
    assert calls.count("fetch") == 1


def test_a_step_that_is_never_reached_cannot_crash(holdfast: Engine) -> None:
    with pytest.raises(AssertionError, match=r"never came to the step 'fetcht'\. Done: fetched, counted"):
        holdfast.run(ingest, "a.pdf", crash_after="fetcht")
    with pytest.raises(RequestInvalid, match="Name a step in one of them"):
        holdfast.run(ingest, "a.pdf", crash_after="fetched", crash_before="fetched")


@pytest.mark.parametrize(
    ("kept", "lost"), [([], ["a", "b"]), (["a"], ["b"]), (["b"], ["a"]), (["a", "b"], [])], ids=str
)
def test_a_crash_can_fall_between_steps_that_run_at_the_same_time(
    holdfast: Engine, kept: list[str], lost: list[str]
) -> None:
    @hf.task(name="several at once")
    async def several() -> list[str]:
        return list(await asyncio.gather(*(step(name, fetch, name) for name in ("a", "b"))))

    run = holdfast.run(several, crash_after=kept, crash_before=lost)
    assert (run.result, run.attempts) == (["text of a", "text of b"], 2)
    assert calls.count("fetch") == 2 + len(lost)


def test_steps_that_wait_for_each_other_cannot_crash_together(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.testing.crash.held_at_most_seconds", 0.01)
    with pytest.raises(AssertionError, match="never came to the step 'counted', 'fetched'"):
        holdfast.run(ingest, "a.pdf", crash_before=["fetched", "counted"])


def test_time_passes_only_as_far_as_needed(holdfast: Engine) -> None:
    @hf.task(name="flaky", retries=2)
    def flaky() -> str:
        calls.append("flaky")
        if len(calls) < 3:
            raise Transient("not yet")
        return "there"

    before = holdfast.clock.now()
    run = holdfast.run(flaky)
    assert (run.result, run.attempts) == ("there", 3)
    assert timedelta(0) < holdfast.clock.now() - before < timedelta(minutes=5)


def test_a_delay_is_moved_over_and_not_more(holdfast: Engine) -> None:
    before = holdfast.clock.now()
    assert holdfast.run(ingest.opts(delay="5m"), "a.pdf").outcome == "done"
    assert holdfast.clock.now() - before == timedelta(minutes=5)


def test_a_task_asked_to_slow_down_waits_at_no_cost(holdfast: Engine) -> None:
    @hf.task(name="limited", retries=0)
    def limited() -> int:
        calls.append("limited")
        if len(calls) < 4:
            raise RateLimited("slow down", retry_after=timedelta(hours=1))
        return len(calls)

    run = holdfast.run(limited)
    assert (run.result, run.attempts) == (4, 1)


def test_what_failed_says_why(holdfast: Engine) -> None:
    @hf.task(name="hopeless")
    async def hopeless() -> None:
        raise Fatal("no such account", code="E42")

    run = holdfast.run(hopeless)
    assert (run.state, run.outcome) == ("Dead", "failed")
    assert isinstance(run.error, TaskFailed)
    assert (run.error.category, run.error.code) == ("Fatal", "E42")


def test_what_a_task_starts_reaches_the_database_of_the_test(holdfast: Engine) -> None:
    other = Holdfast("postgresql://nobody@nowhere.invalid/production")

    @other.task
    async def child(n: int) -> int:
        calls.append(f"child {n}")
        return n

    @hf.task(name="parent")
    async def parent() -> int:
        await child.astart(1)
        child.start(2)  # from a loop that is running
        return 3

    assert holdfast.run(parent).result == 3
    assert sorted(calls) == ["child 1", "child 2"]


def test_a_task_can_wait_for_another(holdfast: Engine) -> None:
    @hf.task(name="child of waiting")
    def child(n: int) -> int:
        return n * 2

    @hf.task(name="waiting parent")
    async def parent() -> int:
        return await (await child.opts(delay="2h").astart(21))

    before = holdfast.clock.now()
    assert holdfast.run(parent).result == 42
    assert holdfast.clock.now() - before >= timedelta(hours=2)


def test_drain_runs_what_is_due_and_moves_the_clock_if_it_may(holdfast: Engine) -> None:
    now, later = holdfast.start(ingest, "a"), holdfast.start(ingest.opts(delay="1h"), "b")
    holdfast.drain(moving=False)
    assert (now.state, later.state) == ("Completed", "Queued")
    holdfast.clock.advance(minutes=59)
    holdfast.drain(moving=False)
    assert later.state == "Queued"
    holdfast.drain()
    assert later.state == "Completed"
    assert later.result(timeout=0) == 3


def test_a_handle_is_run_too(holdfast: Engine) -> None:
    handle = ingest.start("a.pdf")
    assert holdfast.run(handle, crash_after="counted").attempts == 2


def test_a_task_can_be_cancelled_while_it_runs(holdfast: Engine) -> None:
    @hf.task(name="cancels itself")
    async def endless() -> None:
        await hf.handle(current().task_id).acancel("enough")
        await asyncio.Event().wait()

    run = holdfast.run(endless)
    assert (run.state, run.outcome) == ("Canceled", "cancelled")
    assert isinstance(run.error, TaskCancelled)


def test_a_handler_may_move_the_clock(holdfast: Engine) -> None:
    @hf.task(name="a long day")
    async def long_day() -> str:
        holdfast.clock.advance(days=1)
        await step("slept", fetch, "a")
        progress(1, 1)
        return "rested"

    run = holdfast.run(long_day)
    assert (run.result, run.attempts) == ("rested", 1)


def test_an_owner_is_not_hurried(holdfast: Engine) -> None:
    app = Holdfast()
    machine = Lifecycle(
        "approval", start="DRAFTING", cancel="GONE", states=[
            work("DRAFTING", to=["OPEN"], fail="BROKEN"),
            owner("OPEN", acts={"approve": "DONE"}, limit=after(days=7, to="GONE")),
            final("DONE", "done"), final("GONE", "cancelled"), final("BROKEN", "failed"),
        ],
    )  # fmt: skip

    @app.task(lifecycle=machine)
    def draft() -> Moved:
        return Moved("OPEN")

    run = holdfast.run(draft)
    assert (run.state, run.outcome) == ("OPEN", None)
    with pytest.raises(TaskError, match="Its owner acts next"):
        _ = run.result
    holdfast.call(holdfast.store.act(run.id, "approve"))
    assert holdfast.run(run.handle).state == "DONE"


def test_a_poll_without_end_is_reported(holdfast: Engine) -> None:
    @hf.task(name="polls")
    def polls() -> Later:
        return Later(timedelta(days=90))

    with pytest.raises(AssertionError, match="no end in sight"):
        holdfast.run(polls)


async def test_async_tests_use_it_just_the_same(holdfast: Engine) -> None:
    handle = await ingest.astart("a.pdf")
    run = holdfast.run(handle)
    assert run.result == await handle == 3
    assert (await holdfast.store.read(handle.id))["state"] == "Completed"


def test_a_test_begins_with_nothing_and_leaves_nothing(holdfast: Engine) -> None:
    assert holdfast.call(holdfast.store.list_tasks()).items == []
    assert hf.settings.url == holdfast.database.url


def test_an_application_that_is_used_at_that_moment_is_at_the_test_database_too() -> None:
    class Busy(Holdfast):
        def close(self) -> None:
            super().close()
            seen.append(self.settings.url)

    seen: list[str | None] = []
    own, of_the_test = "postgresql://owner@production/shop", "postgresql://test@local/test"
    app = Busy(own)
    with override_settings(replace(app.settings, url=of_the_test)):
        assert seen == [of_the_test]
    assert seen == [of_the_test, own]


def test_what_is_no_task_is_not_run(holdfast: Engine) -> None:
    wrong: Any = len
    for way in (holdfast.run, holdfast.start):
        with pytest.raises(TypeError, match=r"<built-in function len> is not a task\. Pass a function .* @hf\.task"):
            way(wrong, "x")


def test_a_graph_takes_its_parameters_by_name_alone(holdfast: Engine) -> None:
    start: Any = holdfast.start
    with pytest.raises(TypeError, match="positional argument"):
        start(Holdfast().dag("nightly"), 5)


LOCK_IS_HELD = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')
"""


async def test_a_row_that_somebody_has_locked_for_a_moment_is_not_passed_over(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an attempt had asked for when it crashed may still be at work."""
    handle = holdfast.start(ingest, "a.pdf")
    lock = "select pg_advisory_xact_lock(7) from (select from holdfast.task where id = $1 for update) held"
    looked = []

    async def claim(n: int) -> list[Lease]:
        leases = await Engine._claim(holdfast, n)
        looked.append(len(leases))
        if len(looked) == 3:
            holdfast.database.ask_owner("select pg_advisory_unlock(7)")
        return leases

    monkeypatch.setattr(holdfast, "_claim", claim)
    async with holdfast.database.connect_owner() as other:
        holdfast.database.ask_owner("select pg_advisory_lock(7)")
        held = asyncio.create_task(other.fetch(lock, handle.id))
        await eventually(lambda: asyncio.to_thread(holdfast.database.ask_owner, LOCK_IS_HELD), "the lock")
        try:
            ran = await asyncio.to_thread(holdfast.run, handle)
        finally:
            holdfast.database.ask_owner("select pg_advisory_unlock_all()")
            await held
    assert (looked[:3], ran.result) == ([0, 0, 0], 3)
