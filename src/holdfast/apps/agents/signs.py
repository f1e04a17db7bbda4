"""What a text in a cell stands for: nothing, a number, a date, a category, or the name of a row.

Everything here is a function of polars series or expressions, so that it works on whole columns. A format is taken only
if nearly all values have it; whether 03/04 is in March or April is decided by the other values of the column, and said
to be a guess where they do not tell.
"""

import re
from dataclasses import dataclass

import polars as pl
import polars.selectors as cs

from holdfast.apps.agents.personal.kinds import normalized_name
from holdfast.apps.agents.reading import MISSING_TEXTS

# Compared in lower case and without surrounding space: what reading takes for nothing, and what people write besides.
MISSING_MARKERS = tuple(dict.fromkeys((
    *(marker.lower() for marker in MISSING_TEXTS), "n.a.", "(null)", "<na>", "---", "(missing)", "(blank)", "undefined",
    "not available", "not applicable", "k.a.", "#value!", "#ref!", "#div/0!",
)))  # fmt: skip

tried_most = 10_000
currency_signs = "€$£¥₹₩₽₺₣"


def exactly(column: str) -> pl.Expr:
    """The column of exactly this name; `pl.col` would read some names as patterns."""
    return cs.by_name(column).as_expr()


def is_marker(text: pl.Expr) -> pl.Expr:
    """Whether a text only says that there is nothing."""
    return text.str.strip_chars().str.to_lowercase().is_in(MISSING_MARKERS)


def fold(text: pl.Expr) -> pl.Expr:
    """A text without what does not change its meaning: case, surrounding and doubled space."""
    return text.str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()


def _some(values: pl.Series) -> pl.Series:
    """Enough of them to see how they are written, from all over the column."""
    return values.gather_every(max(1, len(values) // tried_most))


def present(texts: pl.Series) -> pl.Series:
    """The texts that say something, trimmed."""
    trimmed = texts.drop_nulls().str.strip_chars()
    return trimmed.filter(~trimmed.str.to_lowercase().is_in(MISSING_MARKERS))


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written."""

    thousands: str = ""
    decimal: str = "."
    currency: bool = False
    percent: bool = False

    def read(self, text: pl.Expr) -> pl.Expr:
        """The text as a number, null where it is none. A percentage becomes a share: 12% is 0.12."""
        trimmed = text.str.strip_chars()
        number: pl.Expr = pl.when(trimmed.str.contains(self.shape)).then(trimmed)
        for pattern, replacement in self.replacements():
            number = number.str.replace_all(pattern, replacement)
        number = number.cast(pl.Float64, strict=False)
        return (number / 100).round(12) if self.percent else number

    def replacements(self) -> list[tuple[str, str]]:
        """The patterns to replace in a text of this shape, in order, so that every program reads it."""
        found = [(rf"[{currency_signs}%\s'\x{{2019}}]|[A-Z]{{3}}", "")] if self.describe() != "plain" else []
        found += [(_separators[self.thousands], "")] if self.thousands in {",", "."} else []
        return found + ([(",", ".")] if self.decimal == "," else [])

    @property
    def shape(self) -> str:
        """What a number in this format looks like."""
        sign = rf"(?:[{currency_signs}]|[A-Z]{{3}})?\s?" if self.currency else ""
        whole = r"[0-9]+"
        if self.thousands:
            whole = rf"(?:[0-9]{{1,3}}(?:{_separators[self.thousands]}[0-9]{{3}})+|[0-9]+)"
        exponent = "" if self.currency or self.percent or self.thousands else r"(?:[eE][+-]?[0-9]+)?"
        body = rf"{whole}(?:{re.escape(self.decimal)}[0-9]*)?{exponent}"
        before, after = (rf"{sign}[+-]?", sign) if self.currency else ("", "%" if self.percent else "")
        return rf"^[+-]?{before}{body}\s?{after}$"

    def describe(self) -> str:
        """The format in words."""
        names = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}
        parts = [f"thousands by {names[self.thousands]}"] if self.thousands else []
        parts += [f"decimal {names[self.decimal]}"] if self.decimal == "," or self.thousands else []
        parts += ["with currency"] if self.currency else []
        parts += ["in percent"] if self.percent else []
        return ", ".join(parts) or "plain"


_separators = {",": ",", ".": r"\.", " ": r"[ \x{a0}\x{202f}]", "'": r"['\x{2019}]"}
_number_formats = [
    NumberFormat(thousands, decimal, currency, percent)
    for currency, percent in ((False, False), (True, False), (False, True))
    for thousands, decimal in (("", "."), (",", "."), ("", ","), (".", ","), (" ", ","), (" ", "."), ("'", "."))
]


def number_format(texts: pl.Series, least: float = 0.9) -> tuple[NumberFormat, float] | None:
    """The way in which these texts write numbers, and the share that it reads; None if less than `least` are numbers.

    Columns of codes, such as postal codes with a leading zero, are not numbers. Among formats that read equally many,
    the plainest wins. "1,234" alone is read as a thousand unless other values show that the comma is decimal.
    """
    values = _some(present(texts))
    if values.is_empty() or values.str.contains("[0-9]").mean() < least:  # type: ignore[operator]
        return None
    if values.str.contains(r"^[+-]?(?:0[0-9]|[0-9]{16})").mean() > 0.001:  # type: ignore[operator]
        return None  # codes: as numbers they would lose their zeros, or their last digits
    frame = values.alias("v").to_frame()
    shares = frame.select(
        one.read(pl.col("v")).is_not_null().mean().alias(str(i)) for i, one in enumerate(_number_formats)
    ).row(0)
    if values.str.contains(r"^[^0-9]*[0-9]{1,3}(?:,[0-9]{3})+[^0-9]*$").all():
        shares = tuple(
            share if one.thousands == "," else 0.0 for share, one in zip(shares, _number_formats, strict=True)
        )
    best = max(shares)
    return (_number_formats[shares.index(best)], best) if best >= least else None


def is_number(text: pl.Expr) -> pl.Expr:
    """Whether a text is a number in the plain form that every program reads."""
    return text.str.strip_chars().str.contains(r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")


_times = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
_days = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d %B %Y",
         "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y%m%d")  # fmt: skip
_looks_dated = r"^\d{1,4}[-/. ](?:\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}|^[A-Za-z]{3,9} \d{1,2}, \d{4}|^(?:19|20)\d{6}$"


@dataclass(frozen=True)
class DateFormat:
    """How the dates of a column are written; `ambiguous` if day and month could also be the other way round."""

    pattern: str
    ambiguous: bool = False

    @property
    def has_time(self) -> bool:
        """Whether the format tells the time of day too."""
        return "%H" in self.pattern

    def read(self, text: pl.Expr) -> pl.Expr:
        """The text as a date, or a moment if the format has a time; null where it is none."""
        kind = pl.Datetime("us") if self.has_time else pl.Date()
        return text.str.strip_chars().str.strptime(kind, self.pattern, strict=False, exact=True)


def date_format(texts: pl.Series, least: float = 0.9) -> tuple[DateFormat, float] | None:
    """The way in which these texts write dates, and the share that it reads; None if less than `least` are dates."""
    values = _some(present(texts))
    if values.is_empty() or values.str.contains(_looks_dated).mean() < least:  # type: ignore[operator]
        return None
    with_time = values.str.contains(r"\d:\d").mean() > 0.5  # type: ignore[operator]
    patterns = [day + time for day in _days for time in _times if bool(time) is with_time]
    frame = values.alias("v").to_frame()
    shares = frame.select(
        DateFormat(one).read(pl.col("v")).is_not_null().mean().alias(str(i)) for i, one in enumerate(patterns)
    ).row(0)
    best = max(shares)
    if best < least:
        return None
    equal = [pattern for pattern, share in zip(patterns, shares, strict=True) if share == best]
    swapped = equal[0].replace("%d", "%x").replace("%m", "%d").replace("%x", "%m")
    return DateFormat(equal[0], ambiguous=swapped in equal[1:]), best


def names_rows(values: pl.Series) -> bool:
    """Whether whole numbers only name rows: each its own, and counted through or called an id."""
    if len(values) < 20 or values.n_unique() < 0.99 * len(values):
        return False
    named = re.search(r"_(id|key|number|no|nr|index|row)_", normalized_name(values.name)) is not None
    low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
    return named or high - low + 1 <= 1.01 * len(values)
