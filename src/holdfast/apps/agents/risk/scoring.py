"""How findings become a score from 0 to 100.

Each finding has a severity between 0 and 1, and takes that share of what is still sound: two findings of 0.5 leave a
quarter, which is a score of 75. So a score never sinks when a problem is added, never passes 100, and does not depend
on the order. Parts are joined in the same way, each counting at most its weight. The scores that findings would make
alone do not add up to the whole, since they overlap.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

Level = Literal["low", "moderate", "high", "critical"]


@dataclass(frozen=True)
class Finding:
    """One thing that makes the table risky. Examples are masked before they come here."""

    code: str
    column: str | None
    severity: float
    sentence: str
    advice: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """One side of the risk, with all that was found on it. `note` says what could not be looked at."""

    name: str
    title: str
    weight: float
    findings: Sequence[Finding]
    note: str = ""

    @property
    def score(self) -> float:
        """From 0, nothing found, to 100."""
        return 100 * join_severities(finding.severity for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """For the output, the gravest finding first; `alone` is the score if that finding were all there is."""
        found = sorted(self.findings, key=lambda one: (-one.severity, one.column or "", one.code))
        findings = [
            {**vars(one), "severity": round(one.severity, 4), "alone": round(self.alone(one), 1)} for one in found
        ]
        return {**vars(self), "score": round(self.score, 1), "findings": findings}

    def alone(self, finding: Finding) -> float:
        """What the score would be if this were all that was found."""
        return 100 * self.weight * min(max(finding.severity, 0.0), 1.0)


def join_severities(severities: Iterable[float]) -> float:
    """Several severities as one."""
    return 1 - prod(1 - min(max(severity, 0.0), 1.0) for severity in severities)


def overall(parts: Sequence[Part]) -> float:
    """The score of the table, from 0 to 100."""
    return 100 * join_severities(part.weight * part.score / 100 for part in parts)


def level(score: float, moderate: float, high: float, critical: float) -> Level:
    """The level of this score."""
    if score >= critical:
        return "critical"
    return "high" if score >= high else "moderate" if score >= moderate else "low"
