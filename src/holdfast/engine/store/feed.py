"""The live feed: every committed move once, the moves of one task in their order, for as long as somebody follows.

Where a follower stands is in its cursor and nowhere else, so it may break off and go on from any move it has got, in
another process as well. Postgres decides what a cursor has seen (sql/feed.sql); this module asks again and again. All
followers of one process share one poll, which says that something has happened and never what; then they read a few
at a time, so that they never take all connections of a pool.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import Unpack

from holdfast.backoff import backoff, jitter
from holdfast.engine.store.commands import Store
from holdfast.engine.task import FeedFilter, Move, Moves
from holdfast.errors import DatabaseError, DatabaseUnreachable
from holdfast.postgres.connections import DRIVER_ERRORS

poll_fastest_seconds, poll_slowest_seconds = 0.05, 0.5
poll_slowing = 1.3
outage_seconds = 1.0
reads_at_once = 3


class Feed:
    """The feed of a store over a pool, for any number of followers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reading = asyncio.Semaphore(reads_at_once)  # held for each question that a follower asks the database
        self._news = asyncio.Event()
        self._followers = 0
        self._poll: asyncio.Task[None] | None = None
        self._closed = False

    async def moves(
        self, cursor: str | None = None, *, wait: bool = True, **which: Unpack[FeedFilter]
    ) -> AsyncGenerator[Move]:
        """Move after move behind the cursor, without end, or until now. Raises CursorGone or RequestInvalid."""
        looks = self.looks(cursor, wait=wait, **which)
        async with contextlib.aclosing(looks):
            async for look in looks:
                for move in look.moves:
                    yield move

    async def looks(
        self,
        cursor: str | None = None,
        *,
        limit: int = 500,
        wait: bool = True,
        at_least_every: timedelta = timedelta(seconds=15),
        **which: Unpack[FeedFilter],
    ) -> AsyncGenerator[Moves]:
        """The same in portions. One comes at least every so often, if only with a newer cursor.

        While the database is away nothing comes; then it goes on. Ends when the feed is closed.
        """
        async with self._run_poll():
            while not self._closed:
                news = self._news  # before the look: what is committed after it is news
                try:
                    async with self.reading:
                        look = await self._store.feed(cursor, limit, **which)
                except DatabaseUnreachable:
                    if not wait:
                        raise
                    await asyncio.sleep(jitter(outage_seconds))
                    continue
                cursor = look.cursor
                yield look
                if look.more:
                    continue
                if not wait:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(at_least_every.total_seconds()):
                        await news.wait()

    def close(self) -> None:
        """Let all who follow come to their end, so that a server can stop. They go on elsewhere from their cursors."""
        self._closed = True
        self._news.set()

    @contextlib.asynccontextmanager
    async def _run_poll(self) -> AsyncIterator[None]:
        """The poll runs while there are followers."""
        self._followers += 1
        if self._followers == 1:
            self._poll = asyncio.create_task(self._poll_end())
        try:
            yield
        finally:
            self._followers -= 1
            if self._followers == 0 and self._poll:
                self._poll.cancel()
                self._poll = None

    async def _poll_end(self) -> None:
        """Wake everybody when the end of the feed has moved. The first look is always news: who knows since when."""
        end: str | None = None
        pauses = backoff(poll_fastest_seconds, poll_slowest_seconds, factor=poll_slowing)
        while True:
            before = end
            try:
                end = (await self._store.feed()).cursor
            except (DatabaseError, *DRIVER_ERRORS):
                end = None  # a follower that reads learns why; when it answers again, that is news
            if end != before:
                pauses = backoff(poll_fastest_seconds, poll_slowest_seconds, factor=poll_slowing)
                news, self._news = self._news, asyncio.Event()
                news.set()
            await asyncio.sleep(next(pauses))
