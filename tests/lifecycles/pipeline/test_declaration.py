"""A stage takes what it is named after; what could not be run is refused when it is written down."""

import inspect
from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from holdfast import Holdfast
from holdfast.engine.params import ALL_KINDS, takes
from holdfast.errors import AppInvalid, PayloadInvalid
from holdfast.lifecycles.pipeline.sdk import Pipeline


@pytest.fixture
def pipeline() -> Pipeline:
    made = Holdfast().pipeline("declared")

    @made.stage
    def first(number: int = 1) -> int:
        return number

    return made


def test_parameters_that_name_stages_are_needs_and_the_others_are_the_jobs(pipeline: Pipeline) -> None:
    @pipeline.stage("SECOND")
    def second(first: int, factor: float, number: int = 1, **more: str) -> float:
        return first * factor

    @pipeline.stage(needs="second", when="enable_third")
    def third(FIRST: int | None = None) -> None:  # noqa: N803
        return None

    published = pipeline.published()
    stages, params = published["stages"], published["params"]
    assert [(one["name"], one["needs"], one["when"], one["required"]) for one in stages] == [
        ("first", [], None, True),
        ("SECOND", ["first"], None, False),
        ("third", ["SECOND"], "enable_third", False),
    ]
    assert params == {
        "number": {"kinds": ["integer"], "default": 1},
        "factor": {"kinds": ["number"], "needed": True},
        "enable_third": {"kinds": ["boolean"], "default": False},
        "**": {"kinds": ["string"]},
    }
    assert second(2, 3.0) == 6.0  # it stays a plain function
    assert set(inspect.signature(pipeline.task.function).parameters) == {"number", "factor", "enable_third", "_more"}


def yields(first: int) -> Any:
    yield first


async def yields_later(first: int) -> Any:
    yield first


def by_place(first: int, /) -> int:
    return first


def anything(*first: int) -> int:
    return 0


def again() -> None: ...


again.__name__ = "First"


def self_named(SELF_NAMED: int) -> None: ...  # noqa: N803


def number() -> None: ...


def other_kind(number: str = "1") -> None: ...


def other_default(number: int = 2) -> None: ...


def well(number: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (yields, {}, "yields"),
        (yields_later, {}, "yields"),
        (by_place, {}, "by its place"),
        (anything, {}, "by its place"),
        (self_named, {}, "called like itself"),
        (number, {}, "number is a parameter of an earlier stage"),
        (well, {"when": "first"}, "is not a flag"),
        (again, {}, "Two stages cannot both be called First"),
        (other_kind, {}, "another one number: int = 1"),
        (other_default, {}, "another one number: int = 1"),
        (well, {"needs": "later"}, "needs 'later', and there is no such stage before it"),
        (well, {"when": 3}, "is not a flag"),
        (well, {"when": "no flag"}, "is not a flag"),
        (well, {"retries": -1}, "retries=-1"),
        (well, {"timeout": 0}, "leaves it no time"),
    ],
    ids=lambda value: value.__name__ if inspect.isfunction(value) else None,
)
def test_what_could_not_be_run_is_refused_and_the_pipeline_stays_as_it_was(
    pipeline: Pipeline, function: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(AppInvalid, match=says):
        pipeline.stage(**options)(function)
    assert [one.name for one in pipeline.stages] == ["first"]


def test_a_pipeline_without_stages_is_not_declared() -> None:
    empty = Holdfast().pipeline("empty")
    with pytest.raises(AppInvalid, match="has no stages"):
        empty.published()
    assert repr(empty) == "<pipeline empty: no stages yet>"


def test_two_tasks_cannot_have_the_name_of_a_pipeline(pipeline: Pipeline) -> None:
    with pytest.raises(AppInvalid, match="cannot both be called 'declared'"):
        pipeline.app.task(name="declared")(well)


@pytest.mark.parametrize("given", [{"colour": 1}, {"number": "many"}], ids=str)
def test_what_no_stage_takes_is_refused_before_a_job_is_made(pipeline: Pipeline, given: dict[str, Any]) -> None:
    with pytest.raises((TypeError, PayloadInvalid)):
        pipeline.submission(**given)


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        (int, ["integer"]),
        (float, ["number"]),
        (str | None, ["null", "string"]),
        (date, ["number", "string"]),
        (timedelta, ["number", "string"]),
        (list[int], ["array"]),
        (dict[str, int], ["object"]),
        (set[str], ["array"]),
        (Literal["a", "b"], list(ALL_KINDS)),
        (Callable[[], int] | None, list(ALL_KINDS)),
        (Any, list(ALL_KINDS)),
    ],
    ids=str,
)
def test_a_parameter_takes_the_kinds_of_json_that_it_can_be_read_from(kind: object, kinds: list[str]) -> None:
    assert takes(kind)["kinds"] == kinds


def test_a_parameter_has_the_ends_that_its_annotation_says() -> None:
    assert takes(Annotated[int, Field(ge=1, le=20)]) == {"kinds": ["integer"], "least": 1, "most": 20}
