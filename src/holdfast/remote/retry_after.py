"""How long a server asks to be left alone, as its answer says it."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

PART_OF_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
KINDS = ("requests", "tokens")
longest_seconds = 86_400.0
since_1970 = 1_000_000_000  # a larger number is no wait but a moment


def wait_said(said: Mapping[str, str], body: Any = None) -> timedelta | None:
    """The wait in these headers, or in the details of Google's JSON, at most a day; None if they ask for none."""
    seconds = seconds_said(said)
    return bounded(seconds_in(body) if seconds is None else seconds)


def wait_asked(said: Mapping[str, str]) -> timedelta | None:
    """The same of an answer that is no refusal: only what asks for a wait in so many words."""
    return bounded(seconds_asked(said))


def bounded(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), longest_seconds))


def seconds_asked(said: Mapping[str, str]) -> float | None:
    if (milliseconds := number(said.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if after := said.get("retry-after"):
        seconds = number(after)
        return until(after, said.get("date")) if seconds is None else seconds
    return None


def seconds_said(said: Mapping[str, str]) -> float | None:
    if (asked := seconds_asked(said)) is not None:
        return asked
    used_up = [kind for kind in KINDS if said.get(f"x-ratelimit-remaining-{kind}") == "0"] or KINDS
    resets = (duration(said.get(f"x-ratelimit-reset-{kind}", "")) for kind in used_up)
    longest = max((reset for reset in resets if reset is not None), default=None)
    return reset_of(said) if longest is None else longest


def reset_of(said: Mapping[str, str]) -> float | None:
    """What `x-ratelimit-reset` says: a duration, seconds, or the second since 1970 that they are over in."""
    reset = said.get("x-ratelimit-reset", "")
    seconds = number(reset)
    if seconds is None:
        return duration(reset)
    return seconds - datetime.now(UTC).timestamp() if seconds > since_1970 else seconds


def seconds_in(body: Any) -> float | None:
    """The `retryDelay` in the details of an error of Google's."""
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    delays = [one.get("retryDelay") for one in details or () if isinstance(one, dict)] if details else []
    return next((duration(delay) for delay in delays if isinstance(delay, str)), None)


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
