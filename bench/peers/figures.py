"""From raw figures to what is shown: the value of each metric, the median of its rounds, their spread."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Raw = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """One row of the table."""

    title: str
    value: Callable[[Raw], float]
    more_is_better: bool
    digits: int = 0


@dataclass(frozen=True)
class Summary:
    """The median of the rounds, and the least and the most of them."""

    median: float
    least: float
    most: float


def rate(raw: Raw) -> float:
    return float(raw["tasks"] / raw["seconds"])


METRICS = {
    "submit": Metric("submit one at a time, tasks/s", rate, more_is_better=True),
    "bulk": Metric("submit in bulk, tasks/s", rate, more_is_better=True),
    "drain1": Metric("drain, 1 worker, tasks/s", rate, more_is_better=True),
    "drain2": Metric("drain, 2 workers, tasks/s", rate, more_is_better=True),
    "million": Metric("drain beside 1,000,000 finished, tasks/s", rate, more_is_better=True),
    "snapshot": Metric("drain with a held snapshot, tasks/s", rate, more_is_better=True),
    "steps": Metric("tasks of 5 steps, tasks/s", rate, more_is_better=True),
    "p50": Metric("idle, submit to handler, p50 ms", lambda raw: float(raw["p50"]), more_is_better=False, digits=2),
    "p99": Metric("idle, submit to handler, p99 ms", lambda raw: float(raw["p99"]), more_is_better=False, digits=2),
    "default": Metric("kill -9, defaults, s", lambda raw: float(raw["seconds"]), more_is_better=False, digits=1),
    "best": Metric("kill -9, best settings, s", lambda raw: float(raw["seconds"]), more_is_better=False, digits=1),
    "runner": Metric("only the runner killed, s", lambda raw: float(raw["seconds"]), more_is_better=False, digits=1),
    "killed": Metric("extra runs after a kill", lambda raw: float(raw["extra"]), more_is_better=False),
}
SOURCE = {"p50": "idle", "p99": "idle"}
"""Where a metric's raw figures lie, if not under its own name."""


def summary(results: dict[str, Any], metric: str, peer: str) -> Summary | None:
    """None where there is no figure."""
    rounds = results["figures"].get(SOURCE.get(metric, metric), {}).get(peer)
    if not rounds:
        return None
    values = [METRICS[metric].value(raw) for raw in rounds]
    return Summary(statistics.median(values), min(values), max(values))


def ratio(results: dict[str, Any], metric: str, peer: str, beside: str = "holdfast") -> float | None:
    """How many times better `beside` is than the peer, in this run; for a latency, how many times shorter."""
    own, other = summary(results, metric, peer), summary(results, metric, beside)
    if own is None or other is None or not own.median or not other.median:
        return None
    return other.median / own.median if METRICS[metric].more_is_better else own.median / other.median


def written(metric: str, value: float) -> str:
    return f"{value:,.{METRICS[metric].digits}f}"
