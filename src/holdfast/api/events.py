"""The live feed over HTTP: server-sent events that a client can break off and take up again without a gap.

The id of each event is a cursor, so any server can go on where another stopped. Nothing is kept for a client that is
away or slow: it reads from the database at its own pace, and one that takes nothing for half a minute is let go. An
owner has only so many streams at once, and so has a server; one whose key was revoked ends within a few seconds.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from starlette.types import Send

from holdfast.api.lifecycles import choose
from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.engine.store.keys import Principal
from holdfast.engine.task import FeedFilter, Move
from holdfast.errors import CursorGone, DatabaseError, KeyRefused, RequestInvalid
from holdfast.http.access import Guard, UserOrOperator, check_visible, make_router, owned_by

moves_at_once = 200
quiet = timedelta(seconds=15)
reconnect_milliseconds = 1000
tasks_at_most = 100
streams_of_one_owner = 20
streams_of_one_server = 200
come_back_seconds = 30

log = logging.getLogger("holdfast.api")

RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `move` (task_id, lifecycle, name, version, at, verb, from, to, attempt, worker_id, data)"
        " and `reset` (code, detail). Ends only with `wait=false`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    404: {"description": "A topic names a lifecycle or a task that is not there."},
    422: {"description": "The cursor or a topic cannot be read."},
    429: {"description": "Too many streams are open.", "headers": {"Retry-After": {"schema": {"type": "integer"}}}},
    503: {"description": "The database does not answer."},
}


class Seats:
    """The streams that are open: so many for each owner, and so many in all."""

    def __init__(self, each: int = streams_of_one_owner, all_together: int = streams_of_one_server) -> None:
        self.each = each
        self.all_together = all_together
        self.taken: Counter[str] = Counter()

    async def __call__(self, caller: UserOrOperator) -> AsyncGenerator[None]:
        """One of them, for as long as the answer takes. Raises HTTPException."""
        if self.taken[caller.owner] >= self.each or self.taken.total() >= self.all_together:
            detail = f"{self.each} streams of one owner may be open, {self.all_together} in all."
            raise HTTPException(429, detail, headers={"Retry-After": str(come_back_seconds)})
        self.taken[caller.owner] += 1
        try:
            yield
        finally:
            self.taken[caller.owner] -= 1
            self.taken += Counter()  # forgets owners without any


def routes(
    store: Store,
    feed: Feed,
    stalled: timedelta = timedelta(seconds=30),
    asked_again: timedelta = timedelta(seconds=5),
    seats: Seats | None = None,
) -> APIRouter:
    """The route of the feed. `asked_again` is how long a revoked key may still listen."""
    router = make_router("/api/v1/events", "events")

    @router.get(
        "",
        response_class=StreamingResponse,
        response_model=None,
        responses=RESPONSES,
        dependencies=[Depends(seats or Seats())],
    )
    async def follow_events(
        request: Request,
        caller: UserOrOperator,
        topics: Annotated[
            str, Query(description="Names of lifecycles and `task:<id>`, with commas; all if empty")
        ] = "",
        cursor: Annotated[str | None, Query(description="Where to begin: a cursor, or `start`; now if missing")] = None,
        wait: Annotated[bool, Query(description="Whether to stay for what is still to come")] = True,
        last_event_id: Annotated[str | None, Header(description="The last id that was received")] = None,
    ) -> StreamingResponse:
        """Every committed move once, in order per task, from now on or from where you were."""
        lifecycles, tasks = await understand(topics, caller, store)
        wanted: FeedFilter = {"lifecycles": lifecycles, "tasks": tasks, "owner": owned_by(caller)}
        begin = last_event_id or cursor
        gone = None
        try:
            begin = begin or (await store.feed()).cursor
            await store.feed(begin, 1, **wanted)
        except CursorGone as error:
            begin, gone = (await store.feed()).cursor, error

        async def is_refused() -> bool:
            guard: Guard = request.app.state.guard
            try:
                async with feed.reading:
                    await guard.ask(request)
            except KeyRefused:
                return True
            except DatabaseError:
                return False  # nothing can be sent meanwhile; it is asked again
            return False

        async def chunks(cursor: str, gone: CursorGone | None) -> AsyncGenerator[bytes]:
            asked = time.monotonic()
            while True:
                yield format_sse_event(id=cursor, retry=reconnect_milliseconds) + (reset_event(gone) if gone else b"")
                try:
                    looks = feed.looks(cursor, limit=moves_at_once, wait=wait, at_least_every=asked_again, **wanted)
                    async with contextlib.aclosing(looks):
                        heard = time.monotonic()
                        async for look in looks:
                            if time.monotonic() - asked >= asked_again.total_seconds():
                                if await is_refused():
                                    return
                                asked = time.monotonic()
                            events = b"".join(map(move_event, look.moves))
                            # A client that gets no event still gets on, so that it never comes back from far away.
                            if events or not wait or time.monotonic() - heard >= quiet.total_seconds() / 2:
                                yield events + format_sse_event(comment="so far", id=look.cursor)
                                heard = time.monotonic()
                    return
                except CursorGone as error:
                    cursor, gone = (await store.feed()).cursor, error

        return Stream(chunks(begin, gone), stalled)

    return router


async def understand(topics: str, caller: Principal, store: Store) -> tuple[list[str] | None, list[UUID] | None]:
    """The lifecycles and tasks that are meant. Raises LifecycleUnknown, TaskNotFound or RequestInvalid."""
    given = dict.fromkeys(topic.strip() for topic in topics.split(",") if topic.strip())
    lifecycles = [topic for topic in given if not topic.startswith("task:")]
    tasks = [encode.task_id(topic.removeprefix("task:")) for topic in given if topic.startswith("task:")]
    if len(tasks) > tasks_at_most:
        raise RequestInvalid(f"{len(tasks)} tasks are too many.", fix=f"Follow {tasks_at_most} at most, or lifecycles.")
    declared = await store.lifecycles() if lifecycles else []
    for name in lifecycles:
        choose(name, declared)
    for task in tasks:
        await check_visible(store, caller, task)
    return lifecycles or None, tasks or None


def move_event(move: Move) -> bytes:
    data = {
        "task_id": str(move.task_id),
        "lifecycle": move.lifecycle,
        "name": move.name,
        "version": move.version,
        "at": move.at.isoformat(),
        "verb": move.verb,
        "from": move.from_state,
        "to": move.to_state,
        "attempt": move.attempt,
        "worker_id": move.worker_id,
        "data": move.data,
    }
    return format_sse_event(event="move", id=move.cursor, data_str=json.dumps(data))


def reset_event(error: CursorGone) -> bytes:
    """Sent instead of an error, since a browser's EventSource cannot read one and would not come back."""
    data = {"code": "cursor-gone", "detail": f"{error.title} {error.detail} {error.fix}"}
    return format_sse_event(event="reset", data_str=json.dumps(data))


class Stream(StreamingResponse):
    """An answer that is given up when the client takes nothing of it for too long.

    FastAPI's own EventSourceResponse knows no such end, and finds out what is wrong only after it has answered 200.
    """

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncGenerator[bytes], stalled: timedelta) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.chunks = chunks
        self.stalled = stalled

    async def stream_response(self, send: Send) -> None:
        async with contextlib.aclosing(self.chunks) as chunks:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in chunks:
                try:
                    async with asyncio.timeout(self.stalled.total_seconds()):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                except TimeoutError:
                    log.warning("a client of the feed takes nothing and is let go")
                    return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
