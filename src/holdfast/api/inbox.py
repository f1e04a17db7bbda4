"""The inbox over HTTP: what failed for good, in groups and one by one, and what an operator does about it.

What else waits for a person is listed beside it, and answered where it belongs; a user sees of it what is their own.
Nothing here needs an idempotency key: an entry is handled once, and a second try is refused with who handled it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from holdfast.attention.store import Attention, AttentionItem
from holdfast.engine.store.commands import Store
from holdfast.engine.store.inbox import Action, BulkResult, Entry, EntryFilter, Group, Handled, WholeEntry
from holdfast.engine.store.records import CountedPage
from holdfast.http.access import Operator, UserOrOperator, make_router, needs, owned_by
from holdfast.http.fields import Body, Moment, Name, Text, Whole
from holdfast.http.shapes import Filter, Limit, Page, page

Signature = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\u0000]+$")]

groups_listed = 100
waiting_listed = 100


@dataclass(frozen=True)
class InboxPage(CountedPage[Entry]):
    """Entries, newest first, and on the first page the open ones that fit by what they have in common.

    There, too, is what else waits for a person, unless a filter asks for failures only. A page may be short, even
    empty, and still have a `next`.
    """

    items: Sequence[Entry]
    groups: list[Group] | None
    waiting: list[AttentionItem] | None


class Retry(Body):
    """From which step on, and with another payload, if not as before."""

    from_step: Name | None = None
    payload: Any = None
    note: Text | None = None


class Close(Body):
    note: Text | None = None


class CommonFilter(Body):
    """The entries that have all of this in common: parameters of the list, and fields of a bulk request."""

    signature: Signature | None = None
    category: Name | None = None
    lifecycle: Name | None = None
    name: Name | None = None
    step: Name | None = None
    owner: Name | None = None

    def which(self) -> EntryFilter:
        return EntryFilter(self.signature, self.category, self.lifecycle, self.name, self.step, self.owner)


class BulkRequest(CommonFilter):
    """Which entries, by their ids or by what they have in common, and what is to be done about them."""

    action: Action
    ids: Annotated[list[UUID], Field(min_length=1, max_length=1000, fail_fast=True)] | None = None
    before: Moment | None = None
    cursor: UUID | None = None
    from_step: Name | None = None
    note: Text | None = None
    dry_run: bool = False
    limit: Annotated[Whole, Field(ge=1, le=1000)] = 1000


class Retried(BaseModel):
    """The task that runs instead."""

    id: UUID
    task_id: UUID
    resolution: Literal["retried"] = "retried"


class Closed(BaseModel):
    id: UUID
    resolution: Literal["resolved", "discarded"]


def routes(store: Store) -> APIRouter:
    router = make_router("/inbox", "inbox")
    waiting = Attention.over(store)

    @router.get("", dependencies=[needs("operator")])
    async def list_entries(
        common: Annotated[CommonFilter, Depends()],
        handled: Handled = "open",
        cursor: UUID | None = None,
        limit: Limit = 50,
    ) -> InboxPage:
        """What failed for good, newest first; the first page also in groups that are alike."""
        which = common.which()
        groups = await store.inbox.groups(which, limit=groups_listed) if cursor is None else None
        page = await store.inbox.page(which, handled=handled, cursor=cursor, limit=limit)
        beside = None
        if cursor is None:
            all_kinds = which == EntryFilter(owner=which.owner) and handled != "handled"
            beside = await waiting.list_waiting(which.owner, limit=waiting_listed) if all_kinds else []
        return InboxPage(groups=groups, waiting=beside, **vars(page))

    @router.get("/waiting")
    async def list_waiting(
        caller: UserOrOperator,
        owner: Filter = None,
        cursor: Annotated[Text | None, Query()] = None,
        limit: Limit = 50,
    ) -> Page[AttentionItem, str]:
        """Open questions, schedules whose start is refused, webhooks that do not arrive; for a user, their own."""
        found = await waiting.list_waiting(owned_by(caller) or owner, cursor=cursor, limit=limit)
        return page(found, limit, lambda last: last.id)

    @router.get("/{entry_id:uuid}", dependencies=[needs("operator")])
    async def entry(entry_id: UUID) -> WholeEntry:
        """One failure with all that is known: error, task, payload, steps, and what was done about it."""
        return await store.inbox.entry(entry_id)

    @router.post("/{entry_id}/retry", status_code=202)
    async def retry(entry_id: UUID, caller: Operator, asked: Retry | None = None) -> Retried:
        """Run its task again, as a new one. With another payload it begins at its start, or at `from_step`."""
        given = asked or Retry()
        made = await store.inbox.retry(
            entry_id, caller.name, from_step=given.from_step, payload=given.payload, note=given.note
        )
        return Retried(id=entry_id, task_id=made)

    @router.post("/{entry_id}/resolve", status_code=202)
    async def resolve(entry_id: UUID, caller: Operator, asked: Close | None = None) -> Closed:
        """Say that the failure was dealt with elsewhere."""
        await store.inbox.resolve(entry_id, caller.name, asked.note if asked else None)
        return Closed(id=entry_id, resolution="resolved")

    @router.post("/{entry_id}/discard", status_code=202)
    async def discard(entry_id: UUID, caller: Operator, asked: Close | None = None) -> Closed:
        """Say that what failed is not needed."""
        await store.inbox.discard(entry_id, caller.name, asked.note if asked else None)
        return Closed(id=entry_id, resolution="discarded")

    @router.post("/bulk", status_code=202)
    async def bulk(asked: BulkRequest, caller: Operator) -> BulkResult:
        """Retry, resolve or discard many, each for itself: the refusal of one does not undo the others."""
        return await store.inbox.bulk(
            asked.action, caller.name, ids=asked.ids, which=asked.which(), before=asked.before, cursor=asked.cursor,
            note=asked.note, from_step=asked.from_step, dry_run=asked.dry_run, limit=asked.limit,
        )  # fmt: skip

    return router
