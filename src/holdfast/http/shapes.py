"""Answers that many routes have in common: lists and their pages, what a cancel or a pause did, a repeated request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.engine.store.records import CountedPage
from holdfast.http.fields import Cancel, IdempotencyKey, Name, TraceParent, trace_of

T = TypeVar("T")
C = TypeVar("C")

Limit = Annotated[int, Query(ge=1, le=200)]
Filter = Annotated[Name | None, Query()]


@dataclass
class TaskPage:
    """Which page of tasks: those before `cursor`, and how many."""

    cursor: UUID | None = None
    limit: Annotated[int, Query(ge=1, le=100)] = 20


Listing = Annotated[TaskPage, Depends()]


class Items(BaseModel, Generic[T]):
    """All there are."""

    items: list[T]


class Page(BaseModel, Generic[T, C]):
    """Some of them. More begin at `next`; without one this is the end."""

    items: list[T]
    next: C | None


def page(items: Sequence[T], limit: int, cursor: Callable[[T], C]) -> Page[T, C]:
    """A page of items that were asked for up to a limit: if there are as many, there may be more."""
    return Page(items=list(items), next=cursor(items[-1]) if len(items) == limit else None)


def counted_page(found: CountedPage[Any], items: Sequence[T]) -> CountedPage[T]:
    """The same page of tasks, rendered as `items`."""
    return CountedPage(items, found.next, found.approx_count, found.capped)


def ids_of(found: CountedPage[dict[str, Any]]) -> list[UUID]:
    return [UUID(str(one["id"])) for one in found.items]


class CancelEffect(BaseModel):
    """What cancelling did: at once, asked of the worker that holds it, or too late."""

    effect: Literal["cancelled", "requested", "too_late"]


async def cancel_task(store: Store, task_id: UUID, asked: Cancel | None, caller: Principal) -> Any:
    """Cancel a task that the caller may see; its effect."""
    return await store.cancel(task_id, asked.reason if asked else None, by=caller.name)


class Paused(BaseModel):
    name: str
    paused: bool


def mark_repeated(response: Response, is_repeated: bool) -> None:
    """Say of a request that its idempotency key was used before: it is answered as the first time, and did nothing."""
    if is_repeated:
        response.headers["Idempotency-Replayed"] = "true"


@dataclass
class KeyedRequest:
    """A request that does something once for each `Idempotency-Key`, however often it is sent."""

    response: Response
    key: IdempotencyKey = None

    def mark_repeated(self, is_repeated: bool) -> None:
        mark_repeated(self.response, is_repeated)


@dataclass
class CreateRequest(KeyedRequest):
    """One that makes a task, as a part of its caller's trace."""

    traceparent: TraceParent = None

    @property
    def trace(self) -> str | None:
        return trace_of(self.traceparent)


Keyed = Annotated[KeyedRequest, Depends()]
Creating = Annotated[CreateRequest, Depends()]


class Link(BaseModel):
    """A file by its name, and where it can be fetched until then."""

    name: str
    url: str
    expires_at: datetime


def server_address(request: Request) -> str:
    """The address under which the client knows this server; links begin with it."""
    return str(request.base_url).rstrip("/")
