"""What parameters.json may say to detect-drift."""

from pydantic import Field

from holdfast.lifecycles.analysis.tools import Options


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
