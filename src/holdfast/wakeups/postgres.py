"""Wake-ups by NOTIFY: each worker listens on a channel of its own, on a connection of its own.

A listening connection can die without a word (a half-open socket, a pooler that gave the server process to somebody
else), so it is tested: every few seconds the worker notifies itself. Whoever does not hear itself connects anew, and is
woken once, for whatever was missed. Behind a transaction pooler nothing is ever heard; then polling is all there is.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Container
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.kernel.postgres import DRIVER_ERRORS, Address, connect

log = logging.getLogger("holdfast.wakeups")

test_every_seconds = 5.0
echo_within_seconds = 2.0
reconnect_seconds = 0.2, 5.0
echo = "echo"


class PostgresWakeups:
    """Listens until it is closed."""

    def __init__(self, address: Address, pool: asyncpg.Pool, worker: str) -> None:
        self._address = address
        self._pool = pool
        self._worker = worker
        self._woken = asyncio.Event()
        self._echoed = asyncio.Event()
        self._hears = False
        self._task = asyncio.create_task(self._listen())

    def follow(self, held: Container[UUID]) -> None:
        """What is notified is gone once it was heard: nothing to keep."""

    @property
    def hears(self) -> bool:
        return self._hears

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        pause, longest = reconnect_seconds
        told = False
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # whatever it is, the next connection may do better
                if not told:
                    log.warning("wake-ups are not heard; polling goes on", extra={"error": str(error)})
                told = True
            if self._hears:
                pause, told = reconnect_seconds[0], False
            self._hears = False
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
            pause = min(pause * 2, longest)

    async def _listen_once(self) -> None:
        """One connection, from its opening until it does not hear itself any more."""
        connection = await connect(await asyncio.to_thread(self._address.nearest))
        try:
            channel = await connection.fetchval("select holdfast.channel($1)", self._worker)
            await connection.add_listener(channel, self._heard)
            cut = asyncio.Event()
            connection.add_termination_listener(lambda _: cut.set())
            while True:
                self._echoed.clear()
                # By another connection: a pooler may hand back what came from the same one.
                async with asyncio.timeout(echo_within_seconds):
                    await self._pool.execute("select pg_notify($1, $2)", channel, echo)
                    await self._echoed.wait()
                if not self._hears:
                    self._hears = True
                    self._woken.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(test_every_seconds * random.uniform(0.8, 1.2)):  # noqa: S311
                        await cut.wait()
                        raise ConnectionResetError("the connection was closed")
        finally:
            with contextlib.suppress(*DRIVER_ERRORS):
                connection.terminate()

    def _heard(self, _: asyncpg.Connection, __: int, ___: str, payload: Any) -> None:
        if payload == echo:
            self._echoed.set()
        else:
            self._woken.set()
