"""What the documentation says of speed is what a kept run says, and nothing else."""

from typing import Any

import pytest
from bench.peers.figures import ratio, summary
from bench.peers.page import PAGE, PLOT, newest, page, plot


def run_of(**rounds: list[dict[str, float]]) -> dict[str, Any]:
    """The results of a run in which these peers drained."""
    return {"peers": {name: {} for name in rounds}, "figures": {"drain1": rounds, "idle": rounds}, "failures": {}}


def test_the_page_says_what_the_newest_kept_run_says() -> None:
    results = newest()
    assert PAGE.read_text() == page(results), "write it again: python -m bench.peers.page"
    assert results is None or PLOT.read_text() == plot(results)


def test_the_median_of_the_rounds_stands_with_the_least_and_the_most() -> None:
    results = run_of(holdfast=[{"tasks": 100, "seconds": seconds} for seconds in (1, 4, 2)])
    row = summary(results, "drain1", "holdfast")
    assert row
    assert (row.median, row.least, row.most) == (50, 25, 100)


@pytest.mark.parametrize(("metric", "times"), [("drain1", 2), ("p50", 0.5)])
def test_twice_as_many_and_half_as_long_are_both_twice_as_good(metric: str, times: float) -> None:
    ours = {"tasks": 200, "seconds": 1, "p50": 2.0}
    theirs = {"tasks": 100, "seconds": 1, "p50": 1.0}
    assert ratio(run_of(holdfast=[ours], other=[theirs]), metric, "other") == times


def test_a_peer_without_a_figure_is_compared_with_nobody() -> None:
    results = run_of(holdfast=[{"tasks": 1, "seconds": 1}])
    assert ratio(results, "drain1", "other") is None
