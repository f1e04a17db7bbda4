"""Progress: what a handler reports of how far it is, read for people.

It may report anything; what makes no sense is left out.
"""

from typing import Any, NamedTuple


class Progress(NamedTuple):
    """How much is done, of how much; and a note, or the name of the step it is at."""

    done: float | None = None
    total: float | None = None
    note: str = ""

    def __str__(self) -> str:
        counts = "" if self.done is None else f"{self.done:g}" + (f"/{self.total:g}" if self.total else "")
        return " ".join(filter(None, (counts, self.note)))


def read_progress(given: Any) -> Progress:
    """The progress that was reported, as `progress(done, total, note=...)` or in a heartbeat."""
    if not isinstance(given, dict):
        return Progress()
    done, total = (number if is_count(number) else None for number in (given.get("done"), given.get("total")))
    return Progress(done, total or None, str(given.get("note") or given.get("step") or ""))


def is_count(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and number >= 0
