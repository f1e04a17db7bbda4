"""Wake-ups by NOTIFY: each worker has a channel of its own; one connection hears for as many as there are in a process.

A worker that speaks SQL listens for itself. A server listens for the workers that wait there over HTTP.

A listening connection can die without notice (a half-open socket, a pooler that gave the server process to another
client), so it is tested: every few seconds the process notifies itself. If that does not arrive, it connects again and
wakes all workers once, for what they missed. Behind a transaction pooler nothing ever arrives, and workers poll.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from holdfast.backoff import backoff, jitter
from holdfast.postgres.connections import DRIVER_ERRORS, Address, connect

log = logging.getLogger("holdfast.wakeups")

test_every_seconds = 5.0
echo_within_seconds = 2.0
reconnect_seconds = 0.2, 5.0
forgotten_after_seconds = 60.0


@dataclass
class Subscriber:
    """A worker: whether it was notified, and until when it asks to be."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    until: float = math.inf
    channel: str | None = None
    """On which it listens; None if it does not, or not yet."""

    def notify(self, _: asyncpg.Connection, __: int, ___: str, ____: Any) -> None:
        self.woken.set()


class PostgresListener:
    """Hears for many workers, from the first that asks until it is closed."""

    def __init__(self, address: Address, pool: asyncpg.Pool) -> None:
        self._address = address
        self._pool = pool
        self._echo = Subscriber()
        self._subscribers = {uuid4().hex: self._echo}
        self._connection: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()
        self.is_listening = False
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, worker: str) -> None:
        """Hear for this worker until it is all closed, whether or not it asks."""
        self._subscribers[worker] = Subscriber()
        self._start()

    async def wait(self, worker: str, seconds: float) -> bool:
        """Whether there may be work for it, at the latest after so many seconds. Who is new is woken once."""
        if self._is_closed:
            return False
        until = time.monotonic() + seconds
        subscriber = self._subscribers.get(worker)
        if subscriber is None:
            subscriber = self._subscribers[worker] = Subscriber(until=until)
            self._start()
            with contextlib.suppress(*DRIVER_ERRORS):  # otherwise it listens with the next connection
                await self._listen_for(worker, subscriber)
        subscriber.until = max(subscriber.until, until)
        try:
            async with asyncio.timeout(seconds):
                await subscriber.woken.wait()
        except TimeoutError:
            return False
        subscriber.woken.clear()
        return True

    def close(self) -> None:
        """Hear no more, and let go who waits."""
        self._is_closed = True
        if self._task:
            self._task.cancel()
        self._wake_all()

    async def close_and_wait(self) -> None:
        """Close, and return when the connection is gone."""
        self.close()
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen())

    def _wake_all(self) -> None:
        for subscriber in self._subscribers.values():
            subscriber.woken.set()

    async def _listen(self) -> None:
        pauses, is_reported = backoff(*reconnect_seconds), False
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # whatever it is, the next connection may do better
                if not is_reported:
                    log.warning("wake-ups do not arrive; polling goes on", extra={"error": str(error)})
                is_reported = True
            if self.is_listening:
                pauses, is_reported = backoff(*reconnect_seconds), False
            self.is_listening = False
            await asyncio.sleep(next(pauses))

    async def _listen_once(self) -> None:
        """One connection, from its opening until it does not hear itself any more."""
        connection = await connect(await asyncio.to_thread(self._address.nearest))
        try:
            cut = asyncio.Event()
            connection.add_termination_listener(lambda _: cut.set())
            self._connection = connection
            for worker, subscriber in list(self._subscribers.items()):
                subscriber.channel = None
                await self._listen_for(worker, subscriber)
            while True:
                self._echo.woken.clear()
                # By another connection: a pooler may hand back what came from the same one.
                async with asyncio.timeout(echo_within_seconds):
                    await self._pool.execute("select pg_notify($1, '')", self._echo.channel)
                    await self._echo.woken.wait()
                if not self.is_listening:
                    self.is_listening = True
                    self._wake_all()
                await self._forget()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(jitter(test_every_seconds, 0.2)):
                        await cut.wait()
                        raise ConnectionResetError("the connection was closed")
        finally:
            self._connection = None
            with contextlib.suppress(*DRIVER_ERRORS):
                connection.terminate()

    async def _listen_for(self, worker: str, subscriber: Subscriber) -> None:
        async with self._lock:  # a connection does one thing at a time
            if self._connection and subscriber.channel is None:
                channel = await self._connection.fetchval("select holdfast.channel($1)", worker)
                await self._connection.add_listener(channel, subscriber.notify)
                subscriber.channel = channel
                # For what was missed until now; else all are woken once it is known that it hears.
                if self.is_listening:
                    subscriber.woken.set()

    async def _forget(self) -> None:
        """Listen no more for those who have not asked for long."""
        long_ago = time.monotonic() - forgotten_after_seconds
        for worker, subscriber in list(self._subscribers.items()):
            if subscriber.until < long_ago:
                del self._subscribers[worker]
                async with self._lock:
                    if self._connection and subscriber.channel:
                        await self._connection.remove_listener(subscriber.channel, subscriber.notify)


class PostgresWakeups:
    """The wake-ups of one worker. Listens until it is closed."""

    def __init__(self, address: Address, pool: asyncpg.Pool, worker: str) -> None:
        self._listener = PostgresListener(address, pool)
        self._worker = worker
        self._listener.subscribe(worker)

    def watch_held(self, held: Container[UUID]) -> None:
        """A notification is gone once it was received: nothing to keep."""

    @property
    def is_listening(self) -> bool:
        return self._listener.is_listening

    async def wait(self, seconds: float) -> bool:
        return await self._listener.wait(self._worker, seconds)

    async def close(self) -> None:
        await self._listener.close_and_wait()
