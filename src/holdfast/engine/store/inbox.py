"""The inbox: what failed for good and waits for a person, and what a person does about it.

An entry is handled once: it is retried, resolved or discarded, and keeps who did it and when. A second attempt is
refused, and the error names the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.engine.store.records import CountedPage
from holdfast.engine.task import Json

Handled = Literal["open", "handled", "all"]
Action = Literal["retry", "resolve", "discard"]


@dataclass(frozen=True)
class EntryFilter:
    """The entries that fit all that is given."""

    signature: str | None = None
    category: str | None = None
    lifecycle: str | None = None
    name: str | None = None
    step: str | None = None
    owner: str | None = None


ANY = EntryFilter()


@dataclass(frozen=True)
class Group:
    """Open entries that are alike: what they have in common, one message, how many, and the newest of them."""

    signature: str
    lifecycle: str | None
    name: str | None
    step: str | None
    category: str
    message: str | None
    number: int
    capped: bool
    first_at: datetime
    last_at: datetime
    newest: UUID


@dataclass(frozen=True)
class Entry:
    """One failure, and what was done about it. Of a task that was forgotten early on, less is known."""

    id: UUID
    task_id: UUID
    lifecycle: str | None
    name: str | None
    owner: str | None
    state: str | None
    step: str | None
    category: str
    signature: str
    message: str | None
    at: datetime
    resolved_at: datetime | None
    resolved_by: str | None
    resolution: Literal["retried", "resolved", "discarded"] | None
    note: str | None
    retried_as: UUID | None
    about: str | None
    """What its payload is about, where that has a name or an address: the document."""


@dataclass(frozen=True)
class WholeEntry(Entry):
    """An entry with all that a person needs to decide. `steps` are those that its task came to, in their order.

    The task is None once it is forgotten. `diff` is what a retry changed of the payload.
    """

    error: Json
    diff: Sequence[Mapping[str, Any]] | None
    task: Mapping[str, Any] | None
    payload: Json = field(repr=False)
    steps: Sequence[Mapping[str, Any]]


Entries = CountedPage[Entry]
"""A page of entries."""


@dataclass(frozen=True)
class Handling:
    """An entry that was handled; with the task that runs instead, if it was retried and not only tried."""

    id: UUID
    task_id: UUID
    retried_as: UUID | None


@dataclass(frozen=True)
class Refusal:
    """An entry that stays as it is, and why."""

    id: UUID
    task_id: UUID | None
    code: str
    detail: str
    fix: str


@dataclass(frozen=True)
class BulkResult:
    """What became of each. More that fit begin at `next`: `remaining` of them, counted up to 10,000."""

    dry_run: bool
    handled: Sequence[Handling]
    refused: Sequence[Refusal]
    next: UUID | None
    remaining: int
    capped: bool


class Inbox(Calls):
    """Failures, seen and handled."""

    async def newest(self, *, everything: bool = False, limit: int = 100) -> list[dict[str, Any]]:
        """What waits for a person, newest first, with its whole error."""
        rows = await self._table("inbox", everything, limit)
        return [{**row, "error": encode.load(row["error"])} for row in rows]

    async def groups(self, which: EntryFilter = ANY, *, limit: int = 50) -> list[Group]:
        """Open entries by what they have in common, those with the newest failure first."""
        return await self._records(Group, "inbox_groups", *encode.arguments(which), limit)

    async def page(
        self, which: EntryFilter = ANY, *, handled: Handled = "open", cursor: UUID | str | None = None, limit: int = 50
    ) -> Entries:
        """Entries that fit, the newest first; `cursor` is the `next` of the page before."""
        given = (*encode.arguments(which), encode.text(handled), encode.optional_id(cursor), limit)
        row = (await self._table("inbox_items", *given))[0]
        items = [encode.from_json(Entry, each) for each in encode.load(row["items"])]
        return Entries(items, row["next"], row["approx_count"], row["capped"])

    async def entry(self, entry: UUID | str) -> WholeEntry:
        """One entry with everything. Raises TaskNotFound."""
        return encode.from_json(WholeEntry, encode.load(await self._call("inbox_entry", encode.task_id(entry))))

    async def find(self, prefix: str, limit: int = 10) -> list[tuple[UUID, UUID, bool]]:
        """Entries whose id, or whose task's, begins so: entry, task, whether it is open. Raises RequestInvalid."""
        rows = await self._table("find_entries", encode.text(prefix), limit)
        return [(row["id"], row["task_id"], row["open"]) for row in rows]

    async def neighbours(self, ids: Iterable[UUID]) -> dict[UUID, list[UUID | None]]:
        """The ids beside each of these, among those of entries and of their tasks."""
        rows = await self._table("entry_neighbours", list(ids))
        return {row["id"]: list(row["others"]) for row in rows}

    async def retry(
        self,
        entry: UUID | str,
        by: str,
        *,
        from_step: str | None = None,
        payload: Json = None,
        note: str | None = None,
    ) -> UUID:
        """Run its task again as a new one, which is returned. Raises MoveRefused if it was handled, or StepUnknown."""
        given = (
            encode.task_id(entry),
            encode.text(by),
            encode.text(from_step),
            encode.dump(payload),
            encode.text(note),
        )
        answer: UUID = await self._call("inbox_retry", *given, repeatable=False)
        return answer

    async def resolve(self, entry: UUID | str, by: str, note: str | None = None) -> None:
        """Say that it was dealt with. Raises MoveRefused if it was handled."""
        await self._close("resolve", entry, by, note)

    async def discard(self, entry: UUID | str, by: str, note: str | None = None) -> None:
        """Say that nobody needs what failed. Raises MoveRefused if it was handled."""
        await self._close("discard", entry, by, note)

    async def _close(self, verb: str, entry: UUID | str, by: str, note: str | None) -> None:
        await self._call(verb, encode.task_id(entry), encode.text(by), encode.text(note), repeatable=False)

    async def bulk(
        self,
        action: Action,
        by: str,
        *,
        ids: Iterable[UUID | str] | None = None,
        which: EntryFilter = ANY,
        before: datetime | None = None,
        cursor: UUID | str | None = None,
        note: str | None = None,
        from_step: str | None = None,
        dry_run: bool = False,
        limit: int = 1000,
    ) -> BulkResult:
        """Handle these entries, or those that fit, the newest first, each for itself. A dry run only answers.

        Raises RequestInvalid, and then nothing was written.
        """
        given = (
            encode.text(action), encode.text(by), None if ids is None else [encode.task_id(one) for one in ids],
            *encode.arguments(which), before, encode.optional_id(cursor), encode.text(note),
            encode.text(from_step), dry_run, limit,
        )  # fmt: skip
        row = (await self._table("inbox_bulk", *given, repeatable=False, patience=4))[0]
        handled = [encode.from_json(Handling, {"retried_as": None, **one}) for one in encode.load(row["handled"])]
        refused = encode.refusals(Refusal, row["refused"])
        return BulkResult(dry_run, handled, refused, row["next"], row["remaining"], row["capped"])
