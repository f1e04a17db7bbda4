"""What is counted over all rows, in one streamed pass: nothing here is from a sample, and nothing is held in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from holdfast.apps.agents.reading import MISSING_TEXTS, Column, Table
from holdfast.apps.agents.sampling import choose_rows, count_rows

columns_at_once = 100
hashes_at_once = 16_000_000
held_at_once_bytes = 64 * 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """About so many rows of a table, or all of them; read when they are needed."""

    frame: pl.LazyFrame
    rows: int
    whole: bool


def count_all(table: Table) -> dict[str, Mapping[str, Any]]:
    """For each column the aggregates that `questions` names."""
    found: dict[str, Mapping[str, Any]] = {}
    for start in range(0, len(table.columns), columns_at_once):
        part = table.columns[start : start + columns_at_once]
        asked = [
            expression.alias(f"{number} {name}")
            for number, column in enumerate(part)
            for name, expression in aggregates(column)
        ]
        answers = table.frame.select(asked).collect(engine="streaming").row(0, named=True)
        for number, column in enumerate(part):
            found[column.name] = {name: answers[f"{number} {name}"] for name, _ in aggregates(column)}
    return found


def aggregates(column: Column) -> Iterator[tuple[str, pl.Expr]]:
    values, dtype = pl.col(column.name), column.dtype
    if dtype == pl.Float64:
        numbers = finite(values)
        yield "infinite", values.is_infinite().sum()
    else:
        numbers = values
    yield "count", numbers.count()
    if dtype.is_numeric():
        for name in ("min", "max", "mean", "std"):
            yield name, getattr(numbers, name)()
        yield "zeros", (numbers == 0).sum()
        yield "negatives", (numbers < 0).sum()
        if dtype == pl.Float64:
            yield "whole", (numbers == numbers.floor()).sum()
    elif dtype.is_temporal():
        yield "min", values.min()
        yield "max", values.max()
    elif dtype == pl.String:
        lengths = values.str.len_chars()
        yield "shortest", lengths.min()
        yield "longest", lengths.max()
        yield "mean_length", lengths.mean()
        yield "padded", (values.str.strip_chars().str.len_bytes() != values.str.len_bytes()).sum()
        yield "words", values.is_in(MISSING_TEXTS).sum()


def finite(values: pl.Expr) -> pl.Expr:
    """Numbers as they are counted: what is not a number is missing, what is infinite is left out."""
    return pl.when(values.is_finite()).then(values)


def sample_of(table: Table, most: int) -> Sample:
    """Rows to hold in memory, the same ones for the same file."""
    if table.rows <= most:
        return Sample(table.frame, table.rows, whole=True)
    chosen = choose_rows(table.frame, most, table.rows)
    return Sample(chosen, count_rows(chosen), whole=False)


def in_parts(
    table: Table, sample: Sample, totals: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[list[Column], Sample]]:
    """The columns, some at a time, with a sample that has those in memory if they are small enough for it."""
    part: list[Column] = []
    part_bytes = 0.0
    for column in table.columns:
        size_bytes = sample.rows * (16 + 2 * (totals[column.name].get("mean_length") or 0))
        if part and (len(part) == columns_at_once or part_bytes + size_bytes > held_at_once_bytes):
            yield part, held_part(part, part_bytes, sample)
            part, part_bytes = [], 0.0
        part.append(column)
        part_bytes += size_bytes
    yield part, held_part(part, part_bytes, sample)


def held_part(part: Sequence[Column], size_bytes: float, sample: Sample) -> Sample:
    frame = sample.frame.select(column.name for column in part)
    if size_bytes <= held_at_once_bytes:
        frame = frame.collect(engine="streaming").lazy()
    return Sample(frame, sample.rows, sample.whole)


def duplicate_rows(table: Table, scratch: Path) -> int:
    """How many rows are equal to an earlier one, by a hash of 64 bits; the hashes are looked at in parts."""
    hashes = table.frame.select(pl.struct(pl.all()).hash().alias("hash"))
    parts = -(-table.rows // hashes_at_once)
    if parts > 1:
        hashes.sink_parquet(scratch / "hashes.parquet", compression="lz4", statistics=False)
        hashes = pl.scan_parquet(scratch / "hashes.parquet", glob=False)
    different = 0
    for part in range(parts):
        chosen = hashes.filter(pl.col("hash") % parts == part) if parts > 1 else hashes
        different += chosen.collect(engine="streaming")["hash"].n_unique()
    return table.rows - different


def approximate_distinct(table: Table, names: Sequence[str]) -> Mapping[str, int]:
    """How many different values there are, within some percent, for tables that are larger than the sample."""
    return (
        table.frame.select(pl.col(names).drop_nulls().approx_n_unique()).collect(engine="streaming").row(0, named=True)
    )
