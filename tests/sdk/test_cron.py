"""`hf.cron(...)`: what cannot run is refused when the application is loaded, and the rest runs when its time comes."""

import inspect
from datetime import datetime
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.api.published import PublishedSchedule, PublishedTarget
from holdfast.errors import AppInvalid
from holdfast.sdk.cron import NOT_FOR_CRON
from holdfast.sdk.task import Task
from holdfast.testing.engine import Engine

hf = Holdfast()
seen: list[Any] = []


@hf.task(queue="mail", retries=2)
def report(number: int, at: datetime | None = None) -> None:
    seen.append((number, at and at.isoformat()))


brief = hf.pipeline("brief")


@brief.stage
def gather_it(day: str, deep: bool = False) -> str:
    seen.append((day, deep))
    return day


nightly = hf.dag("nightly-graph")


def test_every_option_of_a_start_is_kept_with_a_schedule_or_refused() -> None:
    kept = {name.removesuffix("_seconds") for name in (*PublishedTarget.model_fields, *PublishedSchedule.model_fields)}
    silent = {"on_failure"}  # it is about what the task comes after, which a schedule refuses
    assert set(inspect.signature(Task.opts).parameters) - kept - silent - {"self"} == set(NOT_FOR_CRON)


def app() -> Holdfast:
    """An application of the test's own, with the same tasks."""
    made = Holdfast()
    made.tasks.update(hf.tasks)
    made.pipelines.update(hf.pipelines)
    return made


def test_what_falls_due_when_the_clock_is_moved_is_run(holdfast: Engine) -> None:
    seen.clear()
    own = app()
    own.cron("0 2 * * *", report, 42, timezone="Europe/Berlin", at="at")
    own.cron("0 3 * * *", brief, deep=True, at="day")
    holdfast.declare(own)
    holdfast.drain()
    assert seen == []
    holdfast.clock.advance(hours=12)
    holdfast.drain()
    assert seen == [(42, "2030-01-01T02:00:00+01:00"), ("2030-01-01T03:00:00+00:00", True)]
    holdfast.drain()
    assert len(seen) == 2


def test_a_task_says_which_schedule_started_it(holdfast: Engine) -> None:
    own = app()
    own.cron("* * * * *", report.opts(priority=8, tags=["x"], owner="ada"), 1, name="often")
    holdfast.declare(own)
    holdfast.clock.advance(minutes=1)
    holdfast.drain()
    (found,) = holdfast.call(holdfast.store.list_tasks(tag="cron:often")).items
    task = holdfast.call(holdfast.store.read(found["id"]))
    assert (task["tags"], task["owner"], task["priority"], task["queue"]) == (["x", "cron:often"], "ada", 8, "mail")
    assert task["max_attempts"] == 3


def test_what_the_database_gets_is_what_was_written() -> None:
    own = app()
    own.cron("0 2 * * *", report, 42, name="r", missed="all", at="at")
    own.cron("0 4 * * *", nightly, since="monday")
    task, graph = own.published()["schedules"]
    assert (task["starts"], task["target"]["name"], task["target"]["payload"]) == ("task", "report", {"number": 42})
    assert (task["missed"], task["at"], task["own_queue"]) == ("all", "at", "mail")
    assert graph == {
        "name": "nightly-graph", "cron": "0 4 * * *", "timezone": "UTC", "missed": "latest", "at": None,
        "starts": "dag", "target": {"name": "nightly-graph", "payload": {"since": "monday"}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (("61 * * * *", report, 1), {}, "bad minute"),
        (("0 2 * *", report, 1), {}, "five fields"),
        (("0 2 * * *", report, 1), {"timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
        (("0 2 * * *", report), {}, "number"),
        (("0 2 * * *", report, "no number"), {}, "number"),
        (("0 2 * * *", report, 1), {"other": 2}, "other"),
        (("0 2 * * *", report, 1), {"at": "time"}, "time"),
        (("0 2 * * *", report), {"at": "number"}, "number"),
        (("0 2 * * *", report, 1, None), {"at": "at"}, "at"),
        (("0 2 * * *", report, 1), {"missed": "never"}, "latest"),
        (("0 2 * * *", report, 1), {"name": "no name"}, "letters"),
        (("0 2 * * *", report.opts(key="k"), 1), {}, "key"),
        (("0 2 * * *", report.opts(delay="5m"), 1), {}, "delay"),
        (("0 2 * * *", report.opts(tags=[str(n) for n in range(20)]), 1), {}, "tags"),
        (("0 2 * * *", brief), {"unknown": 1}, "unknown"),
        (("0 2 * * *", nightly, 1), {}, "by name"),
        (("0 2 * * *", print), {}, "@hf.task"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_loaded(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AppInvalid) as refused:
        app().cron(*given, **options)
    assert message in str(refused.value)


def test_two_schedules_of_one_name_are_refused_and_the_same_line_again_is_not() -> None:
    own = app()
    for _ in range(2):  # as a notebook does
        own.cron("0 2 * * *", report, 1)
    with pytest.raises(AppInvalid, match="both"):
        own.cron("0 3 * * *", report, 1)
    own.cron("0 3 * * *", report, 1, name="another")
    assert list(own.crons) == ["report", "another"]


def test_two_schedules_of_one_name_are_refused_on_one_line_too() -> None:
    own = app()

    def hourly(*hours: int) -> None:
        for hour in hours:
            own.cron(f"0 {hour} * * *", report, 1)

    with pytest.raises(AppInvalid, match=r"both be called 'report'.\nGive one another name: name=..."):
        hourly(2, 3)
    with pytest.raises(AppInvalid, match="both"):
        own.cron("0 2 * * *", report, 1, name="twice"), own.cron("0 2 * * *", report, 2, name="twice")
    assert [one.cron for one in own.crons.values()] == ["0 2 * * *", "0 2 * * *"]


def test_what_is_loaded_anew_may_have_changed() -> None:
    own = app()
    for file in ("schedules.py", "<stdin>"):
        for hour in (2, 3):  # a line that was edited, and compiled again
            code = compile(f"own.cron('0 {hour} * * *', report, 1, name={file.strip('<>')!r})", file, "exec")
            exec(code, {"own": own, "report": report})  # noqa: S102
    assert [one.cron for one in own.crons.values()] == ["0 3 * * *", "0 3 * * *"]
