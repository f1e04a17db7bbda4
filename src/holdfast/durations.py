"""Durations as people write them: "5m", "1h30m", "26h", "2d", "1.5s", a number of seconds, or a timedelta."""

import math
import re
from datetime import timedelta

from holdfast.errors import RequestInvalid

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|[smhdw])")
longest = timedelta(days=36500)


def parse_duration(value: str | float | timedelta) -> timedelta:
    """The duration that `value` stands for. Raises RequestInvalid for any other, a negative one, or a century."""
    if isinstance(value, timedelta):
        return check_range(value, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value) or abs(value) > longest.total_seconds():
            raise invalid_duration(value)
        return check_range(timedelta(seconds=value), value)
    text = value.strip().lower() if isinstance(value, str) and len(value) <= 100 else ""
    if re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", text):
        return parse_duration(float(text))
    parts = PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise invalid_duration(value)
    return parse_duration(sum(float(number) * UNITS[unit] for number, unit in parts))


def check_range(duration: timedelta, given: object) -> timedelta:
    if not timedelta(0) <= duration <= longest:
        raise invalid_duration(given)
    return duration


def invalid_duration(given: object) -> RequestInvalid:
    return RequestInvalid(
        f"{str(given)[:100]!r} is not a duration, or is negative or longer than a century.",
        fix='Write "30s", "5m", "1h30m", "2d", or a number of seconds.',
    )
