"""Rows of a table to look at closely: all of them, or a sample that is the same every time.

Rows are taken by their number, spread over the whole table (multiples of an odd constant, modulo a power of two, hit
every stretch equally often), so that a table sorted by time is seen from its first day to its last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.apps.agents.signs import exactly

_spread, _span = 2_654_435_761, 2**32
_place = " row "  # no column is called so: their names are read without space around them


@dataclass(frozen=True)
class Sample:
    """Some or all rows of a table, in their order."""

    frame: pl.DataFrame
    total_rows: int

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.frame.height == self.total_rows

    def describe(self) -> dict[str, int | bool]:
        """For the output: how many rows were looked at, and of how many."""
        return {"total": self.total_rows, "looked_at": self.frame.height, "sampled": not self.whole}


def take_sample(table: pl.LazyFrame, rows: int, total: int) -> Sample:
    """At most about `rows` of the table's `total` rows."""
    return Sample(choose_rows(table, rows, total).collect(engine="streaming"), total)


def choose_rows(table: pl.LazyFrame, rows: int, total: int) -> pl.LazyFrame:
    """About `rows` of the table's `total` rows; all if there are no more."""
    if total <= rows:
        return table
    place = pl.col(_place).cast(pl.UInt64) * _spread % _span
    return table.with_row_index(_place).filter(place < _span * rows // total).drop(_place)


def count_rows(table: pl.LazyFrame) -> int:
    """How many rows the table has."""
    return int(table.select(pl.len()).collect(engine="streaming").item())


def row_hash(names: Mapping[str, pl.DataType] | Sequence[str]) -> pl.Expr:
    """A 64-bit number that equal rows share, so that rows are compared without being kept."""
    return pl.struct(exactly(name) for name in names).hash(seed=7) if names else pl.lit(0, dtype=pl.UInt64)
