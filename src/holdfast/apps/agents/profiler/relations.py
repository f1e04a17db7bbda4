"""Which columns go together: numbers by Pearson's and Spearman's coefficient, categories by Cramér's V.

Each pair is measured on the rows where both are there, of at most `rows_most` rows: at that many, chance moves a
coefficient by less than 0.01. Columns beyond the limit are left out, in the order of the file, and named.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import polars as pl

from holdfast.apps.agents.profiler.shape import ColumnProfile, Correlations, Matrix, Pair
from holdfast.apps.agents.profiler.totals import finite, sample_of
from holdfast.apps.agents.reading import Table

rows_most = 50_000
pairs_least = 10
listed_most = 20
listed_from = 0.3
categories_most = 50

Measures = Mapping[tuple[str, str], float | None]


def correlate(table: Table, columns: Sequence[ColumnProfile], most: int) -> Correlations:
    """Measure every pair of at most so many columns of each sort."""
    numeric = [one.name for one in columns if one.numbers and one.type in ("integer", "decimal")]
    sorted_ = [
        one.name
        for one in columns
        if one.type in ("category", "boolean") and 2 <= one.distinct.count <= categories_most
    ]
    numbers, categories = numeric[:most], sorted_[:most]
    sample = sample_of(table, rows_most)
    rows = sample.frame.select(
        *(finite(pl.col(name).cast(pl.Float64)).alias(name) for name in numbers),
        *(pl.col(name) for name in categories if name not in numbers),
    ).collect(engine="streaming")
    ranked = {name: rows[name].rank() for name in numbers if not rows[name].null_count()}

    def spearman(first: str, second: str) -> float | None:
        if first in ranked and second in ranked:
            return pearson_of(ranked[first], ranked[second])
        both = rows.select(first, second).drop_nulls()
        return pearson_of(both[first].rank(), both[second].rank())

    def pearson(first: str, second: str) -> float | None:
        both = rows.select(first, second).drop_nulls()
        return pearson_of(both[first], both[second])

    by_pearson = {pair: pearson(*pair) for pair in combinations(numbers, 2)}
    by_rank = {pair: spearman(*pair) for pair in by_pearson}
    by_category = {pair: cramers_v(rows, *pair) for pair in combinations(categories, 2)}
    return Correlations(
        rows=rows.height,
        numbers=tuple(numbers),
        pearson=square(numbers, by_pearson),
        spearman=square(numbers, by_rank),
        categories=tuple(categories),
        cramers_v=square(categories, by_category),
        strongest=strongest(by_pearson, by_rank, by_category),
        left_out=(*numeric[most:], *sorted_[most:]),
    )


def square(names: Sequence[str], found: Measures) -> Matrix:
    """The measure of every pair, with ones on the diagonal."""
    return tuple(tuple(1.0 if a == b else found.get((a, b), found.get((b, a))) for b in names) for a in names)


def pearson_of(first: pl.Series, second: pl.Series) -> float | None:
    """The coefficient, unknown if there are few pairs or if one of the two does not vary."""
    if len(first) < pairs_least:
        return None
    found = pl.select(pl.corr(first, second)).item()
    return None if found is None or not math.isfinite(found) else max(-1.0, min(1.0, float(found)))


def cramers_v(rows: pl.DataFrame, first: str, second: str) -> float | None:
    """From 0, no relation, to 1, where one says the other; without correction for bias."""
    both = rows.select(pl.col(first).alias("a"), pl.col(second).alias("b")).drop_nulls()
    counts = both.group_by("a", "b").len("n")
    total = both.height
    of_a, of_b = counts.group_by("a").agg(pl.col("n").sum()), counts.group_by("b").agg(pl.col("n").sum())
    smaller = min(of_a.height, of_b.height) - 1
    if total < pairs_least or smaller < 1:
        return None
    joined = counts.join(of_a, on="a", suffix="_a").join(of_b, on="b", suffix="_b")
    # The sum of squares over their expected values, less the total: empty cells need no look.
    expected = pl.col("n_a").cast(pl.Float64) * pl.col("n_b")
    squares = joined.select((pl.col("n").cast(pl.Float64) ** 2 / expected).sum())
    return math.sqrt(max(0.0, min(1.0, (float(squares.item()) - 1) / smaller)))


def strongest(by_pearson: Measures, by_rank: Measures, by_category: Measures) -> tuple[Pair, ...]:
    """The pairs that go together most; of two numbers, by the measure that shows it better."""
    pairs = []
    for pair, linear in by_pearson.items():
        better = abs(by_rank[pair] or 0.0) > abs(linear or 0.0) + 0.05
        pairs.append(Pair(*pair, "spearman", by_rank[pair] or 0.0) if better else Pair(*pair, "pearson", linear or 0.0))
    pairs += [Pair(*pair, "cramers_v", amount or 0.0) for pair, amount in by_category.items()]
    listed = sorted(pairs, key=lambda pair: -abs(pair.value))
    return tuple(pair for pair in listed[:listed_most] if abs(pair.value) >= listed_from)
