"""What is easily written wrong is either understood, or fails at once and says what to write."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast import Holdfast, RateLimited
from holdfast.errors import RequestInvalid, TaskFailed
from holdfast.kernel.task import Later, Moved
from holdfast.testing import Engine, Ran


def failure(run: Ran[Any]) -> TaskFailed:
    assert isinstance(run.error, TaskFailed)
    return run.error


# Durations


def test_an_outcome_reads_its_delay_in_many_ways() -> None:
    ways: list[Any] = ["2m", 120, 120.0, "120", timedelta(minutes=2)]
    for way in ways:
        assert Later(way).delay == Moved("Queued", delay=way).delay == timedelta(minutes=2)
    assert Later().delay is None
    for nonsense in ("soon", -1, True):
        with pytest.raises(RequestInvalid, match="is no duration"):
            Later(nonsense)


def test_a_task_waits_however_its_delay_is_written(holdfast: Engine) -> None:
    app = Holdfast()
    ways: list[Any] = ["2m", 120, timedelta(minutes=2)]
    seen: list[Any] = []

    @app.task
    def waits(raising: bool) -> Any:
        seen.append(holdfast.clock.now())
        if len(seen) > len(ways):
            return "done"
        if raising:
            raise RateLimited("slow", retry_after=ways[len(seen) - 1])
        return Later(ways[len(seen) - 1])

    for raising in (False, True):
        seen.clear()
        assert holdfast.run(waits, raising).result == "done"
        assert all(later - sooner >= timedelta(minutes=2) for sooner, later in zip(seen, seen[1:], strict=False))


def test_a_delay_that_is_none_fails_at_once(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    def returns() -> Any:
        return Later("soon")

    @app.task
    def raises() -> None:
        raise RateLimited("slow down", retry_after="soon")

    for task in (returns, raises):
        error = failure(holdfast.run(task))
        assert (error.category, error.code) == ("SchemaInvalid", "RequestInvalid")
        assert "'soon' is no duration" in str(error)
