"""What one column looks like: its type, quantiles, histogram and commonest values.

A column is held in memory alone, as numbers: eight bytes for each row of the sample, whatever its texts are. It is
sorted once, and everything that follows is read off the sorted values.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from holdfast.apps.agents.options import ProfilerOptions
from holdfast.apps.agents.profiler.shape import (
    Bar,
    ColumnProfile,
    Dates,
    Distinct,
    Histogram,
    Missing,
    Mixed,
    Numbers,
    Outliers,
    Text,
    Top,
    Type,
    Value,
)
from holdfast.apps.agents.profiler.totals import Sample, finite
from holdfast.apps.agents.reading import MISSING_TEXTS, Column, Table

QUANTILES = {"p1": 0.01, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
value_most_characters = 200


def profile_column(
    table: Table,
    column: Column,
    totals: Mapping[str, Any],
    sample: Sample,
    distinct: int | None,
    start: pl.DataFrame,
    options: ProfilerOptions,
) -> ColumnProfile:
    """Look at one column. `distinct`: how many values it has, if the sample cannot tell.

    `start`: the first rows, from which examples are taken.
    """
    values, count = sort_values(sample, column), totals["count"]
    if count and not len(values):  # the sample has missed them all, so there are few
        sample = Sample(table.frame, table.rows, whole=True)
        values = sort_values(sample, column)
    runs = values.rle().struct.unnest() if len(values) else pl.DataFrame({"len": [], "value": []})
    different = distinct if distinct is not None else runs.height
    numbers = numbers_of(totals, values) if column.dtype.is_numeric() and count else None
    dates = dates_of(column, totals, values, options.as_of) if column.dtype.is_temporal() and count else None
    return ColumnProfile(
        name=column.name,
        type=type_of(column, totals, different, table.rows),
        stored_as=str(column.dtype).partition("(")[0].lower(),
        missing=missing_of(table, column, totals, sample),
        distinct=Distinct(different, share(different, count), exact=distinct is None),
        numbers=numbers,
        dates=dates,
        text=Text(*(totals[one.name] for one in fields(Text))) if column.dtype == pl.String and count else None,
        histogram=histogram_of(column, values, options.histogram_bins),
        top_values=top_of(sample, column, runs, len(values), options.top_values),
        examples=examples_of(start[column.name], options.examples),
        mixed=Mixed(column.almost, column.misfits) if column.almost else None,
    )


def sort_values(sample: Sample, column: Column) -> pl.Series:
    """The values of the sample that are there, sorted: dates as numbers, texts as hashes."""
    values = pl.col(column.name)
    if column.dtype == pl.String:
        values = pl.when(values.is_not_null()).then(values.hash(1))
    elif column.dtype == pl.Float64:
        values = finite(values)
    elif column.dtype.is_temporal() or column.dtype == pl.Boolean:
        values = values.cast(pl.Int64)
    return sample.frame.select(values.alias("value")).collect(engine="streaming")["value"].drop_nulls().sort()


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def missing_of(table: Table, column: Column, totals: Mapping[str, Any], sample: Sample) -> Missing:
    count = table.rows - totals["count"] - totals.get("infinite", 0)
    texts: dict[str, int] = {}
    if totals.get("words"):
        rows_of = sample.frame if sample.whole else table.frame
        found = rows_of.select(column.name).filter(pl.col(column.name).is_in(MISSING_TEXTS))
        rows = found.group_by(column.name).len().collect(engine="streaming").rows()
        texts = dict(sorted(rows, key=lambda row: (-row[1], row[0])))
    return Missing(count, share(count, table.rows), texts)


def numbers_of(totals: Mapping[str, Any], values: pl.Series) -> Numbers:
    """Statistics of numbers. What is exact over all rows is from the totals."""
    # Adding zero makes minus zero plain.
    at = {name: float(values.quantile(part, "linear")) + 0.0 for name, part in QUANTILES.items()}  # type: ignore[arg-type]
    std = totals["std"] if totals["std"] is not None and math.isfinite(totals["std"]) else None
    skew = values.skew() if len(values) > 2 and std else None
    width = at["p75"] - at["p25"]
    low, high = at["p25"] - 1.5 * width, at["p75"] + 1.5 * width
    outside = int(values.search_sorted(low, side="left") + len(values) - values.search_sorted(high, side="right"))
    return Numbers(
        min=totals["min"],
        max=totals["max"],
        mean=totals["mean"],
        std=std,
        skew=skew if skew is not None and math.isfinite(skew) else None,
        quantiles=at,
        zeros=totals["zeros"],
        negatives=totals["negatives"],
        infinite=totals.get("infinite", 0),
        outliers=Outliers(outside, share(outside, len(values)), low, high) if width else None,
    )


def dates_of(column: Column, totals: Mapping[str, Any], values: pl.Series, as_of: date | None) -> Dates:
    future = None
    if as_of is not None:
        after = pl.Series([as_of + timedelta(days=1)]).cast(column.dtype).cast(pl.Int64).item()
        future = int(len(values) - values.search_sorted(after, side="left"))
    median = as_date(column, values[len(values) // 2])
    return Dates(min=totals["min"].isoformat(), median=median, max=totals["max"].isoformat(), future=future)


def as_date(column: Column, number: float) -> str:
    """What a number of days or microseconds means, in ISO 8601."""
    return str(pl.Series([round(number)]).cast(column.dtype).item().isoformat())


def histogram_of(column: Column, values: pl.Series, bins: int) -> Histogram | None:
    """Bars of equal width over the range in which values are dense; whole numbers get whole edges."""
    if column.dtype in (pl.String, pl.Boolean) or not len(values) or values[0] == values[-1]:
        return None
    low, high = dense_range(values)
    whole = column.dtype == pl.Int64 or column.dtype == pl.Date
    if whole:
        step = max(1, math.ceil((high - low + 1) / bins))
        edges = [low + step * place for place in range(math.ceil((high - low + 1) / step) + 1)]
    else:
        edges = [low + (high - low) * place / bins for place in range(bins)] + [high]
    edges = edges if values.dtype == pl.Float64 else [round(edge) for edge in edges]
    places = values.search_sorted(pl.Series(edges[:-1], dtype=values.dtype), side="left").to_list()
    end = int(values.search_sorted(edges[-1], side="left" if whole else "right"))
    counts = [after - before for before, after in zip(places, [*places[1:], end], strict=True)]

    def label(edge: float) -> Value:
        return as_date(column, edge) if column.dtype.is_temporal() else edge

    bars = [Bar(label(edges[n]), label(edges[n + 1]), counts[n]) for n in range(len(counts))]
    return Histogram(tuple(bars), below=places[0], above=len(values) - end)


def dense_range(values: pl.Series) -> tuple[float, float]:
    """From the least to the greatest value, without a far tail of one in a hundred on either side."""
    low, high = values[0], values[-1]
    first, last = values[len(values) // 100], values[-(len(values) // 100) - 1]
    reach = 2 * (last - first)
    if reach:
        low = low if first - low <= reach else first
        high = high if high - last <= reach else last
    return low, high


def top_of(sample: Sample, column: Column, runs: pl.DataFrame, count: int, most: int) -> tuple[Top, ...]:
    """The commonest values, those that are there more than once; ties in the order of the values."""
    found = runs.filter(pl.col("len") > 1).sort("len", "value", descending=[True, False]).head(most)
    if found.is_empty():
        return ()
    values_of = look_up(sample, column, found["value"])
    rows = found.select("len", "value").rows()
    return tuple(Top(values_of.get(value), amount, share(amount, count)) for amount, value in rows)


def look_up(sample: Sample, column: Column, held_values: pl.Series) -> Mapping[Any, Value]:
    """What the numbers that were held stand for."""
    if column.dtype == pl.String:
        wanted = sample.frame.select(pl.col(column.name), pl.col(column.name).hash(1).alias("#"))
        rows = wanted.filter(pl.col("#").is_in(held_values.implode())).unique("#").collect(engine="streaming").rows()
        return {number: cut(text) for text, number in rows}
    if column.dtype == pl.Boolean:
        return {value: bool(value) for value in held_values}
    if column.dtype.is_temporal():
        return {value: as_date(column, value) for value in held_values}
    return {value: value for value in held_values}


def examples_of(start: pl.Series, most: int) -> tuple[Value, ...]:
    """Some different values from the beginning of the table, in its order."""
    return tuple(plain(value) for value in start.drop_nulls().unique(maintain_order=True).head(most))


def plain(value: Any) -> Value:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return cut(value) if isinstance(value, str) else value


def cut(text: str) -> str:
    return text if len(text) <= value_most_characters else text[: value_most_characters - 1] + "…"


identifier_least_rows = 20
identifier_longest = 64
category_most = 50
category_most_of_many = 1_000
category_most_share = 0.5
category_of_many_share = 0.05
identifying = re.compile(r"(?i:(^|[_\W\d])(id|ids|key|uuid|guid|number|no|nr|code|index|row))$|[a-z](Id|ID|Key|No|Nr)$")


def type_of(column: Column, totals: Mapping[str, Any], distinct: int, rows: int) -> Type:
    """The type that helps most to understand the column."""
    count = totals["count"]
    if not count:
        return "empty"
    if distinct == 1:
        return "constant"
    if column.dtype == pl.Boolean:
        return "boolean"
    if column.dtype.is_temporal():
        return "date" if column.dtype == pl.Date else "datetime"
    if column.dtype.is_numeric():
        return type_of_number(column, totals, distinct)
    if is_identifier(column, distinct, count) and totals["longest"] <= identifier_longest:
        return "identifier"
    if is_category(distinct, count):
        return "category"
    return "text"


def type_of_number(column: Column, totals: Mapping[str, Any], distinct: int) -> Type:
    whole = column.dtype == pl.Int64 or totals["whole"] == totals["count"]
    if not whole:
        return "decimal"
    if distinct == 2 and totals["min"] == 0 and totals["max"] == 1:
        return "boolean"
    gapless = totals["max"] - totals["min"] + 1 <= 1.1 * totals["count"]
    if is_identifier(column, distinct, totals["count"]) and (gapless or identifying.search(column.name)):
        return "identifier"
    return "integer"


def is_identifier(column: Column, distinct: int, count: int) -> bool:
    """Whether nearly all values are different; fewer are enough where the name says so, for rows may be copies."""
    least = 0.9 if identifying.search(column.name) else 0.999
    return count >= identifier_least_rows and distinct >= least * count


def is_category(distinct: int, count: int) -> bool:
    if distinct <= category_most:
        return distinct <= category_most_share * count
    return distinct <= min(category_most_of_many, category_of_many_share * count)
