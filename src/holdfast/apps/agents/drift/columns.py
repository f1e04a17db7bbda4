"""One column now, against the same column in the baseline.

A column has drifted if the change is both large (PSI, or the share that is missing) and unlikely to be chance: between
two hundred rows, a PSI of 0.1 is noise. A column of dates that moves on with time never counts as strong, and a column
that names rows is not compared at all. The histograms are for the reader; nothing is decided by them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal, get_args

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

    def in_bars(values: pl.Series) -> tuple[float, ...]:
        place = ((values.cast(pl.Float64) - low) / width).floor().clip(0, bars - 1).cast(pl.Int32)
        return tuple(round(count / len(values), 6) for count in tally(place, bars))

    return Histogram(_labels(low, width, bars, whole, dates), in_bars(before), in_bars(now))


def tally(places: pl.Series, number_of_places: int) -> list[int]:
    """How often each place occurs."""
    counted = dict(places.value_counts().iter_rows())
    return [counted.get(place, 0) for place in range(number_of_places)]


def _labels(low: float, width: float, bars: int, whole: bool, dates: bool) -> tuple[str, ...]:
    starts = [low + i * width for i in range(bars + 1)]
    if dates:
        return tuple(f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}" for start in starts)
    return tuple(number(round(start) if whole else start) for start in starts)


def of_categories(counts: pl.DataFrame, before: int, now: int, show: Callable[[str], str]) -> Histogram:
    """The most frequent values, and the rest as one; `counts` has value, before and now, the most frequent first."""
    top, rest = counts.head(categories_most), counts.slice(categories_most)
    rows = [(show(value), b, n) for value, b, n in top.iter_rows()]
    if rest.height:
        rows.append((f"{rest.height:,} others", int(rest["before"].sum()), int(rest["now"].sum())))
    return Histogram(*zip(*((label, round(b / before, 6), round(n / now, 6)) for label, b, n in rows), strict=True))


Level = Literal["none", "some", "strong"]
LEVELS: tuple[Level, ...] = get_args(Level)
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
        self.level = max(self.level, level, key=LEVELS.index)
        self.reasons.append(reason)

    def as_json(self) -> dict[str, Any]:
        fields = {"column": self.column, "kind": self.kind, "level": self.level, "reasons": self.reasons}
        return {**fields, **self.figures, "histogram": self.histogram}


def family(dtype: pl.DataType) -> str:
    """The type as a person would name it."""
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "yes or no"
    if dtype.is_temporal():
        return "date"
    return "text" if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum) else "nested"


class Comparison:
    """One column in two samples of the same type: the values that are there, and how far it moved."""

    def __init__(self, before: pl.Series, now: pl.Series, options: DriftOptions, curtain: Curtain) -> None:
        self.before, self.now = _drop_nulls(before), _drop_nulls(now)
        self.rows = len(before), len(now)
        self.options = options
        self.curtain = curtain
        self.drift = ColumnDrift(now.name, _kind(self.before, self.now))

    def compare(self) -> ColumnDrift:
        self._compare_missing()
        if not self.before.is_empty() and not self.now.is_empty():
            match self.drift.kind:
                case "number":
                    self._compare_numbers()
                case "date":
                    self._compare_dates()
                case "category":
                    self._compare_categories()
                case "text":
                    self._compare_texts()
        return self.drift

    @property
    def is_personal(self) -> bool:
        return self.drift.column in self.curtain.columns

    def _show(self, value: object) -> str:
        return self.curtain.show(self.drift.column, value)

    def _compare_missing(self) -> None:
        gone = [rows - len(kept) for rows, kept in zip(self.rows, (self.before, self.now), strict=True)]
        old, new = (lost / rows if rows else 0.0 for lost, rows in zip(gone, self.rows, strict=True))
        self.drift.figures["missing"] = {"baseline": round(old, 6), "now": round(new, 6)}
        p = proportions_p(gone[0], self.rows[0], gone[1], self.rows[1])
        if abs(new - old) >= self.options.missing_some and p < self.options.significance:
            level: Level = "strong" if abs(new - old) >= self.options.missing_strong else "some"
            self.drift.raise_to(level, f"Missing in {new:.1%} of the rows, before in {old:.1%}.")

    def _compare_numbers(self) -> None:
        spread = float(self.before.std() or 0)  # type: ignore[arg-type]
        means = float(self.before.mean() or 0), float(self.now.mean() or 0)  # type: ignore[arg-type]
        shift = (means[1] - means[0]) / spread if spread else 0.0
        shift = shift if isfinite(shift) else 0.0
        way = "higher" if shift > 0 else "lower"
        moved = f"Values are {abs(shift):.1f} standard deviations {way} on average"
        self._judge_distributions(
            self.before, self.now, moved if abs(shift) >= 0.1 else "The values are spread differently"
        )
        mean = {"baseline": means[0], "now": means[1]}
        self.drift.figures |= {"mean": mean, "mean_shift_deviations": round(shift, 4)}
        if not self.is_personal:
            self.drift.histogram = of_numbers(self.before, self.now)

    def _compare_dates(self) -> None:
        before, now = (values.cast(pl.Datetime("us")).dt.epoch("s") for values in (self.before, self.now))
        old, new = ([self._show(end) for end in (values.min(), values.max())] for values in (self.before, self.now))
        moved = f"Runs from {new[0]} to {new[1]}, before from {old[0]} to {old[1]}"
        self._judge_distributions(before, now, moved, most="some")
        first, last = (
            round((after - start) / 86_400, 2) for start, after in zip(_ends(before), _ends(now), strict=True)
        )
        self.drift.figures |= {
            "range": {"baseline": old, "now": new}, "range_shift_days": {"first": first, "last": last},
        }  # fmt: skip
        if not self.is_personal:
            self.drift.histogram = of_numbers(before, now, dates=True)

    def _compare_texts(self) -> None:
        """Texts that hardly repeat are compared by their length."""
        before, now = self.before.str.len_chars(), self.now.str.len_chars()
        old, new = (round(float(values.mean() or 0), 2) for values in (before, now))  # type: ignore[arg-type]
        self._judge_distributions(before, now, f"Texts have {new:.0f} characters on average, before {old:.0f}")
        self.drift.figures |= {"compared": "length", "mean_length": {"baseline": old, "now": new}}
        self.drift.histogram = of_numbers(before, now)

    def _judge_distributions(self, before: pl.Series, now: pl.Series, moved: str, most: Level = "strong") -> None:
        """The figures of two samples of numbers, and what follows from them."""
        index = psi(*count_in_bins(before, now, self.options.bins))
        distance, p = kolmogorov_smirnov(before, now)
        self.drift.figures |= {"psi": round(index, 6), "ks": round(distance, 6), "ks_p": p}
        self._judge(index, p, moved, most)

    def _judge(self, index: float, p: float, moved: str, most: Level = "strong") -> None:
        """Raise the level if the index is large and chance does not explain it."""
        if index >= self.options.psi_some and p < self.options.significance:
            large = index >= self.options.psi_strong and most == "strong"
            probability = f"{p:.3f}" if p >= 0.001 else "below 0.001"
            self.drift.raise_to("strong" if large else "some", f"{moved} (PSI {index:.2f}, p {probability}).")

    def _compare_categories(self) -> None:
        before, now = len(self.before), len(self.now)
        counts = (
            self.before.alias("value").value_counts(name="before")
            .join(self.now.alias("value").value_counts(name="now"), on="value", how="full", coalesce=True)
            .fill_null(0).sort(pl.col("before") + pl.col("now"), "value", descending=[True, False])
        )  # fmt: skip
        new = counts.filter(pl.col("before") == 0)
        vanished = counts.filter((pl.col("now") == 0) & (pl.col("before") * now / before >= expected_least))
        # Rare values are chosen by both files together: chosen by one, they would be more frequent in that one.
        smaller = min(before, now) / (before + now)
        is_common = (pl.col("before") + pl.col("now")) * smaller >= expected_least
        common, rest = counts.filter(is_common), counts.filter(~is_common)
        rows = [*common.select("before", "now").rows(), (rest["before"].sum(), rest["now"].sum())]
        first, second = [b for b, n in rows if b + n], [n for b, n in rows if b + n]
        index, (statistic, p) = psi(first, second), chi_square(first, second)
        self.drift.figures |= {
            "psi": round(index, 6), "jensen_shannon": round(jensen_shannon(first, second), 6),
            "chi_square": round(statistic, 4), "chi_square_p": p,
            "distinct": {"baseline": self.before.n_unique(), "now": self.now.n_unique()},
            "new_values": self._list(new, "now", now),
            "vanished_values": self._list(vanished, "before", before),
        }  # fmt: skip
        self._judge(index, p, self._moved_most(common, new))
        self.drift.histogram = of_categories(counts, before, now, self._show)

    def _list(self, counts: pl.DataFrame, side: str, total: int) -> dict[str, Any]:
        rows = int(counts[side].sum())
        examples = [self._show(value) for value in counts["value"].head(listed_most)]
        return {"count": counts.height, "rows": rows, "share": round(rows / total, 6), "examples": examples}

    def _moved_most(self, common: pl.DataFrame, new: pl.DataFrame) -> str:
        """What changed most, as a sentence."""
        before, now = len(self.before), len(self.now)
        if (share := int(new["now"].sum()) / now) >= 0.05:
            return f"{share:.1%} of the rows have a value that the baseline did not have"
        if common.is_empty():
            return "The values are others"
        change = (pl.col("now") / now - pl.col("before") / before).abs()
        top = common.sort(change, "value", descending=[True, False]).row(0)
        return f"{self._show(top[0])!r} now has {top[2] / now:.1%} of the rows, before {top[1] / before:.1%}"


def _drop_nulls(values: pl.Series) -> pl.Series:
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


def count_in_bins(before: pl.Series, now: pl.Series, bins: int) -> list[list[int]]:
    """Counts of both in bins that hold equal parts of the baseline."""
    edges = pl.Series(
        sorted({float(before.quantile(i / bins, "linear") or 0) for i in range(1, bins)}), dtype=pl.Float64
    )
    places = [edges.search_sorted(values.cast(pl.Float64), side="left") for values in (before, now)]
    return [tally(one, len(edges) + 1) for one in places]
