"""Publishing: a message for every task that workers could take, by every process that is there. There is no leader.

Postgres says which tasks; what one process took no other takes. A process that dies between taking and sending loses
that message, as a queue may lose any: it is sent again after a while, and workers look for themselves meanwhile.

At most about `waiting_at_most` messages lie in the queue. Busy workers receive none, so that those of tasks which have
long been taken would pile up behind their backs.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from holdfast.backoff import backoff, jitter
from holdfast.engine.store.calls import Calls
from holdfast.settings import Settings
from holdfast.wakeups.queue import Queue, describe, queue_named

log = logging.getLogger("holdfast.wakeups")

publish_every = timedelta(seconds=0.25)
"""Work that appears waits half of this for its message, on average. A look that finds nothing reads some ten pages."""
longest_pause = timedelta(seconds=15)
taken_at_once = 100
waiting_at_most = 500
"""A worker that wakes up late receives ten at a time: of so many that are stale, in about a second."""
counted_every_seconds = 1.0


class PendingWakeups(Calls):
    """The functions of wakeups.sql."""

    async def take(self, n: int = taken_at_once) -> list[UUID]:
        """Tasks to send a message for, now; no other process takes them."""
        rows = await self._table("take_wakeups", n, repeatable=False)
        return [row[0] for row in rows]

    async def miss(self, tasks: Iterable[UUID]) -> None:
        """These were taken and could not be sent."""
        await self._call("miss_wakeups", list(tasks))

    async def which_wait(self, tasks: Iterable[UUID]) -> set[UUID]:
        """Those of these tasks that wait for a worker."""
        return {row[0] for row in await self._table("which_wait", list(tasks))}


class Unsent(Exception):
    """Some messages were not taken by the queue."""


class Publisher:
    """Takes and sends, as long as the queue is not known to be full."""

    def __init__(self, pending: PendingWakeups, queue: Queue, *, waiting_at_most: int = waiting_at_most) -> None:
        self._pending = pending
        self._queue = queue
        self._waiting_at_most = waiting_at_most
        self._free = 0
        self._counted: float | None = None

    async def publish(self) -> int:
        """One round: how many were sent. Raises Unsent after noting what was not, or what went wrong before."""
        if self._counted is None or self._free <= 0:
            await self._count()
        if self._free <= 0:
            return 0
        tasks = await self._pending.take(min(self._free, taken_at_once))
        if not tasks:
            return 0
        unsent = await self._queue.send(tasks)
        self._free -= len(tasks) - len(unsent)
        if unsent:
            await self._pending.miss(unsent)
            raise Unsent(f"The queue did not take {len(unsent)} of {len(tasks)} messages.")
        await self._count()  # while there is much to publish, others do so too
        return len(tasks)

    async def _count(self) -> None:
        """Ask at most once a second: it is a call that costs, and the queue knows only about."""
        now = time.monotonic()
        if self._counted is None or now - self._counted >= counted_every_seconds:
            self._free = self._waiting_at_most - await self._queue.depth()
            self._counted = now


def publishers(settings: Settings, calls: Calls) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """What a process has to do so that workers are woken: nothing, where Postgres does it. Raises SettingInvalid."""
    queue = queue_named(settings)
    return [lambda: publish_on(PendingWakeups.over(calls), queue)] if queue else []


async def publish_on(pending: PendingWakeups, queue: Queue, every: timedelta = publish_every) -> None:
    """Publish until cancelled. A queue or a database that is away is asked again; nothing stops it."""
    publisher = Publisher(pending, queue)
    pauses, is_reported = backoff(every.total_seconds() * 2, longest_pause.total_seconds()), False
    async with queue:
        while True:
            try:
                sent = await publisher.publish()
            except Exception as error:  # whatever it is, workers look for themselves meanwhile
                if not is_reported:
                    log.warning("wake-ups are not published; polling goes on", extra={"error": describe(error)})
                is_reported, pause = True, next(pauses)
            else:
                pauses = backoff(every.total_seconds() * 2, longest_pause.total_seconds())
                pause = 0 if sent >= taken_at_once else jitter(every.total_seconds())
                if is_reported and sent:  # with nothing to send the queue was not asked
                    log.info("wake-ups are published again")
                    is_reported = False
            await asyncio.sleep(pause)
