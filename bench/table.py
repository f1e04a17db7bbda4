"""Figures as tables: for the terminal, and as Markdown for the documentation. Nothing here is written by hand.

from bench.table import load, markdown
markdown(load("engine"))
"""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results" / "local"

Result = dict[str, Any]
"""What a measurement has written: measurement, quick, at, took_seconds, commit, machine, server, figures, waits."""


class Row(NamedTuple):
    """One figure: the median of its rounds, the least and the most, and the median of its ratios."""

    name: str
    median: float
    least: float
    most: float
    unit: str
    ratio: float | None
    beside: str | None


def load(measurement: str, folder: Path = RESULTS) -> Result:
    result: Result = json.loads((folder / f"{measurement}.json").read_text())
    return result


def rows(result: Result) -> Iterator[Row]:
    rounds = {figure["name"]: figure["rounds"] for figure in result["figures"]}
    for figure in result["figures"]:
        seen = figure["rounds"]
        others = rounds.get(figure["beside"])
        ratio = statistics.median(one / other for one, other in zip(seen, others, strict=True)) if others else None
        yield Row(
            figure["name"], statistics.median(seen), min(seen), max(seen), figure["unit"], ratio, figure["beside"]
        )


def text(result: Result) -> str:
    lines = [f"\n{result['measurement']}, {result['took_seconds']:.0f} s"]
    width = max((len(figure["name"]) for figure in result["figures"]), default=0)
    for row in rows(result):
        spread = f"({short(row.least)} to {short(row.most)})"
        beside = f"x {row.ratio:.2f} of {row.beside}" if row.ratio is not None else ""
        lines.append(f"  {row.name:<{width}} {short(row.median):>9} {row.unit:<8} {spread:<22} {beside}".rstrip())
    return "\n".join(lines)


def markdown(result: Result) -> str:
    lines = ["| | median | spread | | beside |", "|---|--:|--:|---|---|"]
    for row in rows(result):
        beside = f"{row.ratio:.2f} x {row.beside}" if row.ratio is not None else ""
        lines.append(
            f"| {row.name} | {short(row.median)} | {short(row.least)} to {short(row.most)} | {row.unit} | {beside} |"
        )
    return "\n".join([*lines, "", source(result)])


def source(result: Result) -> str:
    """Where the figures come from, in a sentence."""
    machine = result["machine"]
    rounds = max((len(figure["rounds"]) for figure in result["figures"]), default=0)
    changed = " with changes" if result["commit"].endswith("+") else ""
    return (
        f"`python -m bench {result['measurement']}`, {rounds} rounds, {result['at'][:10]}, commit"
        f" {result['commit'][:9]}{changed}: {machine['cores']} cores, {machine['memory_mb'] / 1024:.0f} GB,"
        f" PostgreSQL {machine['postgres']}, Python {machine['python']}."
    )


def short(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
