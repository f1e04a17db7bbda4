"""From delimited text to typed columns, in one pass if the guess from the sample is right.

The table is written by the guess while the texts are counted. Where as many values were understood as texts said
something, the guess was right for every row; for the other columns all rows are asked again, and the table is written
anew. Polars streams each pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from holdfast.apps.agents.reading import delimited, kinds
from holdfast.apps.agents.reading.delimited import Shape
from holdfast.apps.agents.reading.kinds import Found
from holdfast.apps.agents.reading.raw import Counts


@dataclass(frozen=True)
class Learned:
    """A text, written as Parquet: how many rows it has, whether they are whole, and what its columns are."""

    path: Path
    rows: int
    whole: bool
    found: Mapping[str, Found]


def learn(
    shape: Shape,
    path: Path,
    target: Path,
    chosen: Sequence[str],
    dates: kinds.Dates,
    may_be: Mapping[str, Sequence[str]],
    counts: Counts | None = None,
) -> Learned:
    """Find out what the columns are, write them so and, given counts, see whether the rows are whole.

    Raises PolarsError for what Polars refuses to read.
    """
    scan = shape.scan(path)
    sample = shape.scan(path, kinds.sample_rows).select(chosen).collect(engine="streaming")
    tried = kinds.worth_trying(sample, dates, may_be)
    found = {name: kinds.guess(possible) for name, possible in tried.items()}
    inside = delimited.delimiters_inside(shape, counts) if counts else pl.lit(0)
    asked = [pl.len().alias("rows"), inside.alias("inside"), *kinds.confirmations(found)]
    answers, _ = pl.collect_all([scan.select(asked), sink(scan, found, target)], engine="streaming")
    said = answers.row(0, named=True)
    whole = counts is None or delimited.is_whole(shape, counts, said["rows"], said["inside"])
    if whole and (doubtful := kinds.doubtful(found, said, understood(found, target))):

        def ask(questions: list[pl.Expr]) -> Mapping[str, int]:
            return scan.select(questions).collect(engine="streaming").row(0, named=True)

        found |= kinds.decide({name: tried[name] for name in doubtful}, ask)
        sink(scan, found, target).collect(engine="streaming")
    return Learned(target, said["rows"], whole, found)


def sink(scan: pl.LazyFrame, found: Mapping[str, Found], target: Path) -> pl.LazyFrame:
    columns = [kinds.understood(name, what) for name, what in found.items()]
    return scan.select(columns).sink_parquet(target, compression="lz4", statistics=False, lazy=True)


def understood(found: Mapping[str, Found], target: Path) -> Mapping[str, int]:
    """How many values of each column are there."""
    there = pl.scan_parquet(target, glob=False).select(pl.col(list(found)).count())
    return there.collect(engine="streaming").row(0, named=True)
