"""What is counted over all rows, in one streaming pass: rows, missing values, repeated rows, impossible values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.apps.agents.signs import exactly, is_marker


@dataclass(frozen=True)
class Facts:
    """Counts over all rows of a table."""

    rows: int
    missing: Mapping[str, int]
    markers: Mapping[str, int]
    duplicates: int
    counted: Sequence[int]

    def missing_share(self, column: str) -> float:
        """The share of rows that have nothing in this column."""
        return self.missing[column] / self.rows if self.rows else 0.0


def gather(table: pl.LazyFrame, schema: Mapping[str, pl.DataType], also: Sequence[pl.Expr] = ()) -> Facts:
    """Count what is missing and repeated, and how often each condition in `also` holds."""
    texts = [name for name, dtype in schema.items() if dtype == pl.String]
    asked = [pl.len().alias("rows"), row_hash(schema).n_unique().alias("distinct")]
    asked += [_missing(name, dtype).alias(f"m{i}") for i, (name, dtype) in enumerate(schema.items())]
    asked += [is_marker(exactly(name)).sum().alias(f"t{i}") for i, name in enumerate(texts)]
    asked += [condition.sum().alias(f"a{i}") for i, condition in enumerate(also)]
    row = table.select(asked).collect(engine="streaming").row(0, named=True)
    markers = {name: row[f"t{i}"] or 0 for i, name in enumerate(texts)}
    missing = {name: (row[f"m{i}"] or 0) + markers.get(name, 0) for i, name in enumerate(schema)}
    counted = [row[f"a{i}"] or 0 for i in range(len(also))]
    return Facts(row["rows"], missing, markers, row["rows"] - row["distinct"] if schema else 0, counted)


def row_hash(names: Mapping[str, pl.DataType] | Sequence[str]) -> pl.Expr:
    """A 64-bit number that equal rows share, so that rows are compared without being kept."""
    return pl.struct(exactly(name) for name in names).hash(seed=7) if names else pl.lit(0, dtype=pl.UInt64)


def _missing(name: str, dtype: pl.DataType) -> pl.Expr:
    nothing = exactly(name).is_null()
    return (nothing | exactly(name).is_nan()).sum() if dtype.is_float() else nothing.sum()
