"""What parameters.json may say to each agent."""

from datetime import date
from typing import Annotated, Literal, get_args

from pydantic import Field

from holdfast.apps.agents.personal.kinds import KindName
from holdfast.lifecycles.analysis.tools import Options


class ProfilerOptions(Options):
    """The section "unified-profiler". What needs a column in memory looks at no more than `sample_rows` rows.

    `as_of` is the day after which a date is in the future; without it, none is.
    """

    columns: Annotated[list[str], Field(min_length=1)] | None = None
    sample_rows: Annotated[int, Field(ge=100, le=100_000_000)] = 1_000_000
    top_values: Annotated[int, Field(ge=0, le=100)] = 10
    histogram_bins: Annotated[int, Field(ge=1, le=200)] = 24
    examples: Annotated[int, Field(ge=0, le=20)] = 5
    duplicates: bool = True
    correlations: bool = True
    max_correlated_columns: Annotated[int, Field(ge=2, le=50)] = 20
    as_of: date | None = None


class Weights(Options):
    """How much a part can raise the score by itself: with 0.25, a part at its worst makes it 25."""

    pii: float = Field(default=0.9, ge=0, le=1)
    leakage: float = Field(default=0.5, ge=0, le=1)
    quality: float = Field(default=0.5, ge=0, le=1)
    outliers: float = Field(default=0.25, ge=0, le=1)


class Thresholds(Options):
    """From where on something counts."""

    moderate: float = Field(default=25, ge=0, le=100)
    high: float = Field(default=50, ge=0, le=100)
    critical: float = Field(default=75, ge=0, le=100)
    missing_share: float = Field(default=0.05, ge=0, le=1)
    duplicate_share: float = Field(default=0.001, ge=0, le=1)
    outlier_distance: float = Field(default=3.5, gt=0)
    outlier_share: float = Field(default=0.001, ge=0, le=1)
    correlation: float = Field(default=0.98, gt=0, le=1)
    determination: float = Field(default=0.98, gt=0, le=1)
    identifier_share: float = Field(default=0.99, gt=0, le=1)


class RiskOptions(Options):
    """The section score-risk."""

    target: str | None = None
    weights: Weights = Weights()
    thresholds: Thresholds = Thresholds()
    ignore_columns: tuple[str, ...] = ()
    pii: dict[KindName, bool] = Field(default_factory=dict)
    sample_rows: int = Field(default=100_000, ge=100, le=2_000_000)
    today: date | None = None


class DriftOptions(Options):
    """The section detect-drift."""

    psi_some: float = Field(default=0.1, gt=0)
    psi_strong: float = Field(default=0.25, gt=0)
    missing_some: float = Field(default=0.05, gt=0, le=1)
    missing_strong: float = Field(default=0.2, gt=0, le=1)
    significance: float = Field(default=0.01, gt=0, lt=1)
    bins: int = Field(default=10, ge=2, le=100)
    columns: tuple[str, ...] | None = None
    ignore_columns: tuple[str, ...] = ()
    sample_rows: int = Field(default=200_000, ge=100, le=2_000_000)


SuggestionKind = Literal[
    "trim", "missing_markers", "unify_categories", "near_equal_categories", "parse_numbers", "parse_dates", "outliers",
    "split", "drop_empty", "drop_constant", "drop_duplicates",
]  # fmt: skip


class CleaningOptions(Options):
    """The section suggest-cleaning."""

    kinds: tuple[SuggestionKind, ...] = get_args(SuggestionKind)
    min_share: float = Field(default=0.0, ge=0, le=1)
    parse_share: float = Field(default=0.9, gt=0.5, le=1)
    outliers: Literal["flag", "cap"] = "flag"
    outlier_distance: float = Field(default=3.5, gt=0)
    missing_markers: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    sample_rows: int = Field(default=100_000, ge=100, le=2_000_000)
