"""A job goes on after its last finished stage, whatever happens to its worker; time alone ends it."""

from datetime import timedelta

import pytest

from holdfast.engine.store.commands import Store
from tests.lifecycles.pipeline import app
from tests.lifecycles.pipeline.app import ALL_ON, NAMES, RAN
from tests.lifecycles.pipeline.conftest import Press

ORPHANED = "Job timed out or was orphaned"


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_lost_in_a_stage_costs_that_stage_and_no_other(press: Press, name: str) -> None:
    ran = press.engine.run(app.press, crash_before=name, **ALL_ON)
    assert (ran.state, ran.attempts) == ("COMPLETED", 2)
    assert dict(RAN) == {**dict.fromkeys(NAMES, 1), name: 2}
    assert press.settings() == {"articles": 3}


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_lost_after_a_stage_costs_nothing(press: Press, name: str) -> None:
    ran = press.engine.run(app.press, crash_after=name, **ALL_ON)
    assert (ran.state, ran.attempts) == ("COMPLETED", 2)
    assert dict(RAN) == dict.fromkeys(NAMES, 1)
    assert press.settings() == {"articles": 3}


def test_a_failed_stage_stays_failed_after_a_crash(press: Press) -> None:
    ran = press.engine.run(app.press, script={"CLASSIFY": "fatal"}, crash_after="CLASSIFY", **ALL_ON)
    assert (ran.state, RAN["CLASSIFY"]) == ("PARTIAL", 1)


def test_a_required_stage_that_failed_fails_the_job_after_a_crash_too(press: Press) -> None:
    ran = press.engine.run(app.press, script={"INGEST": "fatal"}, crash_after="INGEST")
    assert (ran.state, dict(RAN)) == ("FAILED", {"INGEST": 1})


def test_a_job_that_nobody_took_up_for_two_hours_has_failed(press: Press) -> None:
    handle = press.start()
    press.engine.clock.advance(hours=2, seconds=-1)
    press.engine.call(press.store.sweep())
    assert press.job(handle.id)["status"] == "PENDING"
    press.engine.clock.advance(seconds=1)
    press.engine.call(press.store.sweep())
    job = press.job(handle.id)
    assert (job["status"], job["error"]) == ("FAILED", ORPHANED)
    assert {one["status"] for one in job["stages"]} == {"skipped"}
    press.engine.drain()
    assert not RAN


def test_a_job_that_is_to_start_later_is_not_stuck_until_then(press: Press) -> None:
    handle = press.engine.start(app.press.opts(delay="5h"))
    press.engine.clock.advance(hours=3)
    press.engine.call(press.store.sweep())
    assert press.job(handle.id)["status"] == "PENDING"
    assert press.engine.run(handle).state == "COMPLETED"


def claimed(press: Press, limit: str | None = None) -> Store:
    press.engine.start(app.press.opts(limit=limit) if limit else app.press)
    (lease,) = press.engine.call(
        press.store.claim(["pipeline"], lasting=timedelta(hours=9), worker="asleep", names=["press"])
    )
    assert press.engine.call(press.jobs.begin(lease, "INGEST"))
    return press.store


@pytest.mark.parametrize(("limit", "hours"), [(None, 2), ("30m", 0.5), ("6h", 6)], ids=str)
def test_a_job_runs_no_longer_than_its_limit(press: Press, limit: str | None, hours: float) -> None:
    store = claimed(press, limit)
    press.engine.clock.advance(hours=hours, seconds=-1)
    press.engine.call(store.sweep())
    (job,) = press.engine.call(store.list_tasks(lifecycle="pipeline")).items
    assert job["state"] == "RUNNING"
    press.engine.clock.advance(seconds=1)
    press.engine.call(store.sweep())
    found = press.job(job["id"])
    assert (found["status"], found["error"]) == ("FAILED", ORPHANED)
    ingest, classify = found["stages"][:2]
    assert (ingest["status"], ingest["errors"]) == ("failed", [ORPHANED])
    assert (classify["status"], classify["reason"]) == ("skipped", "The job failed before it.")
    assert ORPHANED in press.engine.call(store.explain(job["id"])).sentence
