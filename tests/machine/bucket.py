"""A budget, counted exactly."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction


@dataclass
class Bucket:
    """So many at once, and one more every so often."""

    capacity: int
    every: timedelta
    at: datetime
    tokens: Fraction = field(init=False)
    blocked_until: datetime | None = None

    def __post_init__(self) -> None:
        self.tokens = Fraction(self.capacity)

    def block(self, until: datetime) -> None:
        """Nobody spends until then; one is there when it ends."""
        self.blocked_until = max(self.blocked_until or until, until)
        self.tokens, self.at = Fraction(0), max(self.at, until - self.every)

    def spend(self, amount: float, now: datetime) -> bool:
        """Whether so much was there, and is now gone."""
        passed = Fraction(max(now - self.at, timedelta()) // timedelta.resolution, self.every // timedelta.resolution)
        self.tokens, self.at = min(Fraction(self.capacity), self.tokens + passed), max(self.at, now)
        granted = self.tokens >= amount and (self.blocked_until is None or self.blocked_until <= now)
        if granted:
            self.tokens -= Fraction(amount)
        return granted
