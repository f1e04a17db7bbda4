"""What is wrong with the values themselves: missing, repeated, mixed, written in several ways, impossible, far away.

What is missing, repeated or impossible is counted over all rows, in one streaming pass; fences around outliers come
from the sample, and what is beyond them is counted over all rows too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import log10

import polars as pl

from holdfast.apps.agents.options import Thresholds
from holdfast.apps.agents.outlying import Fences
from holdfast.apps.agents.personal import KINDS, Curtain
from holdfast.apps.agents.personal.kinds import normalized_name
from holdfast.apps.agents.report import number
from holdfast.apps.agents.risk.scoring import Finding
from holdfast.apps.agents.sampling import row_hash
from holdfast.apps.agents.signs import date_format, exactly, fold, is_marker, is_number, present


@dataclass(frozen=True)
class Facts:
    """Counts over all rows of a table."""

    rows: int
    missing: Mapping[str, int]
    markers: Mapping[str, int]
    duplicates: int
    counted: Sequence[int]


def gather(table: pl.LazyFrame, schema: Mapping[str, pl.DataType], also: Sequence[pl.Expr] = ()) -> Facts:
    """Count what is missing and repeated, and how often each condition in `also` holds."""
    texts = [name for name, dtype in schema.items() if dtype == pl.String]
    asked = [pl.len().alias("rows"), row_hash(schema).n_unique().alias("distinct")]
    for i, (name, dtype) in enumerate(schema.items()):
        there = exactly(name).fill_nan(None) if dtype.is_float() else exactly(name)
        asked.append(there.null_count().alias(f"m{i}"))
    asked += [is_marker(exactly(name)).sum().alias(f"t{i}") for i, name in enumerate(texts)]
    asked += [condition.sum().alias(f"a{i}") for i, condition in enumerate(also)]
    row = table.select(asked).collect(engine="streaming").row(0, named=True)
    markers = {name: row[f"t{i}"] for i, name in enumerate(texts)}
    missing = {name: row[f"m{i}"] + markers.get(name, 0) for i, name in enumerate(schema)}
    counted = [row[f"a{i}"] for i in range(len(also))]
    return Facts(row["rows"], missing, markers, row["rows"] - row["distinct"], counted)


categories_most = 1_000
a_year = timedelta(days=365.25)


@dataclass(frozen=True)
class Rule:
    """A condition that no true value meets."""

    column: str
    broken: pl.Expr
    saying: str


def rules(schema: Mapping[str, pl.DataType], today: date) -> list[Rule]:
    """The rules that the names and types of the columns suggest."""
    found = []
    for name, dtype in schema.items():
        value = exactly(name)
        if dtype.is_numeric():
            found += [Rule(name, broken, saying) for broken, saying in _of_numbers(normalized_name(name), value)]
        if dtype == pl.Date or isinstance(dtype, pl.Datetime):
            found += [Rule(name, broken, saying) for broken, saying in _of_dates(name, value.cast(pl.Date), today)]
    found += _of_pairs(schema)
    return found


def _of_numbers(name: str, value: pl.Expr) -> Iterator[tuple[pl.Expr, str]]:
    if re.search(r"_(age|alter|edad)_(?!group|band)", name) and not re.search(r"_(days|hours|months|seconds)_", name):
        yield (value < 0) | (value > 120), "are not the age of a person (below 0 or above 120)"
    elif re.search(r"_(quantity|qty|count|duration|height|weight|distance|population)_", name):
        yield value < 0, "are below zero"
    if re.search(r"_(percent|pct|percentage)_", name):
        yield (value < 0) | (value > 100), "are outside 0 to 100 percent"
    if re.search(r"_(lat|latitude)_", name):
        yield (value < -90) | (value > 90), "are not latitudes (-90 to 90)"
    if re.search(r"_(lon|lng|longitude)_", name):
        yield (value < -180) | (value > 180), "are not longitudes (-180 to 180)"


def _of_dates(name: str, value: pl.Expr, today: date) -> Iterator[tuple[pl.Expr, str]]:
    if KINDS["birth_date"].is_hinted(name):
        yield value > today, "are births in the future"
        yield value < today - 125 * a_year, "are births more than 125 years ago"
    else:
        yield value < date(1900, 1, 1), "are before 1900"
        yield value > today + 50 * a_year, "are more than 50 years ahead"


def _of_pairs(schema: Mapping[str, pl.DataType]) -> Iterator[Rule]:
    dates = {
        normalized_name(name): name
        for name, dtype in schema.items()
        if dtype == pl.Date or isinstance(dtype, pl.Datetime)
    }
    for plain, start in dates.items():
        end = dates.get(plain.replace("_start_", "_end_").replace("_begin_", "_end_"))
        if end is not None and end != start and schema[end] == schema[start]:
            yield Rule(end, exactly(end) < exactly(start), f"are before their {start}")


def findings(
    sample: pl.DataFrame, facts: Facts, checked: Sequence[Rule], limits: Thresholds, curtain: Curtain
) -> Iterator[Finding]:
    """Everything that is wrong, in the order of the columns."""
    yield from _duplicates(facts, limits)
    for column in sample.iter_columns():
        yield from _find_missing(column.name, facts, limits)
        if column.dtype == pl.String:
            yield from _find_mixed(column, curtain)
            yield from _variants(column, curtain)
        yield from _find_constant(column, facts)
    for rule, count in zip(checked, facts.counted, strict=True):
        if count:
            yield Finding(
                "impossible", rule.column, min(0.5, 0.15 + 5 * count / facts.rows),
                f"{count:,} values of {rule.column} {rule.saying}.",
                "Correct them at the source, or set them to missing before anyone computes with them.",
                {"rows": count, "share": round(count / facts.rows, 6)},
            )  # fmt: skip


def _duplicates(facts: Facts, limits: Thresholds) -> Iterator[Finding]:
    share = facts.duplicates / facts.rows
    if facts.duplicates and share >= limits.duplicate_share:
        yield Finding(
            "duplicates", None, min(0.5, 0.05 + 2 * share),
            f"{facts.duplicates:,} rows ({share:.2%}) repeat an earlier row in every column.",
            "Remove them, unless each stands for an event of its own; then add what tells them apart.",
            {"rows": facts.duplicates, "share": round(share, 6)},
        )  # fmt: skip


def _find_missing(name: str, facts: Facts, limits: Thresholds) -> Iterator[Finding]:
    count = facts.missing[name]
    share = count / facts.rows
    if not count or share < limits.missing_share:
        return
    written = facts.markers.get(name, 0)
    also = f", {written:,} of them written as a word such as N/A" if written else ""
    yield Finding(
        "empty" if count == facts.rows else "missing", name, min(0.4, 0.02 + 0.4 * share),
        f"{name} is empty." if count == facts.rows else f"{name} is missing in {count:,} rows ({share:.1%}){also}.",
        "Drop the column." if share > 0.9 else "Find out why it is missing before filling it: what is missing is "
        "seldom missing at random.",
        {"rows": count, "share": round(share, 6), "written_as_words": written},
    )  # fmt: skip


def _find_constant(column: pl.Series, facts: Facts) -> Iterator[Finding]:
    if column.len() > 1 and not facts.missing[column.name] and column.n_unique() == 1:
        yield Finding(
            "constant", column.name, 0.02, f"{column.name} has the same value in all rows looked at.",
            "Drop the column: it tells nothing.", {"distinct": 1},
        )  # fmt: skip


def _find_mixed(column: pl.Series, curtain: Curtain) -> Iterator[Finding]:
    """Texts among numbers, or dates written in several formats."""
    values = present(column)
    if len(values) < 10:
        return
    numbers = values.to_frame().select(is_number(pl.first())).to_series()
    share = float(numbers.mean() or 0)  # type: ignore[arg-type]
    if 0.5 <= share < 1:
        odd = values.filter(~numbers)
        yield Finding(
            "mixed_types", column.name, min(0.4, 0.1 + 2 * (1 - share)),
            f"{column.name} holds numbers, but {len(odd):,} of {len(values):,} values ({1 - share:.2%}) are text.",
            "Mend or clear the odd ones, so that the column can be read as numbers.",
            {"rows": len(odd), "share": round(1 - share, 6)},
            curtain.show_all(column.name, odd.unique(maintain_order=True).head(3)),
        )  # fmt: skip
    elif share == 0 and (formats := _date_formats(values)) > 1:
        yield Finding(
            "mixed_dates", column.name, 0.25, f"{column.name} holds dates written in {formats} different formats.",
            "Write them all as YYYY-MM-DD: a day and a month that are swapped cannot be seen afterwards.",
            {"formats": formats},
        )  # fmt: skip


def _date_formats(values: pl.Series) -> int:
    """In how many formats these are dates; 0 if they are none."""
    formats, left = 0, values
    while formats < 5 and not left.is_empty():
        found = date_format(left, least=0.05)
        if found is None:
            break
        formats += 1
        left = left.filter(left.to_frame().select(found[0].read(pl.first()).is_null()).to_series())
    return formats if len(left) < 0.05 * len(values) else 0


def _variants(column: pl.Series, curtain: Curtain) -> Iterator[Finding]:
    """One category written in several ways."""
    counts = column.drop_nulls().alias("raw").to_frame().group_by("raw").len()
    if counts.height > 20 * categories_most or counts.height > 0.5 * column.len():
        return
    by_fold = (
        counts.with_columns(fold(pl.col("raw")).alias("fold"))
        .filter(pl.col("fold") != "")
        .sort("len", "raw", descending=[True, False])
        .group_by("fold", maintain_order=True)
        .agg(pl.col("raw"), pl.col("len").sum().alias("all"), pl.col("len").first().alias("most"))
    )
    several = by_fold.filter(pl.col("raw").list.len() > 1)
    if several.is_empty() or by_fold.height > categories_most:
        return
    rows = int((several["all"] - several["most"]).sum())
    examples = [" / ".join(repr(curtain.show(column.name, raw)) for raw in row[:3]) for row in several["raw"].head(3)]
    yield Finding(
        "inconsistent_categories", column.name, min(0.3, 0.05 + 2 * rows / column.len()),
        f"{several.height:,} categories of {column.name} are written in several ways (case, space); "
        f"{rows:,} rows that were looked at would change.",
        "Unify the writing: otherwise every count by this column is split.",
        {"categories": several.height, "rows": rows, "share": round(rows / column.len(), 6)}, examples,
    )  # fmt: skip


def far_values(
    table: pl.LazyFrame, rows: int, found: Sequence[Fences], least_share: float, curtain: Curtain
) -> Iterator[Finding]:
    """Count what is beyond the fences, over all rows."""
    if not found:
        return
    asked = []
    for i, one in enumerate(found):
        asked += [
            one.beyond(exactly(one.column)).sum().alias(f"n{i}"),
            (exactly(one.column) > one.high).sum().alias(f"h{i}"),
        ]
        asked += [exactly(one.column).min().alias(f"l{i}"), exactly(one.column).max().alias(f"u{i}")]
    row = table.select(asked).collect(engine="streaming").row(0, named=True)
    for i, one in enumerate(found):
        count, over = row[f"n{i}"], row[f"h{i}"]
        share = count / rows
        if not count or share < least_share:
            continue
        ends = [float(end) for end in (row[f"l{i}"], row[f"u{i}"]) if end < one.low or end > one.high]
        farthest = max(one.distance(end) for end in ends)
        yield Finding(
            code="outliers",
            column=one.column,
            severity=min(0.5, 5 * share) + min(0.2, 0.1 * max(0.0, log10(max(farthest, 1)) - 0.5)),
            sentence=f"{count:,} values of {one.column} ({share:.2%}) are far from the others: outside "
            f"{number(one.low)} to {number(one.high)}, the farthest {number(round(farthest))} robust deviations away.",
            advice="Look at the farthest ones: a wrong unit, a slip of the decimal point or a code such as 999999 is "
            "to be mended at the source; what is true but rare, cap or keep apart before averaging.",
            evidence={
                "rows": count, "share": round(share, 6), "below": count - over,
                "above": over, "low_fence": one.low, "high_fence": one.high, "median": one.median,
                "scale": "log" if one.logarithmic else "linear", "farthest_deviations": round(farthest, 1),
            },
            examples=curtain.show_all(one.column, (number(end) for end in ends)),
        )  # fmt: skip
