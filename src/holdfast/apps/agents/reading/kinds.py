"""What the texts of a column are: numbers, dates, yes and no, or just text; and the table written of them.

A sample says which kinds are worth trying, and then every value of the file is tried: a column is of a kind only if all
its values are. One value that does not fit makes the column text, as it was written, and is counted. Words that mean
"nothing here" (NA, -, null) fit every kind. Numbers written with a leading zero, or with more digits than a number
keeps, are codes and stay text.

The table is written by the guess from the sample while the texts are counted, in one streamed pass. Where as many
values were read as texts are not empty, the guess was right for every row; for the other columns all rows are tried
again, by every kind, and the table is written again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import polars as pl

from holdfast.apps.agents.reading import delimited
from holdfast.apps.agents.reading.delimited import Shape
from holdfast.apps.agents.reading.raw import Counts

sample_rows = 10_000
glance_rows = 500
columns_at_once = 50
looked_at = 50
number_like = re.compile(r"[+-]?[.,]?[0-9]")
date_like = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]")
misfit_most_share = 0.2

Dates = Literal["auto", "day-first", "month-first", "off"]

MISSING_TEXTS = (
    "", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "NULL", "null", "Null", "None", "none", "NONE",
    "nil", "-", "--", "?", ".",
)  # fmt: skip
YES, NO = ("true", "yes", "t", "y"), ("false", "no", "f", "n")
TIMES = ("%H:%M:%S", "%H:%M", "%H:%M:%S%.f")
MOMENT, ZONED = pl.Datetime("us"), pl.Datetime("us", "UTC")
digits_kept = 15


@dataclass(frozen=True)
class Kind:
    """A way to understand texts: `parse` gives null where it cannot, `refuse` is true where it does and should not.

    Loosely means that blanks around a text and words for nothing are not misfits; to look for them costs as much as the
    rest, so it is left out while nothing in the sample asks for it.
    """

    name: str
    parse: Callable[[pl.Expr], pl.Expr]
    refuse: Callable[[pl.Expr], pl.Expr] | None = None
    order: Literal["day", "month", ""] = ""
    loosely: bool = True

    def read(self, name: str) -> pl.Expr:
        return pl.col(name).str.strip_chars() if self.loosely else pl.col(name)


@dataclass(frozen=True)
class Found:
    """What a column is, and how many of its values kept it from being what the others are."""

    kind: Kind | None
    misfits: int = 0
    almost: str | None = None
    note: str | None = None
    undecided: bool = False


def integer(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Int64, strict=False)


def decimal(text: pl.Expr) -> pl.Expr:
    number = text.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def decimal_comma(text: pl.Expr) -> pl.Expr:
    plain = pl.when(~text.str.contains(".", literal=True)).then(text.str.replace(",", ".", literal=True))
    return decimal(plain)


def pad(text: pl.Expr) -> pl.Expr:
    return text.str.starts_with("0") & (text.str.len_bytes() > 1)


def padded_or_long(text: pl.Expr) -> pl.Expr:
    no_point = ~text.str.contains(r"[.,]")
    return no_point & (pad(text) | (text.str.len_bytes() > digits_kept))


def boolean(text: pl.Expr) -> pl.Expr:
    lower = text.str.to_lowercase()
    return pl.when(lower.is_in(YES)).then(True).when(lower.is_in(NO)).then(False)


def dated(dtype: pl.Date | pl.Datetime, form: str, text: pl.Expr) -> pl.Expr:
    found = text.str.strptime(dtype, form, strict=False)
    return found.dt.replace_time_zone(None) if dtype == ZONED else found


def kinds(dates: Dates) -> list[Kind]:
    """Every kind, in the order in which they are preferred."""
    plain = [
        Kind("boolean", boolean),
        Kind("integer", integer, pad),
        Kind("decimal", decimal, padded_or_long),
        Kind("decimal", decimal_comma, padded_or_long),
    ]
    if dates == "off":
        return plain
    days: list[tuple[str, Literal["day", "month", ""]]] = [("%Y-%m-%d", ""), ("%Y/%m/%d", ""), ("%d.%m.%Y", "")]
    if dates != "month-first":
        days.append(("%d/%m/%Y", "day"))
    if dates != "day-first":
        days.append(("%m/%d/%Y", "month"))
    for day, order in days:
        plain.append(Kind("date", partial(dated, pl.Date(), day), order=order))
        plain += [Kind("datetime", partial(dated, MOMENT, f"{day} {time}"), order=order) for time in TIMES]
    plain += [Kind("datetime", partial(dated, MOMENT, f"%Y-%m-%dT{time}")) for time in TIMES]
    zoned = [f"%Y-%m-%d{between}%H:%M:%S%.f%#z" for between in ("T", " ")]
    return plain + [Kind("datetime", partial(dated, ZONED, form)) for form in zoned]


NOTHING = Kind("nothing", lambda text: pl.when(False).then(text))


def misfits(name: str, kind: Kind) -> pl.Expr:
    """How many texts say something and are not of this kind."""
    text = kind.read(name)
    wrong = kind.parse(text).is_null() & text.is_not_null()
    if kind.loosely:
        wrong &= ~text.is_in(MISSING_TEXTS)
    return (wrong | kind.refuse(text) if kind.refuse else wrong).sum()


def says_something(name: str) -> pl.Expr:
    """How many texts do."""
    text = pl.col(name).str.strip_chars()
    return (text.is_not_null() & ~text.is_in(MISSING_TEXTS)).sum()


def numbered(questions: Iterable[pl.Expr]) -> list[pl.Expr]:
    """The same expressions with names that differ."""
    return [one.alias(str(number)) for number, one in enumerate(questions)]


def worth_trying(sample: pl.DataFrame, dates: Dates, allowed: Mapping[str, Sequence[str]]) -> dict[str, list[Kind]]:
    """For each column, the kinds that most of its sample is of, the likeliest first."""
    every = kinds(dates)
    tried: dict[str, list[Kind]] = {}
    for start in range(0, sample.width, columns_at_once):
        part = sample[:, start : start + columns_at_once]
        possible = {
            name: [kind for kind in conceivable(part[name], every) if kind.name in allowed.get(name, (kind.name,))]
            for name in part.columns
        }
        glanced = most_fitting(part.head(glance_rows), possible)
        both_ways = {
            name: [one for kind in found if kind is not NOTHING for one in (replace(kind, loosely=False), kind)]
            for name, found in glanced.items()
        }
        tried |= most_fitting(part, both_ways)
    return tried


def conceivable(texts: pl.Series, every: Sequence[Kind]) -> list[Kind]:
    """The kinds that one of the first texts may be of, by a look that costs next to nothing; it rules most out."""
    first = [text for text in texts.head(glance_rows).to_list() if text and text.strip() not in MISSING_TEXTS]
    some = [text.strip() for text in first[:looked_at]]
    numbers = any(number_like.match(text) for text in some)
    dates = any(date_like.match(text) for text in some)
    booleans = any(text.lower() in (*YES, *NO) for text in some)
    possible = {"boolean": booleans, "integer": numbers, "decimal": numbers, "date": dates, "datetime": dates}
    return [kind for kind in every if possible[kind.name] or not some]


def most_fitting(sample: pl.DataFrame, possible: Mapping[str, Sequence[Kind]]) -> dict[str, list[Kind]]:
    asked = []
    for name, some in possible.items():
        asked += [says_something(name), *(misfits(name, kind) for kind in some)]
    answers = iter(sample.select(numbered(asked)).row(0))
    found = {}
    for name, some in possible.items():
        texts, wrong = next(answers), {kind: next(answers) for kind in some}
        fitting = sorted(
            (kind for kind in some if wrong[kind] <= misfit_most_share * texts), key=lambda one: wrong[one]
        )
        found[name] = fitting if texts or not some else [NOTHING, *some]
    return found


def guess(possible: Sequence[Kind]) -> Found:
    """What a column is by its sample; nothing yet, if the likeliest kind also has day and month the other way round."""
    first = possible[:1]
    if first and first[0].order:
        same = (first[0].name, first[0].loosely)
        first = [kind for kind in possible if kind.order and (kind.name, kind.loosely) == same]
    return Found(first[0] if len(first) == 1 else None, undecided=len(first) > 1)


def expected_values(name: str, kind: Kind) -> pl.Expr:
    """How many values the column has if every text is of this kind; more than it can have, if one is refused."""
    texts = says_something(name) if kind.loosely else pl.col(name).count()
    return texts + kind.refuse(kind.read(name)).sum() if kind.refuse else texts


def doubtful(guessed: Mapping[str, Found], expected: Mapping[str, int], target: Path) -> list[str]:
    """The columns of which the guess was not right for all rows, by how many values were written."""
    there = pl.scan_parquet(target, glob=False).select(pl.col(list(guessed)).count())
    written = there.collect(engine="streaming").row(0, named=True)
    written |= {name: 0 for name, found in guessed.items() if found.kind is NOTHING}
    wrong = {name for name, values in expected.items() if values != written[name]}
    return [name for name, found in guessed.items() if found.undecided or name in wrong]


def decide(tried: Mapping[str, Sequence[Kind]], scan: pl.LazyFrame) -> dict[str, Found]:
    """What each column is, by how many of all its values do not fit each kind."""
    pairs = [(name, kind) for name, possible in tried.items() for kind in possible]
    asked = scan.select(numbered(misfits(*pair) for pair in pairs))
    wrong = dict(zip(pairs, asked.collect(engine="streaming").row(0), strict=True))
    return {
        name: decide_one(name, [(kind, wrong[name, kind]) for kind in possible]) for name, possible in tried.items()
    }


def decide_one(name: str, asked: Sequence[tuple[Kind, int]]) -> Found:
    whole = [kind for kind, wrong in asked if not wrong]
    if not asked or NOTHING in whole:
        return Found(None)
    if {"day", "month"} <= {kind.order for kind in whole}:
        return Found(
            None,
            note=f"The dates in {name} can be read with the day first or with the month first, so they are kept as "
            'text. Say which in parameters.json: {"reading": {"dates": "day-first"}}.',
        )
    if whole:
        return Found(whole[0])
    nearest, wrong = min(asked, key=lambda pair: (pair[0] is NOTHING, pair[1]))
    return Found(None, misfits=wrong, almost=nearest.name)


def understood(name: str, found: Found) -> pl.Expr:
    """The column, read as what it is."""
    if found.kind is None or found.kind is NOTHING:
        return pl.col(name)
    return found.kind.parse(found.kind.read(name)).alias(name)


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
    dates: Dates,
    may_be: Mapping[str, Sequence[str]],
    counts: Counts | None = None,
) -> Learned:
    """Find out what the columns are, write them so and, given counts, see whether the rows are whole.

    Raises PolarsError for what Polars refuses to read.
    """
    scan = shape.scan(path)
    sample = shape.scan(path, sample_rows).select(chosen).collect(engine="streaming")
    tried = worth_trying(sample, dates, may_be)
    found = {name: guess(possible) for name, possible in tried.items()}
    inside = delimited.delimiters_inside(shape, counts) if counts else pl.lit(0)
    guessed = {name: what.kind for name, what in found.items() if what.kind}
    asked = [pl.len(), inside, *(expected_values(name, kind) for name, kind in guessed.items())]
    answers, _ = pl.collect_all([scan.select(numbered(asked)), sink(scan, found, target)], engine="streaming")
    rows, delimiters, *expected = answers.row(0)
    whole = counts is None or delimited.is_whole(shape, counts, rows, delimiters)
    if whole and (doubted := doubtful(found, dict(zip(guessed, expected, strict=True)), target)):
        found |= decide({name: tried[name] for name in doubted}, scan)
        sink(scan, found, target).collect(engine="streaming")
    return Learned(target, rows, whole, found)


def sink(scan: pl.LazyFrame, found: Mapping[str, Found], target: Path) -> pl.LazyFrame:
    columns = [understood(name, what) for name, what in found.items()]
    return scan.select(columns).sink_parquet(target, compression="lz4", statistics=False, lazy=True)
