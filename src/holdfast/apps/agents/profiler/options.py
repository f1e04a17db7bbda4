"""What parameters.json may say to the profiler."""

from datetime import date
from typing import Annotated

from pydantic import Field

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
