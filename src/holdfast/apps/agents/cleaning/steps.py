"""A step of cleaning: what it does, as an expression to count with and as text for the script.

Both come from the same place, so that what is counted is what the script does. Names and values go into the text only
through `repr`, which leaves no way out of a Python literal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from holdfast.apps.agents.cleaning.options import SuggestionKind
from holdfast.apps.agents.outlying import Fences
from holdfast.apps.agents.signs import DateFormat, NumberFormat, exactly


@dataclass(frozen=True)
class Step:
    """One line of the script, and what it is good for.

    `changed` says which rows it changes and `after` what becomes of them; `lost` are values that it clears because they
    cannot be read. A step that is not `sure` runs only if the script is told to take guesses too.
    """

    kind: SuggestionKind
    column: str | None
    why: str
    code: str
    changed: pl.Expr
    after: pl.Expr | None = None
    lost: pl.Expr | None = None
    sure: bool = True
    rows: int = 0
    rows_lost: int = 0
    examples: Sequence[tuple[str, str]] = ()
    evidence: Mapping[str, object] = field(default_factory=dict)


def column_code(name: str) -> str:
    """The code that names a column exactly."""
    return f"column({name!r})"


def trim(name: str) -> pl.Expr:
    """A text without surrounding space, nor doubled space inside."""
    return exactly(name).str.strip_chars().str.replace_all(r"\s+", " ")


def trim_code(name: str) -> str:
    """The same as code; the script has these short names for what is done often."""
    return f"trimmed({name!r})"


def markers_code(name: str) -> str:
    """Words that say nothing, as nothing."""
    return f"without_markers({name!r})"


def number_code(name: str, form: NumberFormat, whole: bool) -> str:
    """The reading of numbers, as NumberFormat.read does it."""
    kind = "Int64" if whole else "Float64"
    if form.described() == "plain":
        return f"{column_code(name)}.str.strip_chars().cast(pl.{kind}, strict=False)"
    replaced = "".join(f", ({pattern!r}, {by!r})" for pattern, by in form.replacements())
    code = f"as_number({name!r}, {form.shape!r}{replaced})"
    return f"({code} / 100).round(12)" if form.percent else code


def date_code(name: str, form: DateFormat) -> str:
    """The reading of dates, as DateFormat.read does it."""
    kind = 'pl.Datetime("us")' if form.has_time else "pl.Date"
    return f"{column_code(name)}.str.strip_chars().str.strptime({kind}, {form.pattern!r}, strict=False)"


def flag_code(fences: Fences, new: str) -> str:
    """A column that says whether a value is an outlier."""
    name = column_code(fences.column)
    return f"(({name} < {fences.low!r}) | ({name} > {fences.high!r})).alias({new!r})"


def cap_code(fences: Fences) -> str:
    """Outliers moved to the fence."""
    return f"{column_code(fences.column)}.clip({fences.low!r}, {fences.high!r})"


def assign(code: str) -> str:
    """A step that changes or adds a column."""
    return f"table = table.with_columns({code})"
