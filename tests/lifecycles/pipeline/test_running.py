"""What a stage is given and what it gives, how long it may take, and what becomes of its files."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from examples.pipeline import menu

from holdfast import Holdfast, Partial, progress, usage
from holdfast.engine.task import Submission
from holdfast.errors import StepInvalid
from holdfast.execution.attempt import Attempt
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.pipeline import keep_settings, output, problem
from holdfast.remote.places import objects_of
from holdfast.testing.engine import Engine

RAN: Counter[str] = Counter()
SEEN: list[Any] = []


@dataclass(frozen=True)
class Issue:
    """What one stage gives to the next."""

    day: date
    pages: list[str]


@pytest.fixture
def made(holdfast: Engine) -> Pipeline:
    RAN.clear()
    SEEN.clear()
    return Holdfast().pipeline("made", retries=0)


def stages(holdfast: Engine, job: Any) -> dict[str, Any]:
    found = holdfast.call(Jobs.over(holdfast.store).job(job.handle.id)).model_dump(mode="json")
    return {one["name"]: one for one in found["stages"]}


@pytest.mark.parametrize("pages", [2, 40_000], ids=["small", "larger than a step may be"])
def test_results_are_read_as_their_annotation_says_also_after_a_crash(
    holdfast: Engine, made: Pipeline, pages: int
) -> None:
    @made.stage
    def printed(day: date) -> Issue:
        RAN["printed"] += 1
        return Issue(day, [f"page {number}, with some words on it" for number in range(pages)])

    @made.stage
    async def read(printed: Issue, **more: Any) -> int:
        SEEN.append((printed.day, printed.pages[-1], more))
        return len(printed.pages)

    ran = holdfast.run(made, day=date(2026, 3, 1), crash_after="printed")
    assert (ran.state, RAN["printed"]) == ("COMPLETED", 1)
    assert [(date(2026, 3, 1), f"page {pages - 1}, with some words on it", {"day": "2026-03-01"})] == SEEN


def test_a_stage_that_takes_too_long_is_stopped_and_has_failed(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def first() -> int:
        return 1

    @made.stage(timeout="20ms", retries=1)
    async def slow() -> None:
        RAN["slow"] += 1
        await asyncio.Event().wait()

    ran = holdfast.run(made)
    assert (ran.state, RAN["slow"]) == ("PARTIAL", 2)
    assert stages(holdfast, ran)["slow"]["errors"] == ["It ran for longer than 0.02 s."]


def test_a_function_may_decide_whether_a_stage_is_run(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def count(number: int) -> int:
        return number

    @made.stage(when=lambda count: count > 2)
    def many(count: int) -> int:
        return count

    assert stages(holdfast, holdfast.run(made, number=3))["many"]["status"] == "completed"
    few = stages(holdfast, holdfast.run(made, number=2))["many"]
    assert (few["status"], few["reason"]) == ("skipped", "Its condition does not hold.")


def test_any_stage_may_be_required_and_the_first_need_not_be(holdfast: Engine, made: Pipeline) -> None:
    @made.stage(required=False)
    def first(breaks: str) -> int:
        return 1 // (breaks != "first")

    @made.stage(required=True)
    def second(breaks: str) -> int:
        return 1 // (breaks != "second")

    @made.stage
    def third() -> int:
        return 1

    assert holdfast.run(made, breaks="first").state == "PARTIAL"
    failed = holdfast.run(made, breaks="second")
    assert failed.state == "FAILED"
    assert {name: one["status"] for name, one in stages(holdfast, failed).items()} == {
        "first": "completed", "second": "failed", "third": "skipped",
    }  # fmt: skip


def test_files_of_a_stage_are_kept_with_it_and_those_of_a_failed_try_are_not(
    holdfast: Engine, made: Pipeline, tmp_path: Path
) -> None:
    source = tmp_path / "chart.bin"
    source.write_bytes(b"\x00\x01")

    @made.stage(retries=1)
    def writes() -> None:
        RAN["writes"] += 1
        output("notes/page.html", "<p>Grüße</p>")
        output("chart.bin", source)
        if RAN["writes"] == 1:
            raise RuntimeError("The pen broke.")

    ran = holdfast.run(made)
    found, kept_until, _ = holdfast.call(Jobs.over(holdfast.store).outputs(ran.handle.id))
    assert [(one.name, one.bytes, one.content_type) for one in found] == [
        ("notes/page.html", 14, "text/html; charset=utf-8"),
        ("chart.bin", 2, "application/octet-stream"),
    ]
    assert kept_until == holdfast.clock.now() + timedelta(days=30)
    kept = holdfast.call(objects_of(made.app.settings).keys(f"pipelines/{ran.handle.id}"))
    assert sorted(one.key for one in kept) == sorted(one.key for one in found)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../../b", "x" * 201, "nul\0"], ids=repr)
def test_an_output_stays_in_its_place(holdfast: Engine, made: Pipeline, name: str) -> None:
    @made.stage
    def writes(name: str) -> None:
        output(name, "no")

    with pytest.raises(StepInvalid, match="cannot be the name"):
        writes(name)


def test_of_many_problems_a_part_is_reported(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def sorts() -> None:
        for number in range(60):
            problem(f"article {number}: " + "x" * 1000)

    stage = stages(holdfast, holdfast.run(made))["sorts"]
    assert (stage["status"], len(stage["errors"]), stage["errors"][-1]) == ("partial", 51, "... and 10 more")
    assert len(stage["errors"][0]) == 500


def test_a_stage_that_returns_what_is_for_whole_tasks_is_refused(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def half() -> Any:
        return Partial(1)

    failed = holdfast.run(made)
    assert failed.state == "FAILED"
    assert "problem(...)" in str(failed.error)


@pytest.mark.over_http
def test_what_a_stage_spends_is_counted_once_and_progress_is_that_of_the_job(
    holdfast: Engine, made: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    @made.stage
    def first() -> None:
        usage("tiny", tokens_in=10, cost_cents=1)

    @made.stage(retries=1)
    def second() -> None:
        RAN["second"] += 1
        usage("tiny", tokens_in=5, cost_cents=2)
        progress(1, 2)
        if RAN["second"] == 1:
            raise RuntimeError("Again.")

    reported: list[Any] = []
    monkeypatch.setattr(Attempt, "report_progress", lambda attempt, **progress: reported.append(progress))
    ran = holdfast.run(made, crash_after="first")
    assert ran.state == "COMPLETED"
    assert holdfast.call(Jobs.over(holdfast.store).job(ran.handle.id)).cost_cents == 1 + 2 + 2
    assert {(one["done"], one["total"]) for one in reported if one.get("done")} == {(1, 2), (1.5, 2)}


def test_a_job_of_another_release_waits_for_a_worker_that_knows_its_stages(holdfast: Engine, made: Pipeline) -> None:
    @made.stage
    def first() -> int:
        RAN["first"] += 1
        return 1

    handle = holdfast.start(made)

    newer = Holdfast().pipeline("made")

    @newer.stage
    def other() -> int:
        RAN["other"] += 1
        return 2

    holdfast.start(newer)  # it is declared, and its worker is the one that is there now
    holdfast.drain(moving=False)
    job = holdfast.call(Jobs.over(holdfast.store).job(handle.id))
    assert (job.status, (job.waits or {})["reason"]) == ("RUNNING", "This worker does not know the stage first.")
    assert dict(RAN) == {"other": 1}
    newer.app.tasks.clear()
    assert holdfast.run(handle).state == "COMPLETED"
    assert RAN["first"] == 1


def test_a_job_that_was_made_before_its_pipeline_was_declared_is_given_its_stages(holdfast: Engine) -> None:
    late = Holdfast().pipeline("declared late")

    @late.stage
    def first(number: int = 1) -> int:
        return number

    good, bad = (Submission(late.name, payload, "pipeline", queue="pipeline") for payload in ({}, {"colour": 1}))
    early, wrong = (one.id for one in holdfast.call(holdfast.store.submit(good, bad)))
    holdfast.call(late.app.declare(holdfast.store))
    holdfast.drain()
    states = {one: holdfast.call(holdfast.store.read(str(one)))["state"] for one in (early, wrong)}
    assert states == {early: "COMPLETED", wrong: "FAILED"}


def test_outside_of_a_job_a_stage_is_the_plain_function_it_is(made: Pipeline) -> None:
    @made.stage
    def first(number: int) -> int:
        problem("nobody hears this")
        keep_settings(number=number)
        output("page.md", "nobody reads this")
        return number * 2

    assert first(4) == 8


def test_the_example_loses_a_dish_and_tells_it(holdfast: Engine) -> None:
    ran = holdfast.run(menu, dishes=["soup", "bread", "cake"])
    assert ran.state == "PARTIAL"
    found = stages(holdfast, ran)
    assert {name: one["status"] for name, one in found.items()} == {
        "order": "completed", "price": "partial", "card": "completed", "evaluation": "skipped",
    }  # fmt: skip
    assert found["price"]["errors"] == ["cake has no price"]
