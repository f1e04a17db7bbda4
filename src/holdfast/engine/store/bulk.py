"""Many tasks cancelled or retried, page by page. Repeating is safe: what is done does not fit any more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls

Action = Literal["cancel", "retry"]


@dataclass(frozen=True)
class Filters:
    """The tasks that fit all that is given; those of `list_tasks`."""

    lifecycle: str | None = None
    state: str | None = None
    actor: str | None = None
    outcome: str | None = None
    queue: str | None = None
    name: str | None = None
    owner: str | None = None
    live: bool | None = None
    tag: str | None = None

    @property
    def are_none(self) -> bool:
        return all(value is None for value in vars(self).values())


@dataclass(frozen=True)
class Sample:
    """So many of those that fit are in this state."""

    lifecycle: str
    state: str
    number: int


@dataclass(frozen=True)
class BulkPreview:
    """How many would be done, counted up to 10,000, and in which states they are."""

    number: int
    capped: bool
    groups: Sequence[Sample]


@dataclass(frozen=True)
class Undone:
    """A task that stays as it is, and why."""

    task_id: UUID
    code: str
    detail: str
    fix: str


@dataclass(frozen=True)
class BulkPage:
    """What became of a page. `requested` of them are with workers, who are asked to stop. Continue at `next`."""

    done: int
    requested: int
    refused: Sequence[Undone]
    next: UUID | None


class Bulk(Calls):
    """Many tasks at once."""

    async def preview(self, action: Action, filters: Filters) -> BulkPreview:
        """What `run` would do. Changes nothing. Raises RequestInvalid."""
        row = (await self._table("bulk_look", encode.text(action), *encode.arguments(filters), patience=4))[0]
        return BulkPreview(row["number"], row["capped"], [Sample(**one) for one in encode.load(row["groups"])])

    async def run(
        self,
        action: Action,
        filters: Filters,
        by: str,
        *,
        reason: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 200,
    ) -> BulkPage:
        """Cancel or retry up to `limit` that fit, each for itself. Raises RequestInvalid, and then did nothing."""
        before = encode.optional_id(cursor)
        given = (encode.text(action), encode.text(by), *encode.arguments(filters), encode.text(reason), before, limit)
        row = (await self._table("bulk", *given, patience=4))[0]
        return BulkPage(row["done"], row["requested"], encode.refusals(Undone, row["refused"]), row["next"])
