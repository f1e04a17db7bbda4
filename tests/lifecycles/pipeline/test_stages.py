"""A job's outcome is recorded stage by stage, and the job's own follows from theirs."""

import pytest

from tests.lifecycles.pipeline.app import ALL_ON, NAMES, RAN
from tests.lifecycles.pipeline.conftest import Press


def test_every_stage_runs_once_in_its_order_and_all_that_went_well_is_completed(press: Press) -> None:
    ran = press.run(**ALL_ON)
    assert ran.state == "COMPLETED"
    assert press.stages(ran.handle.id) == dict.fromkeys(NAMES, "completed")
    recorded = [name for kind, name in press.kinds(ran.handle.id) if kind in ("step_started", "step_completed")]
    assert recorded == [name for name in NAMES for _ in range(2)]
    assert dict(RAN) == dict.fromkeys(NAMES, 1)
    job = press.job(ran.handle.id)
    assert job["summary"] == {"articles": 2}
    assert job["started_at"] <= job["stages"][0]["started_at"] <= job["stages"][-1]["finished_at"] <= job["finished_at"]


def test_stages_whose_flag_is_off_are_skipped_with_the_reason_and_count_for_neither_side(press: Press) -> None:
    ran = press.run()
    assert ran.state == "COMPLETED"
    for name, flag in (("EVALUATION", "enable_evaluation"), ("OPTIMIZATION", "enable_auto_optimize")):
        stage = press.stage(ran.handle.id, name)
        assert (stage["status"], stage["reason"]) == ("skipped", f"{flag} is off.")
        assert RAN[name] == 0


def test_optimization_without_evaluation_is_recorded_as_skipped(press: Press) -> None:
    ran = press.run(enable_auto_optimize=True)
    assert ran.state == "COMPLETED"
    stage = press.stage(ran.handle.id, "OPTIMIZATION")
    assert (stage["status"], stage["reason"]) == ("skipped", "It needs EVALUATION, which was skipped.")
    assert RAN["OPTIMIZATION"] == 0


def test_a_first_stage_that_fails_fails_the_job_and_nothing_else_is_run(press: Press) -> None:
    ran = press.run({"INGEST": "fatal"}, **ALL_ON)
    assert ran.state == "FAILED"
    assert "INGEST: INGEST is broken." in str(ran.error)
    assert press.stages(ran.handle.id) == {"INGEST": "failed", **dict.fromkeys(NAMES[1:], "skipped")}
    assert press.stage(ran.handle.id, "CLASSIFY")["reason"] == "INGEST failed, and the job requires it."
    assert dict(RAN) == {"INGEST": 1}
    (entry,) = press.engine.call(press.store.inbox.newest())
    assert (entry["task_id"], entry["error"]["message"]) == (ran.handle.id, "INGEST: INGEST is broken.")


def test_a_middle_stage_that_fails_takes_its_dependants_along_and_the_others_run(press: Press) -> None:
    ran = press.run({"NEUTRALIZE": "fatal"}, **ALL_ON)
    assert ran.state == "PARTIAL"
    assert press.stages(ran.handle.id) == {**dict.fromkeys(NAMES, "completed"), "NEUTRALIZE": "failed"}
    assert press.stage(ran.handle.id, "NEUTRALIZE")["errors"] == ["NEUTRALIZE is broken."]
    assert ("stage_failed", "NEUTRALIZE") in press.kinds(ran.handle.id)

    ran = press.run({"BRIEF": "fatal"}, **ALL_ON)
    assert ran.state == "PARTIAL"
    skipped = dict.fromkeys(("SUMMARY", "EVALUATION", "OPTIMIZATION"), "skipped")
    assert press.stages(ran.handle.id) == {**dict.fromkeys(NAMES, "completed"), "BRIEF": "failed", **skipped}
    assert press.stage(ran.handle.id, "SUMMARY")["reason"] == "It needs BRIEF, which failed."
    assert press.stage(ran.handle.id, "OPTIMIZATION")["reason"] == "It needs EVALUATION, which was skipped."


def test_a_stage_with_problems_is_partial_with_its_errors_and_its_dependants_run(press: Press) -> None:
    ran = press.run({"CLASSIFY": "partial"})
    assert ran.state == "PARTIAL"
    stage = press.stage(ran.handle.id, "CLASSIFY")
    assert (stage["status"], stage["errors"]) == ("partial", ["CLASSIFY: one of two was lost."])
    assert press.stages(ran.handle.id)["NEUTRALIZE"] == "completed"


def test_a_stage_may_skip_itself_and_so_are_those_that_need_it(press: Press) -> None:
    ran = press.run({"BRIEF": "skip"})
    assert ran.state == "COMPLETED"
    assert press.stage(ran.handle.id, "BRIEF")["reason"] == "BRIEF has nothing to do."
    assert press.stage(ran.handle.id, "SUMMARY")["reason"] == "It needs BRIEF, which was skipped."


def test_a_job_of_which_no_stage_ran_has_failed(press: Press) -> None:
    ran = press.run({"INGEST": "skip"})
    assert ran.state == "FAILED"
    assert "No stage had anything to do." in str(ran.error)
    assert set(press.stages(ran.handle.id).values()) == {"skipped"}


@pytest.mark.parametrize(("how", "tries"), [("transient", 3), ("surprise", 3), ("fatal", 1), ("invalid", 1)])
def test_a_stage_is_tried_again_as_often_as_its_failure_allows_then_it_alone_has_failed(
    press: Press, how: str, tries: int
) -> None:
    ran = press.run({"CLASSIFY": how})
    assert ran.state == "PARTIAL"
    assert (RAN["CLASSIFY"], RAN["INGEST"]) == (tries, 1)
    assert press.stages(ran.handle.id)["CLASSIFY"] == "failed"
    assert ran.attempts == tries


def test_a_stage_that_recovers_is_completed_and_what_was_done_before_is_not_done_again(press: Press) -> None:
    ran = press.run({"CLASSIFY": ["transient", "surprise"], "BRIEF": ["transient", "transient"]})
    assert (ran.state, ran.attempts) == ("COMPLETED", 5)
    assert dict(RAN) == {"INGEST": 1, "CLASSIFY": 3, "NEUTRALIZE": 1, "BRIEF": 3, "SUMMARY": 1}


def test_a_stage_that_is_limited_waits_at_no_cost_and_goes_on(press: Press) -> None:
    ran = press.run({"CLASSIFY": ["limited"] * 5})
    assert (ran.state, ran.attempts) == ("COMPLETED", 1)
    assert RAN["CLASSIFY"] == 6
    assert RAN["INGEST"] == 1
