"""How long a server asks to be left alone, read from an answer: `Retry-After`, the vendors' headers, Google's JSON."""

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
since_1970 = 1_000_000_000  # a larger number is a moment, not a wait


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """The wait that `Retry-After` asks for, a day at most; None if it asks for none."""
    return at_most_a_day(requested_seconds(headers))


def retry_wait(headers: Mapping[str, str], body: Any = None) -> timedelta | None:
    """The same of a refusal, which may also say when a limit is reset, in a header or in Google's JSON."""
    for seconds in (requested_seconds(headers), reset_seconds(headers), google_seconds(body)):
        if seconds is not None:
            return at_most_a_day(seconds)
    return None


def at_most_a_day(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), longest_seconds))


def requested_seconds(headers: Mapping[str, str]) -> float | None:
    if (milliseconds := as_number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    if (seconds := as_number(given)) is None and (until := as_moment(given)):
        return (until - (as_moment(headers.get("date", "")) or datetime.now(UTC))).total_seconds()
    return seconds


def reset_seconds(headers: Mapping[str, str]) -> float | None:
    """The longest reset among the limits that are used up, or among all."""
    used_up = [kind for kind in KINDS if headers.get(f"x-ratelimit-remaining-{kind}") == "0"] or KINDS
    resets = [as_duration(headers.get(f"x-ratelimit-reset-{kind}", "")) for kind in used_up]
    if longest := max((reset for reset in resets if reset is not None), default=None):
        return longest
    reset = headers.get("x-ratelimit-reset", "")  # a duration, seconds, or a second since 1970
    seconds = as_number(reset)
    if seconds is None:
        return as_duration(reset)
    return seconds - datetime.now(UTC).timestamp() if seconds > since_1970 else seconds


def google_seconds(body: Any) -> float | None:
    """The `retryDelay` in the details of an error of Google's."""
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    delays = [one.get("retryDelay") for one in details or () if isinstance(one, dict)] if details else []
    return next((as_duration(delay) for delay in delays if isinstance(delay, str)), None)


def as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) or number < 0 else number


def as_moment(text: str) -> datetime | None:
    """A date as HTTP writes it; one without a time zone is taken as UTC."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def as_duration(text: str) -> float | None:
    """The seconds in `6m0s` or `20ms`."""
    parts = PART_OF_DURATION.findall(text)
    return sum(float(amount) * UNITS[unit] for amount, unit in parts) if parts else None
