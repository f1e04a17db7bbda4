"""What goes wrong with a stage stays with the stage, and what was done is not done again."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from holdfast import Fatal, Holdfast, Transient, step
from holdfast.engine.task import Checkpoint, Checkpointed
from holdfast.execution.attempt import Attempt
from holdfast.execution.suspend import RELEASED
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.pipeline import Skip, keep_settings, problem
from holdfast.testing.engine import Engine

RAN: Counter[str] = Counter()


@pytest.fixture
def made(holdfast: Engine) -> Pipeline:
    RAN.clear()
    return Holdfast().pipeline("made", retries=0)


def statuses(holdfast: Engine, job: Any) -> dict[str, str]:
    found = holdfast.call(Jobs.over(holdfast.store).job(job))
    return {one.name: one.status for one in found.stages}


def odd(what: str, s: Any = None) -> Any:
    match what:
        case "problem":
            problem("a\0b\ud800")
        case "fatal":
            raise Fatal("a\0b" * 1_000_000)
        case "skip":
            raise Skip("a\0b")
        case "settings":
            keep_settings(s=object())
        case "nan":
            return float("nan")
    return "a\0b" if what == "result" else 1


@pytest.mark.parametrize(
    ("what", "status"),
    [("problem", "partial"), ("fatal", "failed"), ("skip", "skipped"), ("settings", "failed"), ("nan", "failed"),
     ("result", "failed")],
)  # fmt: skip
def test_what_cannot_be_kept_is_the_failure_of_its_stage_alone(
    holdfast: Engine, made: Pipeline, what: str, status: str
) -> None:
    made.stage("first")(lambda: 1)
    made.stage("second")(odd)
    made.stage("third")(lambda: 3)
    ran = holdfast.run(made, what=what)
    assert statuses(holdfast, ran.handle.id) == {"first": "completed", "second": status, "third": "completed"}


def test_a_stage_that_cancels_itself_has_failed_and_the_others_go_on(holdfast: Engine, made: Pipeline) -> None:
    made.stage("first")(lambda: 1)

    @made.stage
    async def second() -> None:
        sleeping = asyncio.create_task(asyncio.Event().wait())
        sleeping.cancel()
        await sleeping

    made.stage("third")(lambda: 3)
    ran = holdfast.run(made)
    assert statuses(holdfast, ran.handle.id) == {"first": "completed", "second": "failed", "third": "completed"}


def test_a_step_that_nobody_awaits_and_a_failure_that_is_returned_fail_their_stage(
    holdfast: Engine, made: Pipeline
) -> None:
    made.stage("first")(lambda: 1)

    @made.stage
    async def forgets() -> None:
        step("forgotten", int)  # type: ignore[unused-coroutine]  # noqa: RUF100

    @made.stage(retries=1)
    def returns() -> Any:
        RAN["returns"] += 1
        return Transient("Not yet.") if RAN["returns"] == 1 else 1

    ran = holdfast.run(made)
    assert statuses(holdfast, ran.handle.id) == {"first": "completed", "forgets": "failed", "returns": "completed"}


def test_what_a_job_needs_may_come_from_the_settings(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def count(dishes: list[str]) -> int:
        return len(dishes)

    jobs = Jobs.over(holdfast.store)
    holdfast.run(made, dishes=[])
    holdfast.call(jobs.change_settings("made", {"dishes": ["soup"]}, "me"))
    job, _ = holdfast.call(jobs.make("made", {}, owner=""))
    assert holdfast.run(made.app.handle(job)).state == "COMPLETED"


def test_two_stages_of_one_job_may_both_keep_settings(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def first(a: int = 0) -> None:
        keep_settings(a=1)

    @made.stage
    def second(b: int = 0) -> None:
        keep_settings(b=1)

    holdfast.run(made)
    assert holdfast.call(Jobs.over(holdfast.store).pipelines("made"))[0]["settings"] == {"a": 1, "b": 1}


def test_what_one_stage_does_to_its_arguments_no_other_stage_sees(holdfast: Engine, made: Pipeline) -> None:
    made.stage("listed")(lambda: [1, 2])

    @made.stage
    def eats(listed, given):  # type: ignore[no-untyped-def]
        return listed.pop() + given.pop()

    @made.stage
    def left(listed, given) -> None:  # type: ignore[no-untyped-def]
        RAN.update(listed=len(listed), given=len(given))

    holdfast.run(made, given=[1, 2])
    assert dict(RAN) == {"listed": 2, "given": 2}


def test_a_condition_that_names_a_skipped_stage_skips_its_own(holdfast: Engine, made: Pipeline) -> None:
    made.stage("first")(lambda: 1)
    made.stage("score", when="scored")(lambda: 1)
    made.stage("tune", when=lambda score: score > 0)(lambda: 1)
    assert statuses(holdfast, holdfast.run(made).handle.id)["tune"] == "skipped"


def test_the_steps_within_a_cancelled_stage_are_kept_for_a_retry_of_its_retry(holdfast: Engine, made: Pipeline) -> None:
    made.stage("first")(lambda: 1)

    @made.stage
    async def many() -> None:
        await step("inner", counted)
        if RAN["inner"] == 1 and not RAN["stopped"]:
            RAN["stopped"] = 1
            threading.Thread(target=lambda: holdfast.call(holdfast.store.cancel(handle.id))).start()
            await asyncio.Event().wait()

    def counted() -> None:
        RAN["inner"] += 1

    handle = holdfast.start(made)
    assert holdfast.run(handle).state == "CANCELLED"
    again = holdfast.call(holdfast.store.retry(handle.id))
    holdfast.call(holdfast.store.cancel(again))
    assert holdfast.run(made.app.handle(holdfast.call(holdfast.store.retry(again)))).state == "COMPLETED"
    assert RAN["inner"] == 1


def test_a_job_that_is_stopped_while_its_last_stage_is_kept_reports_it_all_the_same(
    holdfast: Engine, made: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.stage("summary")(lambda: {"n": 1})
    send = Attempt._send_alone

    async def interrupted(self: Attempt, checkpoint: Checkpoint) -> Checkpointed:
        saved = await send(self, checkpoint)
        self.interrupt(RELEASED)
        return saved

    monkeypatch.setattr(Attempt, "_send_alone", interrupted)
    expected = {"stages": [{"name": "summary", "status": "completed"}], "summary": {"n": 1}}
    assert holdfast.run(made).value == expected


def test_a_stage_that_does_not_let_itself_be_stopped_is_the_last_one_here(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    async def stubborn() -> None:
        holdfast.interrupt(handle.id, RELEASED)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            RAN["stopped"] += 1

    @made.stage
    def after() -> None:
        RAN[
            f"runs in one attempt: {len(holdfast.attempts)}, interrupted: {holdfast.attempts[handle.id].cancelled}"
        ] += 1

    handle = holdfast.start(made)
    assert holdfast.run(handle).state == "COMPLETED"
    assert dict(RAN) == {"stopped": 1, "runs in one attempt: 1, interrupted: False": 1}


@pytest.mark.parametrize("release", ["another case", "one less"])
def test_a_release_that_renames_or_drops_leaves_no_job_behind(holdfast: Engine, made: Pipeline, release: str) -> None:
    def ingest() -> int:
        return 1

    def classify(ingest: int) -> int:
        return ingest

    made.stage("INGEST")(ingest)
    made.stage("CLASSIFY")(classify)
    made.stage("TUNE", when="tuned")(lambda: 1)
    handle = holdfast.start(made)
    newer = Holdfast().pipeline("made", retries=0)
    newer.stage("ingest" if release == "another case" else "INGEST")(ingest)
    newer.stage("classify" if release == "another case" else "CLASSIFY")(classify)
    made.stages = newer.stages
    assert holdfast.run(handle).state == "COMPLETED"
