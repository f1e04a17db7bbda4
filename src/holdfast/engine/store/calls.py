"""How a function of the engine is called: what Postgres raised comes back as the class of the same SQLSTATE.

A call that was broken off by a deadlock is made again, and so is one whose connection was lost, if making it twice does
no harm. Each call is one statement, so a transaction pooler may stand in between. No call waits for ever: a connection
may be half-open, so that what was asked or the answer to it never arrives.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

import asyncpg
import asyncpg.pool

from holdfast.backoff import jitter
from holdfast.engine.store import encode
from holdfast.errors import DatabaseError, DatabaseUnreachable, HoldfastError
from holdfast.postgres.connections import DRIVER_ERRORS

calls_at_most = 8
answer_within_seconds = 30.0
release_within_seconds = 2.0
asked_again_seconds = 0.2

T = TypeVar("T")

LOST_CONNECTION = (
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.PostgresConnectionError,
    asyncpg.exceptions.InsufficientResourcesError,
)
"""The server stops, has just started, or has no space or no time: nothing is wrong with the call."""

RELEASING: set[asyncio.Task[None]] = set()
"""Connections that are being given back while nobody waits for it."""


class Calls:
    """Calls over a pool, or over one connection whose transaction the caller commits."""

    def __init__(
        self, source: asyncpg.Pool | asyncpg.Connection, *, answer_within_seconds: float = answer_within_seconds
    ) -> None:
        self._source = source
        self._answer_within_seconds = answer_within_seconds
        self._is_theirs = isinstance(source, (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy))

    @classmethod
    def over(cls, other: "Calls") -> Self:
        """Calls of this kind, over the connections of another."""
        return cls(other._source, answer_within_seconds=other._answer_within_seconds)

    async def now(self) -> datetime:
        """The time, by the one clock that counts."""
        answer: datetime = await self._call("now")
        return answer

    async def _call(self, function: str, *arguments: Any, repeatable: bool = True) -> Any:
        """The one value that a function of the schema answers."""
        return (await self._table(function, *arguments, repeatable=repeatable))[0][0]

    async def _record(self, kind: type[T], function: str, *arguments: Any, **how: Any) -> T:
        """The one row that it answers, as a record; `how` is what `_rows` takes."""
        return encode.from_row(kind, (await self._table(function, *arguments, **how))[0])

    async def _records(self, kind: type[T], function: str, *arguments: Any, **how: Any) -> list[T]:
        """The rows that it answers, as records."""
        return [encode.from_row(kind, row) for row in await self._table(function, *arguments, **how)]

    async def _table(self, function: str, *arguments: Any, **how: Any) -> list[asyncpg.Record]:
        """The rows that it answers."""
        return await self._rows(query_of(function, len(arguments)), *arguments, **how)

    async def _documents(self, function: str, *arguments: Any) -> list[Any]:
        """The JSON of each row that it answers."""
        return [encode.load(row[0]) for row in await self._table(function, *arguments)]

    async def _rows(
        self, query: str, *arguments: Any, repeatable: bool = True, patience: float | None = 1
    ) -> list[asyncpg.Record]:
        """Ask, and ask again where that is safe. Raises what Postgres raised, as a class of ours.

        Patience is how many times longer than usual an answer may take; None is for ever.
        """
        within = patience and patience * self._answer_within_seconds
        for call in range(1, calls_at_most + 1):
            try:
                return await self._fetch(query, arguments, within)
            except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
                if self._is_theirs:
                    raise
                if call == calls_at_most:
                    raise encode.unreachable(error) from error
            except DRIVER_ERRORS as error:
                if isinstance(error, asyncpg.PostgresError) and not isinstance(error, LOST_CONNECTION):
                    raise encode.translate(error) from error
                if call == calls_at_most or not repeatable or self._is_theirs:
                    raise encode.unreachable(error) from error
            await asyncio.sleep(jitter(0.01 * 2**call, 1.0))
        raise DatabaseUnreachable  # pragma: no cover - the last call has returned or raised

    async def _fetch(self, query: str, arguments: tuple[Any, ...], within: float | None) -> list[asyncpg.Record]:
        if not isinstance(self._source, asyncpg.Pool):
            rows: list[asyncpg.Record] = await self._source.fetch(query, *arguments)
            return rows
        async with asyncio.timeout(within):
            connection = await self._source.acquire()
            try:
                rows = list(await connection.fetch(query, *arguments))
            except asyncio.CancelledError:  # the caller must not wait for this instead: leases run out
                releasing = asyncio.create_task(self._release(connection))
                RELEASING.add(releasing)
                releasing.add_done_callback(RELEASING.discard)
                raise
            except BaseException:
                await self._release(connection)
                raise
            await self._release(connection)
            return rows

    async def _release(self, connection: asyncpg.pool.PoolConnectionProxy) -> None:
        """Give a connection back. After a cancellation the pool waits until the server says that it has stopped; where
        it does not the connection is given up, so that the place in the pool is not lost with it."""
        with contextlib.suppress(*DRIVER_ERRORS):
            await self._source.release(connection, timeout=release_within_seconds)


@functools.cache
def query_of(function: str, arguments: int) -> str:
    """The call of a function of the schema. The text is always the same, so that it is prepared once."""
    places = ", ".join(f"${number}" for number in range(1, arguments + 1))
    return f"select * from holdfast.{function}({places})"  # noqa: S608 - names of ours


def require_one(found: Sequence[T], missing: HoldfastError) -> T:
    """The only one that was found. Raises `missing` if there is none."""
    if not found:
        raise missing
    return found[0]


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of the database, however long it is away: that is not a failure of the work on a task."""
    while True:
        try:
            return await ask()
        except DatabaseError:
            await asyncio.sleep(asked_again_seconds)
