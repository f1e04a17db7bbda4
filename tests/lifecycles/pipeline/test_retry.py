"""A retry is a job of its own, which begins with the first stage that is not as it should be."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast import Holdfast, step
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.testing.engine import Engine
from tests.lifecycles.pipeline import app
from tests.lifecycles.pipeline.app import ALL_ON, NAMES, RAN
from tests.lifecycles.pipeline.conftest import Press


@pytest.mark.parametrize("how", ["fatal", "partial"])
def test_what_came_before_the_first_stage_that_went_wrong_is_inherited(press: Press, how: str) -> None:
    first = press.run({"NEUTRALIZE": [how]}, **ALL_ON)
    assert first.state == "PARTIAL"
    again = press.retry(first.handle.id)
    assert again.state == "COMPLETED"
    assert press.stages(again.handle.id) == dict.fromkeys(NAMES, "completed")
    assert dict(RAN) == {**dict.fromkeys(NAMES, 2), "INGEST": 1, "CLASSIFY": 1}
    assert press.job(again.handle.id)["retry_of"] == str(first.handle.id)
    assert press.stages(first.handle.id)["NEUTRALIZE"] == {"fatal": "failed", "partial": "partial"}[how]


def test_a_cancelled_job_goes_on_where_it_was_stopped(press: Press) -> None:
    def cancel(_: str) -> None:
        press.cancel(handle.id)

    app.ACTS["cancel"] = cancel
    handle = press.start({"CLASSIFY": ["cancel"]}, **ALL_ON)
    with press.without_heartbeats():
        assert press.engine.run(handle).state == "CANCELLED"
    assert press.retry(handle.id).state == "COMPLETED"
    assert dict(RAN) == dict.fromkeys(NAMES, 1)


def test_a_stage_may_be_named_from_which_all_is_done_anew(press: Press) -> None:
    first = press.run({"CLASSIFY": "partial"})
    again = press.retry(first.handle.id, "BRIEF")
    assert again.state == "PARTIAL"  # what was partial is inherited as it is
    assert press.stages(again.handle.id)["CLASSIFY"] == "partial"
    assert dict(RAN) == {"INGEST": 1, "CLASSIFY": 1, "NEUTRALIZE": 1, "BRIEF": 2, "SUMMARY": 2}


def test_a_job_with_other_parameters_begins_from_the_start(press: Press) -> None:
    first = press.run({"CLASSIFY": "fatal"})
    again = press.engine.call(press.store.retry(first.handle.id, payload={"articles": 3}))
    assert press.engine.run(app.hf.handle(again)).state == "COMPLETED"
    assert RAN["INGEST"] == 2
    assert press.job(again)["summary"] == {"articles": 3}


def test_files_that_are_gone_are_not_inherited_and_others_are_kept_as_long_as_the_retry(press: Press) -> None:
    first = press.run({"SUMMARY": "fatal"})
    press.engine.clock.advance(days=29)
    handle = app.hf.handle(press.engine.call(press.store.retry(first.handle.id)))
    press.engine.clock.advance(hours=1)
    again = press.engine.run(handle)
    assert RAN["BRIEF"] == 1
    press.engine.clock.advance(days=29)
    assert [one.name for one in press.engine.call(press.jobs.outputs(again.handle.id))[0]] == ["brief.md"]
    kept = [press.engine.call(press.jobs.outputs(job.handle.id))[1] for job in (first, again)]
    assert kept == [press.engine.clock.now() + timedelta(days=1)] * 2
    press.engine.clock.advance(days=2)
    press.retry(again.handle.id)
    assert RAN["BRIEF"] == 2


many = app.hf.pipeline("many", retries=0)
DONE: list[str] = []


@many.stage
def listed(number: int) -> list[int]:
    return list(range(number))


@many.stage
async def doubled(listed: list[int], fails: bool = True) -> list[int]:
    return await step.map("double", double if len(DONE) < 3 else freely, listed, at_once=1)


@many.stage
async def summed(doubled: list[int]) -> int:
    return await step("sum", sum, doubled)


def double(one: int) -> int:
    if one == 2:
        raise RuntimeError("Two is too much.")
    return freely(one)


def freely(one: int) -> int:
    DONE.append(str(one))
    return one * 2


def test_steps_within_the_stage_that_failed_are_kept_for_the_retry(holdfast: Engine) -> None:
    DONE.clear()
    first = holdfast.run(many, number=4)
    assert first.state == "PARTIAL"
    assert DONE == ["0", "1"]
    DONE.append("from here on all goes well")
    again = holdfast.run(app.hf.handle(holdfast.call(holdfast.store.retry(first.handle.id))))
    assert again.state == "COMPLETED"
    assert DONE[3:] == ["2", "3"]


def release(holdfast: Engine, *names: str) -> Pipeline:
    """The pipeline "released", with these stages; the last of them fails if the job says so."""
    made = Holdfast().pipeline("released", retries=0)

    def stage(name: str) -> Callable[..., str]:
        def run(fails: list[str] | None = None) -> str:
            RAN[name] += 1
            if name in (fails or []):
                raise RuntimeError("The test wants it to.")
            return name

        return run

    for name in names:
        made.stage(name)(stage(name))
    return made


def test_a_stage_that_a_release_has_put_between_is_run_and_so_is_what_follows_it(holdfast: Engine) -> None:
    RAN.clear()
    first = holdfast.run(release(holdfast, "a", "b", "c"), fails=["c"])
    assert first.state == "PARTIAL"
    newer = release(holdfast, "a", "x", "b", "c")
    holdfast.call(newer.app.declare(holdfast.store))
    again = newer.app.handle(holdfast.call(holdfast.store.retry(first.handle.id, "c")))
    assert holdfast.run(again).state == "PARTIAL"
    assert dict(RAN) == {"a": 1, "x": 1, "b": 2, "c": 2}


def test_a_step_that_a_release_has_made_a_stage_is_run_as_one(holdfast: Engine) -> None:
    RAN.clear()
    older = Holdfast().pipeline("released", retries=0)

    @older.stage
    async def a() -> str:
        return await step("b", str, "as a step")

    @older.stage
    def z() -> None:
        raise RuntimeError("The test wants it to.")

    first = holdfast.run(older)
    assert first.state == "PARTIAL"
    newer = release(holdfast, "a", "b")
    holdfast.call(newer.app.declare(holdfast.store))
    again = holdfast.run(newer.app.handle(holdfast.call(holdfast.store.retry(first.handle.id))))
    assert (again.state, dict(RAN)) == ("COMPLETED", {"b": 1})
