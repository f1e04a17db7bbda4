"""A pipeline has settings: a job takes from them what it is not other, and a stage may change them for jobs to come."""

from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import RequestInvalid
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.pipeline import keep_settings
from holdfast.testing.engine import Engine
from tests.lifecycles.pipeline import app
from tests.lifecycles.pipeline.app import ALL_ON
from tests.lifecycles.pipeline.conftest import Press


def test_what_a_stage_has_found_out_is_where_the_next_job_begins(press: Press) -> None:
    for articles in (2, 3, 4):
        ran = press.run(**ALL_ON)
        assert press.job(ran.handle.id)["summary"] == {"articles": articles}
    assert press.settings() == {"articles": 5}
    ran = press.run(articles=1)
    assert press.job(ran.handle.id)["summary"] == {"articles": 1}


def test_a_job_keeps_the_settings_it_began_with(press: Press) -> None:
    handle = press.start(**ALL_ON)
    press.engine.call(press.jobs.change_settings("press", {"articles": 7}, "editor"))
    press.engine.run(handle)
    assert press.job(handle.id)["summary"] == {"articles": 2}
    # And does not overwrite what others have set meanwhile.
    assert press.settings() == {"articles": 7}
    assert ("settings_not_changed", "OPTIMIZATION") in press.kinds(handle.id)


def test_settings_of_a_stage_that_failed_or_was_tried_again_count_once_or_not_at_all(press: Press) -> None:
    press.run({"OPTIMIZATION": "fatal"}, **ALL_ON)
    assert press.settings() == {}
    press.run({"OPTIMIZATION": ["transient"]}, **ALL_ON)
    assert press.settings() == {"articles": 3}


def test_settings_are_changed_one_by_one_and_checked(press: Press) -> None:
    press.run()
    change = press.jobs.change_settings
    assert press.engine.call(change("press", {"articles": 4, "enable_evaluation": True}, "me")) == {
        "articles": 4, "enable_evaluation": True,
    }  # fmt: skip
    assert press.engine.call(change("press", {"enable_evaluation": None}, "me")) == {"articles": 4}
    for wrong, says in (
        ({"colour": 1}, "'colour' is not a parameter"),
        ({"articles": "four"}, "articles is a string, and not integer"),
    ):
        with pytest.raises(RequestInvalid, match=says):
            press.engine.call(change("press", wrong, "me"))
    with pytest.raises(RequestInvalid, match="There is no pipeline"):
        press.engine.call(change("none", {}, "me"))
    assert press.settings() == {"articles": 4}


def test_a_flag_may_be_a_setting(press: Press) -> None:
    press.run()
    press.engine.call(press.jobs.change_settings("press", {"enable_evaluation": True}, "me"))
    assert press.stages(press.run().handle.id)["EVALUATION"] == "completed"
    assert press.stages(press.run(enable_evaluation=False).handle.id)["EVALUATION"] == "skipped"


def test_settings_that_no_stage_takes_any_more_go_with_the_release_that_drops_them(press: Press) -> None:
    press.run(**ALL_ON)
    assert press.settings() == {"articles": 3}
    published = app.press.published()
    stages, params = published["stages"], published["params"]
    params.pop("articles")
    press.engine.call(
        press.jobs.declare(
            "press", title="", stages=stages, params=params, queue="pipeline", max_attempts=3, limit_seconds=None
        )
    )
    assert press.settings() == {}


def test_a_stage_that_finds_out_what_no_stage_takes_has_failed_and_changes_nothing(holdfast: Engine) -> None:
    tuned = Holdfast().pipeline("tuned wrongly", retries=0)

    @tuned.stage
    def first(number: int = 1) -> int:
        return number

    @tuned.stage
    def tunes(first: int, found: dict[str, Any]) -> None:
        keep_settings(**found)

    jobs = Jobs.over(holdfast.store)
    for wrong, says in ({"number": "four"}, "number is a string"), ({"colour": 1}, "'colour' is not a parameter"):
        ran = holdfast.run(tuned, found=wrong)
        stage = holdfast.call(jobs.job(ran.handle.id)).stages[1]
        assert (ran.state, stage.status) == ("PARTIAL", "failed")
        assert says in stage.errors[0]
    assert holdfast.call(jobs.pipelines(tuned.name))[0]["settings"] == {}
    assert holdfast.run(tuned, found={"number": 4}).state == "COMPLETED"


def test_settings_of_another_kind_go_with_the_release_that_takes_them_otherwise(press: Press) -> None:
    press.run(**ALL_ON)
    (before,) = press.engine.call(press.jobs.pipelines("press"))
    published = app.press.published()
    stages, params = published["stages"], published["params"]
    params["articles"]["kinds"] = ["string"]
    other: dict[str, Any] = {"title": "", "stages": stages, "params": params, "queue": "pipeline", "max_attempts": 3}
    press.engine.call(press.jobs.declare("press", **other, limit_seconds=None))
    (after,) = press.engine.call(press.jobs.pipelines("press"))
    assert (before["settings"], after["settings"]) == ({"articles": 3}, {})
    assert after["settings_number"] == before["settings_number"] + 1
