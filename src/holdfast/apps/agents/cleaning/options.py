"""What parameters.json may say to suggest-cleaning."""

from typing import Literal

from pydantic import Field

from holdfast.lifecycles.analysis.tools import Options

SuggestionKind = Literal[
    "trim", "missing_markers", "unify_categories", "near_equal_categories", "parse_numbers", "parse_dates", "outliers",
    "split", "drop_empty", "drop_constant", "drop_duplicates",
]  # fmt: skip

ALL_KINDS: tuple[SuggestionKind, ...] = (
    "trim", "missing_markers", "unify_categories", "near_equal_categories", "parse_numbers", "parse_dates", "outliers",
    "split", "drop_empty", "drop_constant", "drop_duplicates",
)  # fmt: skip


class CleaningOptions(Options):
    """The section suggest-cleaning."""

    kinds: tuple[SuggestionKind, ...] = ALL_KINDS
    min_share: float = Field(default=0.0, ge=0, le=1)
    parse_share: float = Field(default=0.9, gt=0.5, le=1)
    outliers: Literal["flag", "cap"] = "flag"
    outlier_distance: float = Field(default=3.5, gt=0)
    missing_markers: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    sample_rows: int = Field(default=100_000, ge=100, le=2_000_000)
