"""How long a server asks to be left alone, as the headers of its answer say it."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

PART_OF_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
KINDS = ("requests", "tokens")
longest_seconds = 86_400.0


def wait_said(said: Mapping[str, str]) -> timedelta | None:
    """The wait in these headers, at most a day; None if they ask for none."""
    seconds = seconds_said(said)
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), longest_seconds))


def seconds_said(said: Mapping[str, str]) -> float | None:
    if (milliseconds := number(said.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if after := said.get("retry-after"):
        seconds = number(after)
        return until(after, said.get("date")) if seconds is None else seconds
    used_up = [kind for kind in KINDS if said.get(f"x-ratelimit-remaining-{kind}") == "0"] or KINDS
    resets = (duration(said.get(f"x-ratelimit-reset-{kind}", "")) for kind in used_up)
    return max((reset for reset in resets if reset is not None), default=None)


def number(said: str) -> float | None:
    try:
        return float(said) if math.isfinite(float(said)) else None
    except ValueError:
        return None


def until(date: str, now: str | None) -> float | None:
    """From the server's own time to a date. None if that is none."""
    try:
        start = parsedate_to_datetime(now) if now else datetime.now(UTC)
        return (parsedate_to_datetime(date) - start).total_seconds()
    except (ValueError, TypeError):
        return None


def duration(said: str) -> float | None:
    """What `6m0s` or `20ms` says."""
    parts = PART_OF_DURATION.findall(said)
    return sum(float(amount) * UNITS[unit] for amount, unit in parts) if parts else None
