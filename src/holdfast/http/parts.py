"""Parts: how far the jobs, stages, nodes, steps or agents of something are, in one form for all that can be watched."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from holdfast.engine.progress import read_progress

PartStatus = Literal["waiting", "running", "completed", "partial", "failed", "cancelled", "skipped"]

OUTCOMES: Mapping[str | None, PartStatus] = {
    "done": "completed", "partial": "partial", "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip


class Part(BaseModel):
    """One part: how many of its `total` are done, if it counts; what it says of itself; what went wrong."""

    name: str
    status: PartStatus
    done: float | None = None
    total: float | None = None
    note: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    """Since when it runs, where that is known."""


def running_part(name: str, progress: Any, *, note: str = "", started_at: datetime | None = None) -> Part:
    """A part that runs, with the progress that its handler reports."""
    found = read_progress(progress)
    notes = ", ".join(filter(None, (note, found.note)))
    return Part(
        name=name, status="running", done=found.done, total=found.total, note=notes or None, started_at=started_at
    )
