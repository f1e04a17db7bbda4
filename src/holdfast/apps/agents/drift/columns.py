"""One column now, against the same column in the baseline.

A column has drifted if the change is both large (PSI, or the share that is missing) and unlikely to be chance: between
two hundred rows, a PSI of 0.1 is noise. A column of dates that moves on with time never counts as strong, and a column
that names rows is not compared at all. The histograms are for the reader; nothing is decided by them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal

import polars as pl

from holdfast.apps.agents.drift.statistics import (
    chi_square,
    jensen_shannon,
    kolmogorov_smirnov,
    proportions_p,
    psi,
)
from holdfast.apps.agents.options import DriftOptions
from holdfast.apps.agents.personal import Curtain
from holdfast.apps.agents.report import number
from holdfast.apps.agents.signs import MISSING_MARKERS, names_rows

bars_most = 20
categories_most = 12


@dataclass(frozen=True)
class Histogram:
    """Shares of both samples in the same bins. A scale has its end as one label more than it has bins."""

    labels: tuple[str, ...]
    baseline: tuple[float, ...]
    now: tuple[float, ...]


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


Level = Literal["none", "some", "strong"]
Kind = Literal["number", "category", "date", "text", "identifier", "other"]

expected_least = 5
listed_most = 10


@dataclass
class ColumnDrift:
    """What became of one column: how far it moved, for which reasons, and the figures."""

    column: str
    kind: Kind
    level: Level = "none"
    reasons: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    histogram: Histogram | None = None

    def raise_to(self, level: Level, reason: str) -> None:
        """At least this level, for this reason."""
        order: list[Level] = ["none", "some", "strong"]
        self.level = max(self.level, level, key=order.index)
        self.reasons.append(reason)


def family(dtype: pl.DataType) -> str:
    """The type as a person would name it."""
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "yes or no"
    if dtype.is_temporal():
        return "date"
    return "text" if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum) else "nested"


def compare(before: pl.Series, now: pl.Series, options: DriftOptions, curtain: Curtain) -> ColumnDrift:
    """How a column moved between two samples of the same type."""
    kept_before, kept_now = _written(before), _written(now)
    drift = ColumnDrift(now.name, _kind(kept_before, kept_now))
    _compare_missing(drift, (len(before), len(kept_before)), (len(now), len(kept_now)), options)
    if kept_before.is_empty() or kept_now.is_empty():
        return drift
    match drift.kind:
        case "number":
            _compare_numbers(drift, kept_before, kept_now, options, curtain)
        case "date":
            _compare_dates(drift, kept_before, kept_now, options, curtain)
        case "category":
            _compare_categories(drift, kept_before, kept_now, options, curtain)
        case "text":
            _compare_texts(drift, kept_before, kept_now, options)
    return drift


def _written(values: pl.Series) -> pl.Series:
    """The values that are there."""
    values = values.drop_nulls()
    if values.dtype.is_float():
        return values.filter(values.is_finite())
    if isinstance(values.dtype, pl.Categorical | pl.Enum) or values.dtype == pl.Boolean:
        return values.cast(pl.String)
    if values.dtype == pl.String:
        return values.filter(~values.str.strip_chars().str.to_lowercase().is_in(MISSING_MARKERS))
    return values


def _kind(before: pl.Series, now: pl.Series) -> Kind:
    dtype = now.dtype
    if dtype.is_integer() and names_rows(before) and names_rows(now):
        return "identifier"
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        return "date"
    if dtype == pl.String:
        return "text" if _mostly_unique(before) and _mostly_unique(now) else "category"
    return "other"


def _ends(values: pl.Series) -> tuple[float, float]:
    return float(values.min()), float(values.max())  # type: ignore[arg-type]


def _mostly_unique(values: pl.Series) -> bool:
    return values.n_unique() > max(50, 0.5 * len(values))


def _compare_missing(drift: ColumnDrift, before: tuple[int, int], now: tuple[int, int], options: DriftOptions) -> None:
    gone = [rows - kept for rows, kept in (before, now)]
    shares = [lost / rows if rows else 0.0 for lost, (rows, _) in zip(gone, (before, now), strict=True)]
    drift.figures["missing"] = {"baseline": round(shares[0], 6), "now": round(shares[1], 6)}
    change = abs(shares[1] - shares[0])
    if change >= options.missing_some and proportions_p(gone[0], before[0], gone[1], now[0]) < options.significance:
        level: Level = "strong" if change >= options.missing_strong else "some"
        drift.raise_to(level, f"Missing in {shares[1]:.1%} of the rows, before in {shares[0]:.1%}.")


def _judge(
    drift: ColumnDrift, index: float, p: float, options: DriftOptions, what: str, most: Level = "strong"
) -> None:
    """Raise the level if the index is large and chance does not explain it."""
    if index >= options.psi_some and p < options.significance:
        large = index >= options.psi_strong and most == "strong"
        drift.raise_to("strong" if large else "some", f"{what} (PSI {index:.2f}, p {_describe_p(p)}).")


def _describe_p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "below 0.001"


def binned(before: pl.Series, now: pl.Series, bins: int) -> tuple[list[int], list[int]]:
    """Counts of both in bins that hold equal parts of the baseline."""
    edges = pl.Series(
        sorted({float(before.quantile(i / bins, "linear") or 0) for i in range(1, bins)}), dtype=pl.Float64
    )
    return _counts(edges, before), _counts(edges, now)


def _counts(edges: pl.Series, values: pl.Series) -> list[int]:
    places = edges.search_sorted(values.cast(pl.Float64), side="left")
    counted = dict(places.value_counts().iter_rows())
    return [counted.get(i, 0) for i in range(len(edges) + 1)]


def _compare_distributions(
    drift: ColumnDrift, before: pl.Series, now: pl.Series, options: DriftOptions
) -> tuple[float, float]:
    """The figures of two samples of numbers; their PSI, and how probable as large a distance is by chance."""
    index = psi(*binned(before, now, options.bins))
    distance, p = kolmogorov_smirnov(before, now)
    drift.figures |= {"psi": round(index, 6), "ks": round(distance, 6), "ks_p": p}
    return index, p


def _compare_numbers(
    drift: ColumnDrift, before: pl.Series, now: pl.Series, options: DriftOptions, curtain: Curtain
) -> None:
    index, p = _compare_distributions(drift, before, now, options)
    spread = float(before.std() or 0)  # type: ignore[arg-type]
    means = float(before.mean() or 0), float(now.mean() or 0)  # type: ignore[arg-type]
    shift = (means[1] - means[0]) / spread if spread else 0.0
    shift = shift if isfinite(shift) else 0.0
    drift.figures |= {"mean": {"baseline": means[0], "now": means[1]}, "mean_shift_deviations": round(shift, 4)}
    way = "higher" if shift > 0 else "lower"
    moved = f"Values are {abs(shift):.1f} standard deviations {way} on average"
    _judge(drift, index, p, options, moved if abs(shift) >= 0.1 else "The values are spread differently")
    if drift.column not in curtain.columns:
        drift.histogram = of_numbers(before, now)


def _compare_dates(
    drift: ColumnDrift, before: pl.Series, now: pl.Series, options: DriftOptions, curtain: Curtain
) -> None:
    seconds = before.cast(pl.Datetime("us")).dt.epoch("s"), now.cast(pl.Datetime("us")).dt.epoch("s")
    index, p = _compare_distributions(drift, *seconds, options)
    old, new = ([curtain.show(drift.column, end) for end in (values.min(), values.max())] for values in (before, now))
    firsts, lasts = zip(_ends(seconds[0]), _ends(seconds[1]), strict=True)
    days = [round((after - start) / 86_400, 2) for start, after in (firsts, lasts)]
    drift.figures |= {
        "range": {"baseline": old, "now": new}, "range_shift_days": {"first": days[0], "last": days[1]},
    }  # fmt: skip
    moved = f"Runs from {new[0]} to {new[1]}, before from {old[0]} to {old[1]}"
    _judge(drift, index, p, options, moved, most="some")
    if drift.column not in curtain.columns:
        drift.histogram = of_numbers(*seconds, dates=True)


def _compare_texts(drift: ColumnDrift, before: pl.Series, now: pl.Series, options: DriftOptions) -> None:
    """Texts that hardly repeat are compared by their length."""
    lengths = before.str.len_chars(), now.str.len_chars()
    index, p = _compare_distributions(drift, *lengths, options)
    means = [round(float(values.mean() or 0), 2) for values in lengths]  # type: ignore[arg-type]
    drift.figures |= {"compared": "length", "mean_length": {"baseline": means[0], "now": means[1]}}
    _judge(drift, index, p, options, f"Texts have {means[1]:.0f} characters on average, before {means[0]:.0f}")
    drift.histogram = of_numbers(*lengths)


def _compare_categories(
    drift: ColumnDrift, before: pl.Series, now: pl.Series, options: DriftOptions, curtain: Curtain
) -> None:
    counts = (
        before.alias("value").value_counts(name="before")
        .join(now.alias("value").value_counts(name="now"), on="value", how="full", coalesce=True)
        .fill_null(0).sort(pl.col("before") + pl.col("now"), "value", descending=[True, False])
    )  # fmt: skip
    new = counts.filter(pl.col("before") == 0)
    expected_now = pl.col("before") * len(now) / len(before)
    vanished = counts.filter((pl.col("now") == 0) & (expected_now >= expected_least))
    # Rare values are chosen by both files together: chosen by one of them, they would be more frequent in that one.
    smaller = min(len(before), len(now)) / (len(before) + len(now))
    is_common = (pl.col("before") + pl.col("now")) * smaller >= expected_least
    common, rest = counts.filter(is_common), counts.filter(~is_common)
    rows = [*common.select("before", "now").rows(), (rest["before"].sum(), rest["now"].sum())]
    first, second = [b for b, n in rows if b + n], [n for b, n in rows if b + n]
    index, (statistic, p) = psi(first, second), chi_square(first, second)
    drift.figures |= {
        "psi": round(index, 6), "jensen_shannon": round(jensen_shannon(first, second), 6),
        "chi_square": round(statistic, 4), "chi_square_p": p,
        "distinct": {"baseline": before.n_unique(), "now": now.n_unique()},
        "new_values": _listed(drift.column, new, "now", len(now), curtain),
        "vanished_values": _listed(drift.column, vanished, "before", len(before), curtain),
    }  # fmt: skip
    _judge(drift, index, p, options, _moved_most(drift.column, common, len(before), len(now), new, curtain))
    drift.histogram = of_categories(counts, len(before), len(now), lambda value: curtain.show(drift.column, value))


def _listed(column: str, counts: pl.DataFrame, side: str, total: int, curtain: Curtain) -> dict[str, Any]:
    rows = int(counts[side].sum())
    examples = curtain.show_all(column, counts["value"].head(listed_most))
    return {"count": counts.height, "rows": rows, "share": round(rows / total, 6), "examples": examples}


def _moved_most(column: str, common: pl.DataFrame, before: int, now: int, new: pl.DataFrame, curtain: Curtain) -> str:
    """What changed most, as a sentence."""
    if (share := int(new["now"].sum()) / now) >= 0.05:
        return f"{share:.1%} of the rows have a value that the baseline did not have"
    change = (pl.col("now") / now - pl.col("before") / before).abs()
    top = common.sort(change, "value", descending=[True, False]).row(0) if common.height else None
    if top is None:
        return "The values are others"
    return f"{curtain.show(column, top[0])!r} now has {top[2] / now:.1%} of the rows, before {top[1] / before:.1%}"
