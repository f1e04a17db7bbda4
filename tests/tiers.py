"""Which tests run when.

`make test` runs the first tier: it finds what an ordinary change breaks. `make check` adds those marked `deep`:
processes that are killed, all seeds and pairs, other Postgres, a browser. `make crash` runs those marked `long`.
Each promise of docs/guarantees.md has a witness in the first tier (tests/promises/test_guarantees.py), and a test of it
may cost one CPU second (tests/costs.py).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pytest

FIRST_TIER = "not deep and not long"

WAITING = ("worker", "crash", "cli", "lifecycles/batch", "wakeups")
"""Tests that mostly wait. They go first, so that a run does not end waiting for them on idle cores."""


def deep_after(n: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a parametrized test: the first n in every run, the others in the deep tier."""
    return [case if place < n else deep(case) for place, case in enumerate(cases)]


def deep_but(kept: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """The same: these in every run, wherever they stand."""
    kept, cases = list(kept), list(cases)
    assert [one for one in kept if one not in cases] == []
    return [case if case in kept else deep(case) for case in cases]


def deep(case: Any) -> Any:
    """One case of a parametrized test, in the deep tier. A tuple is one value for each parameter."""
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.deep])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.deep)


def both_transports(
    metafunc: pytest.Metafunc, *, unmarked: str | None = None, scope: Literal["module"] | None = None
) -> None:
    """Run a test with the fixture `transport` over SQL, and over HTTP in the tier that its mark `over_http` names.

    Tests without the mark run over HTTP in the tier `unmarked`, or not at all.
    """
    mark = metafunc.definition.get_closest_marker("over_http")
    if "transport" in metafunc.fixturenames and (mark or unmarked):
        tier = next(iter(mark.args), None) if mark else unmarked
        marks = [getattr(pytest.mark, tier)] if tier else []
        metafunc.parametrize("transport", ["sql", pytest.param("http", marks=marks)], scope=scope)


class Tiers:
    """The plugin: which tests go first, and the closing line about those left out."""

    def __init__(self, config: pytest.Config) -> None:
        self.plugins = config.pluginmanager
        self.left_out = Counter[str]()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: not item.nodeid.removeprefix("tests/").startswith(WAITING))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.left_out["deep"] += sum(tier_of(item) == "deep" for item in items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = dict(self.left_out)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name what failed at once: a run that is cut off tells it too."""
        terminal = self.plugins.get_plugin("terminalreporter")
        if report.failed and terminal:
            message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "").partition("\n")[0]
            if report.when not in ("setup", "call", "teardown"):
                message = "its process ended"
            terminal.write(f"\n{report.nodeid} failed ({report.when}, {report.duration:.0f} s) {message}"[:300] + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Every process of a run collects all tests, so all of them leave out the same ones."""
        self.left_out |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.option.markexpr == FIRST_TIER and self.left_out["deep"]:
            number = f"{self.left_out['deep']:,} test{'' if self.left_out['deep'] == 1 else 's'}"
            kinds = ": killed processes, all seeds and pairs of calls, Postgres 15, a browser"
            terminalreporter.write_line(
                f"That was the first tier. `make check` adds the deep tier, {number}"
                f"{' of those chosen here' if config.option.file_or_dir else kinds}."
            )


def tier_of(item: pytest.Item) -> str:
    return next((tier for tier in ("long", "deep") if item.get_closest_marker(tier)), "first")
