"""A job is cancelled before it starts, before each stage and inside of one; after the last stage it is too late."""

import contextlib
from uuid import UUID

import pytest

from tests.lifecycles.pipeline import app
from tests.lifecycles.pipeline.app import ALL_ON, NAMES, RAN
from tests.lifecycles.pipeline.conftest import Press


def cancelled_in(press: Press, name: str, *, hanging: bool) -> tuple[UUID, dict[str, str]]:
    """A job that somebody cancels while this stage runs, which hangs, or returns before a heartbeat could tell it.

    Its id, and what was answered.
    """
    answers: dict[str, str] = {}
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(press.without_heartbeats())

        def cancel(stage: str) -> None:
            answers[stage] = press.cancel(handle.id)
            if hanging:
                quiet.close()
                app.do(stage, {stage: "hang"}, None)

        app.ACTS["cancel"] = cancel
        handle = press.start({name: "cancel"}, **ALL_ON)
        press.engine.run(handle)
    return handle.id, answers


def test_before_it_starts_it_is_cancelled_at_once_and_no_stage_runs(press: Press) -> None:
    handle = press.start(**ALL_ON)
    assert press.cancel(handle.id) == "cancelled"
    press.engine.drain()
    job = press.job(handle.id)
    assert (job["status"], job["started_at"]) == ("CANCELLED", None)
    assert job["finished_at"] is not None
    assert {one["reason"] for one in job["stages"]} == {"The job was cancelled before it."}
    assert not RAN


@pytest.mark.parametrize("name", NAMES[:-1])
def test_before_each_stage_a_cancel_is_seen_and_the_stage_is_not_run(press: Press, name: str) -> None:
    handle, answers = cancelled_in(press, name, hanging=False)
    assert answers == {name: "requested"}
    done, left = NAMES[: NAMES.index(name) + 1], NAMES[NAMES.index(name) + 1 :]
    job = press.job(handle)
    assert (job["status"], job["cancel_requested"]) == ("CANCELLED", True)
    assert job["finished_at"] is not None
    assert [one["status"] for one in job["stages"]] == ["completed"] * len(done) + ["skipped"] * len(left)
    assert dict(RAN) == dict.fromkeys(done, 1)


@pytest.mark.parametrize("name", NAMES)
def test_inside_a_stage_the_cancel_is_raised_and_nothing_of_it_is_kept(press: Press, name: str) -> None:
    handle, answers = cancelled_in(press, name, hanging=True)
    assert answers == {name: "requested"}
    job = press.job(handle)
    stages = {one["name"]: one for one in job["stages"]}
    assert job["status"] == "CANCELLED"
    assert job["finished_at"] is not None
    assert (stages[name]["status"], stages[name]["reason"]) == ("skipped", "The job was cancelled while it ran.")
    before = NAMES[: NAMES.index(name)]
    assert [stages[one]["status"] for one in before] == ["completed"] * len(before)
    assert press.settings() == {}


def test_after_the_last_check_the_job_ends_as_its_stages_say(press: Press) -> None:
    handle, answers = cancelled_in(press, NAMES[-1], hanging=False)
    assert answers == {NAMES[-1]: "requested"}
    job = press.job(handle)
    assert (job["status"], job["cancel_requested"]) == ("COMPLETED", True)
    assert press.cancel(handle) == "too_late"


def test_a_cancelled_job_stays_cancelled_and_shows_its_reason(press: Press) -> None:
    handle = press.start()
    press.engine.call(press.store.cancel(handle.id, "Yesterday's news.", by="editor"))
    job = press.job(handle.id)
    assert job["error"] == "Yesterday's news."
    assert press.cancel(handle.id) == "too_late"


def test_who_waits_to_be_tried_again_is_cancelled_at_once(press: Press) -> None:
    handle = press.start({"CLASSIFY": "limited"})
    press.engine.drain(moving=False)
    job = press.job(handle.id)
    assert (job["status"], job["waits"]["reason"]) == ("RUNNING", "CLASSIFY is asked to wait.")
    assert press.cancel(handle.id) == "cancelled"
    assert press.stages(handle.id)["CLASSIFY"] == "skipped"
