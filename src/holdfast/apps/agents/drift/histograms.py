"""Two distributions in the same bins, for the eye; what is decided is decided elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from holdfast.apps.agents.report import number

bars_most = 20
categories_most = 12


@dataclass(frozen=True)
class Histogram:
    """Shares of both samples in the same bins. A scale has its end as one label more than it has bins."""

    labels: tuple[str, ...]
    baseline: tuple[float, ...]
    now: tuple[float, ...]

    def as_json(self) -> dict[str, object]:
        """For the output."""
        return {"labels": list(self.labels), "baseline": list(self.baseline), "now": list(self.now)}


def of_numbers(before: pl.Series, now: pl.Series, dates: bool = False) -> Histogram | None:
    """Bins of equal width between the outermost half percents; what is beyond counts into the first and last."""
    ends = [float(s.quantile(q, "linear") or 0) for s in (before, now) for q in (0.005, 0.995)]
    low, high = min(ends), max(ends)
    if high <= low:
        return None
    whole = not dates and all(s.dtype.is_integer() for s in (before, now)) and high - low < bars_most
    bars = int(high - low) + 1 if whole else bars_most
    width = (high - low + 1) / bars if whole else (high - low) / bars
    counted = [_in_bars(s, low, width, bars) for s in (before, now)]
    return Histogram(_labels(low, width, bars, whole, dates), counted[0], counted[1])


def _in_bars(values: pl.Series, low: float, width: float, bars: int) -> tuple[float, ...]:
    place = ((values.cast(pl.Float64) - low) / width).floor().clip(0, bars - 1).cast(pl.Int32)
    counted = dict(place.value_counts().iter_rows())
    return tuple(round(counted.get(i, 0) / len(values), 6) for i in range(bars))


def _labels(low: float, width: float, bars: int, whole: bool, dates: bool) -> tuple[str, ...]:
    starts = [low + i * width for i in range(bars + 1)]
    if dates:
        return tuple(f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}" for start in starts)
    return tuple(number(round(start) if whole else start) for start in starts)


def of_categories(counts: pl.DataFrame, before: int, now: int, show: Callable[[str], str]) -> Histogram:
    """The most frequent values, and the rest as one; `counts` has value, before and now, the most frequent first."""
    top, rest = counts.head(categories_most), counts.slice(categories_most)
    rows = [(show(value), b / before, n / now) for value, b, n in top.iter_rows()]
    if rest.height:
        label = f"{rest.height:,} others"
        rows.append((label, int(rest["before"].sum()) / before, int(rest["now"].sum()) / now))
    return Histogram(
        tuple(label for label, _, _ in rows),
        tuple(round(b, 6) for _, b, _ in rows),
        tuple(round(n, 6) for *_, n in rows),
    )
