"""Numbers far from the others of their column.

A value counts if it lies beyond both fences: the median by so many median deviations (MAD), and the quartiles by three
quartile distances (IQR). Columns that are positive and stretched to the right, as incomes are, are measured on a
logarithmic scale, where that stretch is usual.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import exp, log

import polars as pl

deviations_per_mad = 1.4826  # of a normal distribution
quartile_distances = 3.0
distinct_least = 10
values_least = 20


@dataclass(frozen=True)
class Fences:
    """Between which values a column lies, apart from outliers."""

    column: str
    low: float
    high: float
    median: float
    scale: float  # one robust standard deviation, on the scale that was used
    logarithmic: bool

    def beyond(self, value: pl.Expr) -> pl.Expr:
        """Whether a value is an outlier."""
        return (value < self.low) | (value > self.high)

    def distance(self, value: float) -> float:
        """How many robust standard deviations a value is from the median."""
        if self.logarithmic:
            return abs(log(value) - log(self.median)) / self.scale if value > 0 else 0.0
        return abs(value - self.median) / self.scale


def fences(values: pl.Series, distance: float) -> Fences | None:
    """The fences of a column, or None if it has too few different values to tell."""
    numbers = values.drop_nulls().cast(pl.Float64)
    numbers = numbers.filter(numbers.is_finite())
    if len(numbers) < values_least or numbers.n_unique() < distinct_least:
        return None
    low, middle, high = (float(numbers.quantile(q, "linear") or 0) for q in (0.25, 0.5, 0.75))
    logarithmic = float(numbers.min()) > 0 and high - middle > 1.5 * (middle - low)  # type: ignore[arg-type]
    if logarithmic:
        numbers = numbers.log()
        low, middle, high = log(low), log(middle), log(high)
    mad = float((numbers - middle).abs().median() or 0)  # type: ignore[arg-type]
    if not mad or high == low:
        return None
    scale = mad * deviations_per_mad
    reach = quartile_distances * (high - low)
    bounds = min(low - reach, middle - distance * scale), max(high + reach, middle + distance * scale)
    if logarithmic:
        return Fences(values.name, exp(bounds[0]), exp(min(bounds[1], 700)), exp(middle), scale, True)
    return Fences(values.name, *bounds, middle, scale, False)


def all_fences(sample: pl.DataFrame, skipped: Collection[str], distance: float) -> list[Fences]:
    """The fences of every column of numbers that is not skipped."""
    columns = (c for c in sample.iter_columns() if c.dtype.is_numeric() and c.name not in skipped)
    return [found for column in columns if (found := fences(column, distance))]
