"""What lists show, of tasks and of who works on them: one frozen class per shape, nothing decided here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from holdfast.engine.task import JSON, Json

T = TypeVar("T")


@dataclass(frozen=True)
class CountedPage(Generic[T]):
    """Newest first. A page may be short, even empty, and still have a `next`: one query is bounded."""

    items: Annotated[Sequence[T], JSON]
    next: UUID | None
    approx_count: int
    capped: bool


Page = CountedPage
"""Its older name."""


@dataclass(frozen=True)
class Attempt:
    """One lease of a task: who held it, and how that ended."""

    attempt: int
    worker_id: str | None
    claimed_at: datetime
    ended_at: datetime | None
    ended: str | None
    to_state: str | None
    error: Json


@dataclass(frozen=True)
class Link:
    """A task that another is tied to: child, parent, waits_for, awaited_by, retry_of or retried_as."""

    relation: str
    id: UUID
    policy: str | None
    lifecycle: str | None
    name: str | None
    state: str | None
    actor: str | None
    outcome: str | None


@dataclass(frozen=True)
class Count:
    """How many tasks of a lifecycle are in a state."""

    lifecycle: str
    state: str
    actor: str
    outcome: str | None
    number: int
    capped: bool


@dataclass(frozen=True)
class Queue:
    """A queue: what waits in it, what workers hold of it, and whether it is paused."""

    name: str
    paused_at: datetime | None
    paused_by: str | None
    ready: int
    leased: int
    oldest_due: datetime | None


@dataclass(frozen=True)
class Worker:
    """A worker that has reported. `live` if it did so within the last half minute."""

    id: str
    label: str
    queues: Sequence[str]
    names: Sequence[str] | None
    slots: int
    started_at: datetime
    seen_at: datetime
    live: bool
