"""What gives away the answer: columns that know the target, identifiers, and rows that are in both files.

A column determines the target if, knowing the other rows with its value, one guesses a row's target almost always right
(each row is left out of its own guess, so that a column of unique values guesses nothing). Numbers are cut into twenty
equal parts first. All of it is measured on the sample, except rows in both files, which are compared one and all.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

import polars as pl

from holdfast.apps.agents.options import Thresholds
from holdfast.apps.agents.personal.kinds import normalized_name
from holdfast.apps.agents.risk.scoring import Finding
from holdfast.apps.agents.sampling import count_rows, row_hash

parts_of_numbers = 20
classes_most = 50
pairs_most = 60  # columns of numbers that are compared with each other
_target_names = (
    r"^_(target|label|y|class|outcome|response|churn|churned|is_churn|fraud|is_fraud|default|defaulted|survived|converted|"
    r"clicked|ground_truth)_$|_(target|label)_$"
)


def guess_target(names: Collection[str]) -> str | None:
    """The column whose name says that it is to be predicted, if exactly one does."""
    found = [name for name in names if re.search(_target_names, normalized_name(name))]
    return found[0] if len(found) == 1 else None


def findings(
    sample: pl.DataFrame, target: str | None, limits: Thresholds, personal: Collection[str] = ()
) -> Iterator[Finding]:
    """Identifiers (unless they are personal, which is said already), what knows the target, and what says the same."""
    identifiers = {name for name in sample.columns if is_identifier(sample[name], limits.identifier_share)}
    yield from _identifiers(sample, identifiers - {target} - set(personal))
    rest = [name for name in sample.columns if name not in identifiers and name != target]
    if target is not None:
        for name in [*rest, *(name for name in sample.columns if name in identifiers - {target})]:
            yield from _knows(sample, name, target, limits)
    yield from _same(sample, rest, limits.correlation)


def is_identifier(column: pl.Series, share: float) -> bool:
    """Whether nearly every row has a value of its own, as names of rows do and measurements rarely."""
    values = column.drop_nulls()
    if len(values) < 20 or values.dtype.is_float() or values.dtype.is_temporal() or values.dtype.is_nested():
        return False
    if values.dtype == pl.String and float(values.str.len_chars().mean() or 0) > 64:  # type: ignore[arg-type]
        return False
    return values.n_unique() >= share * len(values)


def _identifiers(sample: pl.DataFrame, names: Collection[str]) -> Iterator[Finding]:
    for name in sample.columns:
        if name in names:
            distinct = sample[name].n_unique()
            yield Finding(
                "identifier", name, 0.05,
                f"{name} names rows: {distinct:,} different values in {sample.height:,} rows that were looked at.",
                "Leave it out of models; they would learn it by heart. Before sharing, replace it by a random number.",
                {"distinct": distinct, "share": round(distinct / sample.height, 6)},
            )  # fmt: skip


def _knows(sample: pl.DataFrame, name: str, target: str, limits: Thresholds) -> Iterator[Finding]:
    pair = sample.select(pl.Series("x", sample[name]), pl.Series("y", sample[target])).filter(pl.col("y").is_not_null())
    if pair.height < 20 or pair["y"].n_unique() < 2:
        return
    how: dict[str, float] = {}
    if pair["x"].dtype.is_numeric() and pair["y"].dtype.is_numeric():
        how["correlation"] = correlation(pair["x"], pair["y"])
    how["determination"] = determination(pair["x"], pair["y"])
    how["missing_tells"] = determination(pair["x"].is_null(), pair["y"])
    if how.get("correlation", 0) >= limits.correlation:
        saying = f"{name} goes with {target} almost perfectly (correlation {how['correlation']:.4f})"
    elif how["determination"] >= limits.determination:
        saying = f"{name} gives {target} away: knowing it, {how['determination']:.1%} of the uncertainty is gone"
    elif how["missing_tells"] >= limits.determination:
        saying = f"Whether {name} is missing gives {target} away"
    else:
        return
    yield Finding(
        "target_leak", name, 0.6, f"{saying}.",
        f"Find out when {name} becomes known. If that is after {target}, a model must not see it.",
        {"target": target, **{key: round(value, 6) for key, value in how.items()}},
    )  # fmt: skip


def correlation(x: pl.Series, y: pl.Series) -> float:
    """The larger of Pearson's and Spearman's correlation, without sign; 0 if one does not vary."""
    frame = pl.DataFrame({"x": x.cast(pl.Float64), "y": y.cast(pl.Float64)}).drop_nulls()
    frame = frame.filter(pl.col("x").is_finite() & pl.col("y").is_finite())
    if frame.height < 20:
        return 0.0
    row = frame.select(
        pl.corr("x", "y").abs().alias("p"), pl.corr("x", "y", method="spearman").abs().alias("s")
    ).fill_nan(None).row(0)  # fmt: skip
    return float(max(value or 0.0 for value in row))


def determination(x: pl.Series, y: pl.Series) -> float:
    """How much of the uncertainty about y is gone once x is known: 0 nothing, 1 all."""
    if y.dtype.is_numeric() and y.n_unique() > classes_most:
        return _explained_variance(in_parts(x), y.cast(pl.Float64))
    return _guessed_right(in_parts(x), in_parts(y))


def in_parts(values: pl.Series) -> pl.Series:
    """Values as classes: numbers and times with many values are cut into equal parts by rank."""
    if (values.dtype.is_numeric() or values.dtype.is_temporal()) and values.n_unique() > classes_most:
        rank = values.rank("average")
        return (rank * parts_of_numbers / (len(values) + 1)).floor().cast(pl.Int64)
    return values


def _guessed_right(x: pl.Series, y: pl.Series) -> float:
    """How much better than without x each row's class is guessed from the other rows with the same x."""
    counts = pl.DataFrame({"x": x, "y": y}).group_by("x", "y").len()
    # Left out of its own guess, a row of the largest class is right only if that class stays the largest without it.
    sizes = pl.col("len").sort(descending=True)
    groups = counts.group_by("x").agg(sizes.first().alias("first"), sizes.slice(1, 1).sum().alias("second"))
    right = int(groups.filter(pl.col("first") > pl.col("second") + 1)["first"].sum())
    usual = int(counts.group_by("y").agg(pl.col("len").sum())["len"].max() or 0)  # type: ignore[arg-type]
    return max(0.0, (right - usual) / (len(y) - usual)) if len(y) > usual else 0.0


def _explained_variance(x: pl.Series, y: pl.Series) -> float:
    frame = pl.DataFrame({"x": x, "y": y}).filter(pl.col("y").is_finite())
    total = float(((frame["y"] - frame["y"].mean()) ** 2).sum())
    size, mean = pl.len().over("x"), pl.col("y").mean().over("x")
    alone = pl.when(size > 1).then((pl.col("y") - mean) * size / (size - 1)).otherwise(pl.col("y") - pl.col("y").mean())
    left = float(frame.select((alone**2).sum()).item())
    return max(0.0, 1 - left / total) if total else 0.0


def _same(sample: pl.DataFrame, names: Collection[str], least: float) -> Iterator[Finding]:
    """Pairs of columns of numbers that say the same."""
    numbers = [name for name in names if sample[name].dtype.is_numeric()][:pairs_most]
    frame = sample.select(pl.Series(str(i), sample[name].cast(pl.Float64)) for i, name in enumerate(numbers))
    pairs = list(combinations(range(len(numbers)), 2))
    if not pairs or frame.height < 20:
        return
    row = frame.select(pl.corr(str(i), str(j)).abs().alias(f"{i}-{j}") for i, j in pairs).row(0)
    for (i, j), value in zip(pairs, row, strict=True):
        if value is not None and value >= least:  # NaN, of a constant column, is not
            yield Finding(
                "redundant", numbers[j], 0.03, f"{numbers[j]} says the same as {numbers[i]} (correlation {value:.4f}).",
                "Keep one of the two.", {"other": numbers[i], "correlation": round(value, 6)},
            )  # fmt: skip


def overlap(
    primary: pl.LazyFrame, baseline: pl.LazyFrame, columns: Mapping[str, pl.DataType], rows: int
) -> Iterator[Finding]:
    """Rows that are in both files, in all of these columns, as test rows must never be in the training data."""
    own, known = (file.select(row_hash(columns).alias("row")) for file in (primary, baseline))
    if shared := count_rows(own.join(known.unique(), on="row", how="semi")):
        share = shared / rows
        yield Finding(
            "rows_in_both", None, min(0.8, 0.2 + share),
            f"{shared:,} rows ({share:.2%}) are in the baseline too, equal in all {len(columns)} columns they share.",
            "If one file trains and the other tests, remove them from one: a model is not to be graded on what it saw.",
            {"rows": shared, "share": round(share, 6), "columns": len(columns)},
        )  # fmt: skip
