"""What parameters.json may say to score-risk."""

from datetime import date

from pydantic import Field

from holdfast.apps.agents.personal.kinds import KindName
from holdfast.lifecycles.analysis.tools import Options


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
