"""What a test costs in CPU seconds, with all processes that it starts and its share of Postgres.

A test of the first tier may cost one, so that the tier stays short; those in DEAR may cost more. Tests run in parallel,
and the work of Postgres cannot be attributed to one of them, so a run of the first tier only lists the suspects
(.cache/costs.json). `python -m tests.costs` then runs the suspects one by one and measures each, up to three times,
relative to a fixed piece of work on the same machine at the same moment. Linux only.
"""

import ctypes
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import FIRST_TIER

ROOT = Path(__file__).parents[1]
NAMED = ROOT / ".cache" / "costs.json"
limit_seconds = 1.0
suspect_seconds = 0.8
"""Less than the limit: processes that outlived their parent are not counted while tests run in parallel."""
measured_at_most = 3
PR_SET_CHILD_SUBREAPER = 36
REFERENCE_SECONDS = 0.12
"""What `reference` takes on a quiet machine with 2 EPYC cores. There a second counts as a second."""

CRASHES = "tests/worker/test_crashes.py"
KILLS = "test_another_worker_goes_on"

DEAR = {
    f"{CRASHES}::test_what_a_killed_runner_ran_is_run_again_at_once[sql]",
    f"{CRASHES}::test_when_both_are_gone_others_take_over_after_the_lease[sql]",
    f"{CRASHES}::test_a_task_that_kills_its_worker_ends_after_three_and_harms_nobody[sql]",
    f"{CRASHES}::test_what_is_done_is_not_done_again_after_a_crash[sql-sync]",
    f"{CRASHES}::test_a_stuck_handler_keeps_its_lease_and_can_be_cancelled[sql]",
    "tests/worker/test_leaving.py::test_short_tasks_end_and_long_ones_go_back[sql]",
    "tests/crash/test_acknowledged.py::test_a_settle_that_was_answered_outlives_the_server",
    "tests/crash/test_embedded_kills.py::test_kill_9_of_one_holder_after_another_hurts_no_other",
    f"tests/lifecycles/analysis/test_kills.py::{KILLS}_at_the_agent_that_was_running[sql-the whole worker-lines]",
    f"tests/lifecycles/batch/test_kills.py::{KILLS}_and_begins_nothing_twice[sql-9]",
    f"tests/lifecycles/pipeline/test_kills.py::{KILLS}_at_the_stage_that_was_running[sql-killed]",
    "tests/lifecycles/ingest/test_kills.py::test_another_process_goes_on_at_the_step_that_was_running"
    "[begin EMBEDDED, runner]",
    "tests/lifecycles/ingest/test_flow.py::test_a_document_goes_through_every_step_and_is_found[http]",
    "tests/promises/test_feed.py::test_every_committed_move_comes_once_and_in_order_whatever_writers_do[postgres18]",
    "tests/load/test_plans.py::test_hot_statements_touch_a_bounded_number_of_pages[postgres18]",
    "tests/simulation/test_simulation.py::test_a_short_history_breaks_no_promise",
    "tests/http/test_roles.py::test_a_route_lets_in_whom_it_is_for_and_nobody_else",
    "tests/examples/test_readme.py::test_the_ten_lines_run_as_printed",
}
"""Witnesses of crash promises, one for each application, and a few others that are worth their price. At most 20."""
assert len(DEAR) <= 20

IMPORTED = ("boto3", "polars", "pypdf", "sklearn.linear_model", "trafilatura")
"""Imported up front, or the first test to need one would pay for it."""


class Costs:
    """The plugin: a run of the first tier lists the tests that may cost too much."""

    def __init__(self, config: pytest.Config) -> None:
        self.is_asked = config.option.markexpr == FIRST_TIER and not config.option.collectonly
        self.postmasters: list[int] = []
        if "COSTS_FILE" in os.environ:
            for name in IMPORTED:
                with suppress(ImportError):
                    importlib.import_module(name)
        self.named: dict[str, float] = {}
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before, self._shared = self._spent(), 0.0
        try:
            return (yield)
        finally:
            cost = self._spent() - before - self._shared
            if cost > suspect_seconds or "COSTS_FILE" in os.environ:
                self.named[item.nodeid] = round(cost, 2)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """A fixture that many tests share is not charged to the first of them."""
        before = self._spent() if fixturedef.scope != "function" else 0
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared += self._spent() - before

    def _spent(self) -> float:
        if (root := os.environ.get("COSTS_ROOT")) is not None:
            return spent_below(int(root))
        own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        return own + sum(spent_by_server(pid) for pid in self.postmasters) / beside

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["costs"] = self.named
        elif path := os.environ.get("COSTS_FILE"):
            Path(path).write_text(json.dumps(self.named))
        elif self.is_asked:
            NAMED.parent.mkdir(exist_ok=True)
            NAMED.write_text(json.dumps(self.named, indent=1))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.named |= getattr(node, "workeroutput", {}).get("costs", {})


def spent_by(pid: int, *, with_ended: bool = True) -> float:
    """CPU seconds of a process, and of its children that have ended; 0 if it has gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def children_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def spent_by_server(pid: int) -> float:
    return spent_by(pid) + sum(map(spent_by, children_of(pid)))


def spent_below(root: int) -> float:
    """CPU seconds of all descendants, ended ones too: root is a subreaper, so orphans become its children."""
    total = spent_by(root) - spent_by(root, with_ended=False)
    left = children_of(root)
    while left:
        pid = left.pop()
        total += spent_by(pid)
        left += children_of(pid)
    return total


def reference() -> float:
    """The CPU seconds of a fixed piece of work, here and now."""
    began = time.process_time()
    sum(number * number % 7 for number in range(3_000_000))
    return time.process_time() - began


def measured(tests: list[str]) -> dict[str, float]:
    """What each of these tests costs when it runs alone."""
    path = ROOT / ".cache" / "measured.json"
    path.unlink(missing_ok=True)
    environment = {**os.environ, "COSTS_ROOT": str(os.getpid()), "COSTS_FILE": str(path)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as run:
        while run.returncode is None:  # orphans end as our children
            pid, status = os.wait()
            if pid == run.pid:
                run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"These tests could not be measured, pytest ended with {run.returncode}: {' '.join(command)}")
    found: dict[str, float] = json.loads(path.read_text())
    return found


def main() -> int:
    if not NAMED.exists():
        sys.stderr.write("No costs are recorded yet. Run make test first.\n")
        return 2
    if sys.platform != "linux":
        return 0
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    suspects = {name: limit_seconds * 9 for name in json.loads(NAMED.read_text()) if name not in DEAR}
    for _ in range(measured_at_most):
        if not suspects:
            break
        unit = reference() / REFERENCE_SECONDS
        found = measured(list(suspects))
        suspects = {
            name: cost for name, before in suspects.items()
            if (cost := min(before, found[name] / unit)) > limit_seconds
        }  # fmt: skip
    for name, cost in sorted(suspects.items(), key=lambda item: -item[1]):
        sys.stderr.write(f"{name} costs {cost:.1f} CPU seconds.\n")
    if suspects:
        sys.stderr.write("Make it cheaper, mark it `deep`, or name it in DEAR (tests/costs.py) with a reason.\n")
    return int(bool(suspects))


if __name__ == "__main__":
    sys.exit(main())
