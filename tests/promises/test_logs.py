"""Logs: JSON for machines, lines for people, and nothing that would steer a terminal."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.engine.logs import ForMachines, ForPeople, log_with


@pytest.fixture(params=[ForMachines, ForPeople])
def log(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO, Any]]:
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(request.param())
    logger = logging.getLogger("holdfast.a_test")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, output, request.param
    logger.removeHandler(handler)


def test_a_line_says_what_happened_and_what_is_particular(log: tuple[logging.Logger, io.StringIO, Any]) -> None:
    logger, output, kind = log
    with log_with(request_id="r-1"):
        logger.warning("a runner died", extra={"exit_code": 9})
    if kind is ForMachines:
        line = json.loads(output.getvalue())
        expected = {"event": "a runner died", "level": "warning", "logger": "holdfast.a_test", "exit_code": 9}
        assert {**expected, "request_id": "r-1"}.items() <= line.items()
        assert line["timestamp"].endswith("+00:00")
    else:
        assert "a runner died" in output.getvalue()
        assert "request_id=r-1 exit_code=9" in output.getvalue()


def test_an_exception_is_logged_whole(log: tuple[logging.Logger, io.StringIO, Any]) -> None:
    logger, output, _ = log
    try:
        raise ValueError("no such order")
    except ValueError:
        logger.exception("a chore failed")
    assert "ValueError: no such order" in output.getvalue()


def test_what_others_wrote_does_not_steer_the_terminal(log: tuple[logging.Logger, io.StringIO, Any]) -> None:
    logger, output, _ = log
    logger.warning("task \x1b[2Jraised", extra={"task": "a\nb\x07"})
    assert "\x1b[2J" not in output.getvalue()
    assert "\x07" not in output.getvalue()
    assert output.getvalue().count("\n") == 1
