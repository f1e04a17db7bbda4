"""What waits for a person beside the tasks that failed: questions, schedules and webhooks. waiting.sql, as Python.

Nothing is kept of it and nothing is handled here: an entry is there for as long as its reason is, and says what to do.
"""

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


class Attention(Calls):
    """What waits for a person."""

    async def list_waiting(
        self, owner: str | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> list[AttentionItem]:
        """What waits now, of one owner or of all: questions, then schedules, then webhooks.

        `cursor` is the id of the last one before. Raises RequestInvalid.
        """
        return await self._records(AttentionItem, "waiting", owner, encode.text(cursor), limit)
