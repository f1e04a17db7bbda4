"""What waits for a person beside the tasks that failed: questions, schedules and webhooks. waiting.sql, as Python.

Nothing is kept of it and nothing is handled here: an entry is there for as long as its reason is, and says what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls


@dataclass(frozen=True)
class AttentionItem:
    """Something that a person should look at: what it is, since when and why, who acts, and the command for it."""

    id: str
    kind: Literal["question", "schedule", "webhook"]
    task_id: UUID | None
    name: str
    owner: str
    since: datetime
    until: datetime | None
    """When a question is too late to answer; when a schedule is tried again."""
    why: str
    acts: Literal["owner", "operator"]
    command: str


@dataclass(frozen=True)
class AttentionPage:
    """A page: questions, then schedules, then webhooks."""

    items: Sequence[AttentionItem]
    next: str | None


class Attention(Calls):
    """What waits for a person."""

    async def list_waiting(
        self, owner: str | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> AttentionPage:
        """What waits now, of one owner or of all; `cursor` is the `next` of the page before. Raises RequestInvalid."""
        items = await self._records(AttentionItem, "waiting", owner, encode.text(cursor), limit)
        return AttentionPage(items, items[-1].id if len(items) == limit else None)
