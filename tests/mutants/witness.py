"""A pytest plugin, loaded for each mutant: is it the mutant that is tested, and was it an assertion that failed?"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

import holdfast


def pytest_configure() -> None:
    here = Path(holdfast.__file__)
    assert here.is_relative_to(os.environ["MUTANT_ROOT"]), f"the package comes from {here}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo and report.failed:
        error = call.excinfo.value
        line = {
            "test": item.nodeid,
            "noticed": call.when == "call" and is_assertion(error),
            "message": f"{call.when}: {type(error).__name__}: {error}"[:2000],
        }
        with Path(os.environ["MUTANT_REPORT"]).open("a") as report_file:
            report_file.write(json.dumps(line) + "\n")
    return report


def is_assertion(error: BaseException | None) -> bool:
    """Whether a promise was found broken, and not the code that keeps it: a mutant must run."""
    while error is not None:
        if not isinstance(error, AssertionError | pytest.fail.Exception) or "Timeout (" in str(error):
            return False
        error = error.__cause__
    return True
