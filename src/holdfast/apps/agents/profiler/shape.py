"""The shape of profile.json: one frozen class per object in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Type = Literal[
    "integer", "decimal", "boolean", "date", "datetime", "category", "text", "identifier", "constant", "empty"
]
Severity = Literal["high", "medium", "low"]
Value = int | float | bool | str | None


@dataclass(frozen=True)
class Missing:
    """Values that are not there. `words`: texts that may say so too (NA, -); they are not in the count."""

    count: int
    share: float
    words: Mapping[str, int]


@dataclass(frozen=True)
class Distinct:
    """How many different values there are; not exact for a table larger than the sample."""

    count: int
    share: float
    exact: bool


@dataclass(frozen=True)
class Outliers:
    """Values further from the middle half than one and a half times its width."""

    count: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Numbers:
    """A column of numbers. Those that are infinite are counted and otherwise left out."""

    min: float
    max: float
    mean: float
    std: float | None
    skew: float | None
    quantiles: Mapping[str, float]
    zeros: int
    negatives: int
    infinite: int
    outliers: Outliers | None


@dataclass(frozen=True)
class Dates:
    """A column of dates or times, in ISO 8601. `future`: how many are after `as_of`."""

    min: str
    median: str
    max: str
    future: int | None


@dataclass(frozen=True)
class Text:
    """A column of texts: their lengths in characters, and how many have blanks around them."""

    shortest: int
    longest: int
    mean_length: float
    padded: int


@dataclass(frozen=True)
class Bar:
    """A part of a histogram: from (included), to (excluded but for the last), and how many."""

    start: Value
    end: Value
    count: int


@dataclass(frozen=True)
class Histogram:
    """Bars over the range in which most values are; what is far outside is only counted."""

    bins: tuple[Bar, ...]
    below: int
    above: int


@dataclass(frozen=True)
class Top:
    """A value and how often it is there, of the values that are."""

    value: Value
    count: int
    share: float


@dataclass(frozen=True)
class Mixed:
    """Why a column is text: all but `count` of its values are of another type."""

    almost: str
    count: int


@dataclass(frozen=True)
class ColumnProfile:
    """What is known of a column. What does not apply to its type is null."""

    name: str
    type: Type
    stored_as: str
    missing: Missing
    distinct: Distinct
    numbers: Numbers | None
    dates: Dates | None
    text: Text | None
    histogram: Histogram | None
    top_values: tuple[Top, ...]
    examples: tuple[Value, ...]
    mixed: Mixed | None


@dataclass(frozen=True)
class Pair:
    """Two columns and how strongly they go together."""

    first: str
    second: str
    measure: Literal["pearson", "spearman", "cramers_v"]
    value: float


Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Correlations:
    """Measured on `rows` rows, each pair on those where both are there. `left_out`: columns beyond the limit."""

    rows: int
    numbers: tuple[str, ...]
    pearson: Matrix
    spearman: Matrix
    categories: tuple[str, ...]
    cramers_v: Matrix
    strongest: tuple[Pair, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Warned:
    """A sentence that the reader should not miss."""

    severity: Severity
    code: str
    column: str | None
    message: str


@dataclass(frozen=True)
class FileFacts:
    """What is known of the table as a whole. `duplicate_rows`: rows that are equal to an earlier one."""

    name: str
    format: str
    delimiter: str | None
    compressed: bool
    bytes: int
    rows: int
    columns: int
    missing_cells: int
    missing_share: float
    duplicate_rows: int | None
    duplicate_share: float | None
    sampled_rows: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """profile.json. `sampled_rows` of the file says on how many rows quantiles, histograms and top values are."""

    file: FileFacts
    columns: tuple[ColumnProfile, ...]
    correlations: Correlations | None
    warnings: tuple[Warned, ...]
    version: int = 1
    agent: str = "unified-profiler"
