"""Connections to Postgres: a server of the user's own (HOLDFAST_URL), or the embedded one.

Opening answers three questions before anything else happens, each with an error that says what to do: does the server
answer, is it new enough, does it accept writes?
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import asyncpg

from holdfast.errors import DatabaseReadOnly, DatabaseTooOld, DatabaseUnreachable
from holdfast.postgres.embedded import OLDEST_POSTGRES, Embedded
from holdfast.postgres.keepalive import enable_keepalive
from holdfast.settings import Settings

connect_timeout_seconds = 10
statements_kept = 100
FIRST_OID_NOT_FIXED = 10_000
"""Below this the number of a built-in type is the same on every server."""
ROW_TYPE = b"c"
"""The type of a catalog's rows. It differs between versions."""

# What the driver raises when the server is gone or refuses. The last one is for a connection that breaks between two
# messages.
DRIVER_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@dataclass(frozen=True)
class Address:
    """Where the database is: a server of the user's own (`given`), or the embedded one.

    Asked again for each connection, since a revived embedded server may have had to take another port.
    """

    given: str = field(default="", repr=False)
    embedded: Embedded | None = None

    def url(self, *, owner: bool = False, by_socket: bool = False) -> str:
        """For the application, or for the owner of the schema; on a server of the user's own both are as given."""
        if not self.embedded:
            return self.given
        return self.embedded.owner_url(by_socket=by_socket) if owner else self.embedded.url(by_socket=by_socket)

    def nearest(self, *, owner: bool = False) -> str:
        """The same for this process: the socket, where there is one."""
        return self.url(owner=owner, by_socket=True)

    @property
    def label(self) -> str:
        """The place in words, without a password."""
        return (
            f"embedded in {self.embedded.home}" if self.embedded else f"{place(self.given)}/{database_of(self.given)}"
        )


def place(url: str) -> str:
    """Host and port in words, as they are written."""
    return urlsplit(url).netloc.rpartition("@")[2] or "the local socket"


def database_of(url: str) -> str:
    return unquote(urlsplit(url).path.lstrip("/"))


@contextlib.contextmanager
def locate(settings: Settings) -> Iterator[Address]:
    """The database's address. An embedded server runs until the block ends."""
    if settings.url:
        yield Address(given=settings.url)
        return
    with Embedded(settings.home) as server:
        yield Address(embedded=server)


@contextlib.asynccontextmanager
async def open_connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    """One connection, closed at the end. Raises DatabaseUnreachable, DatabaseTooOld or DatabaseReadOnly."""
    with reachable(url):
        connection = await connect(url)
    try:
        with reachable(url):
            check_server(await connection.fetchrow(FITNESS))
        yield connection
    finally:
        await close_connection(connection)


class Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that looks up the built-in types once per process, not once per connection.

    Otherwise the arrays of the first submit cost the server 4 ms. Built-in types have the same number on every server;
    the types of a schema are still looked up on each connection.
    """

    _builtin: ClassVar[dict[frozenset[int], list[asyncpg.Record]]] = {}

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> tuple[Any, Any]:  # noqa: ASYNC109
        wanted = frozenset(typeoids)
        if max(wanted) >= FIRST_OID_NOT_FIXED:
            return await super()._introspect_types(typeoids, timeout)  # type: ignore[no-any-return]
        if wanted in self._builtin:
            return self._builtin[wanted], SimpleNamespace(name="known")  # all that asyncpg reads of the statement
        types, statement = await super()._introspect_types(typeoids, timeout)
        if not any(one["kind"] == ROW_TYPE for one in types):
            self._builtin[wanted] = types
        return types, statement


async def connect(url: str, *, prepared: bool = False, **options: Any) -> asyncpg.Connection:
    """A connection that keeps prepared statements only if it is asked to. Raises what the driver raises."""
    size = statements_kept if prepared else 0
    options["connection_class"] = Connection
    connection = await asyncpg.connect(url, timeout=connect_timeout_seconds, statement_cache_size=size, **options)
    enable_keepalive(connection._transport.get_extra_info("socket"))
    return connection


async def skip_reset(connection: asyncpg.Connection) -> None:
    """Our statements leave nothing behind in a session, so giving a connection back needs no round trip."""


@contextlib.asynccontextmanager
async def open_pool(address: Address, *, connections: int = 10) -> AsyncIterator[asyncpg.Pool]:
    """A pool of the application's connections, opened as they are needed. Raises what `connected` raises."""
    first = [await first_connection(address.nearest())]
    prepared = first[0] is not None

    async def open_connection(*_: object, **options: Any) -> asyncpg.Connection:
        kept = first.pop() if first else None
        if kept and not kept.is_closed():
            return kept
        if address.embedded and not address.embedded.is_ready():
            raise ConnectionRefusedError("the embedded Postgres is just being started again")
        return await connect(await asyncio.to_thread(address.nearest), prepared=prepared, **options)

    pool = await asyncpg.create_pool(min_size=0, max_size=connections, connect=open_connection, reset=skip_reset)
    try:
        yield pool
    finally:
        for unused in filter(None, first):
            await close_connection(unused)
        try:
            await asyncio.wait_for(pool.close(), 5)
        except DRIVER_ERRORS:
            pool.terminate()


async def first_connection(url: str) -> asyncpg.Connection | None:
    """A connection with prepared statements to a server that is fit; None if a pooler stands before it.

    Behind a transaction pooler the next statement may meet another server process, where a prepared statement of the
    same name may be somebody else's. A pooler greets its clients with a process number of its own making. Until that is
    known nothing is prepared under a name, and all is asked in one transaction. Raises what `connected` raises.
    """
    with reachable(url):
        connection = await connect(url, prepared=True)
        try:
            async with connection.transaction():
                row = await (await connection.prepare(FITNESS, name="")).fetchrow()
            check_server(row)
        except asyncpg.ConnectionDoesNotExistError:  # so answers a pooler of single statements, if it is not gone
            async with open_connection(url):
                return None
        except BaseException:
            await close_connection(connection)
            raise
        if row["process"] == connection.get_server_pid():
            return connection
        await close_connection(connection)
        return None


async def close_connection(connection: asyncpg.Connection) -> None:
    with contextlib.suppress(*DRIVER_ERRORS):
        await connection.close(timeout=5)


FITNESS = (
    "select current_setting('server_version_num')::int as number, current_setting('server_version') as name,"
    " pg_is_in_recovery() as standby, current_setting('transaction_read_only')::bool as read_only,"
    " pg_backend_pid() as process"
)


def check_server(server: Mapping[str, Any]) -> None:
    """Refuse a server that Holdfast cannot work on, by what it answered to FITNESS."""
    if server["number"] < OLDEST_POSTGRES * 10_000:
        raise DatabaseTooOld(
            f"It is {server['name']}; Holdfast needs {OLDEST_POSTGRES} or newer.",
            fix="Upgrade the server, or unset HOLDFAST_URL to use the embedded Postgres.",
        )
    if server["standby"]:
        raise DatabaseReadOnly("It is a standby.", fix="Point HOLDFAST_URL at the primary.")
    if server["read_only"]:
        raise DatabaseReadOnly(
            "default_transaction_read_only is on.",
            fix="Point HOLDFAST_URL at a server or role that may write, or: "
            "alter role <role> set default_transaction_read_only = off",
        )


FIXES = {
    OSError: "Start it, correct HOLDFAST_URL, or unset it to use the embedded Postgres.",
    asyncpg.InvalidCatalogNameError: "Make it: createdb {database}",
    asyncpg.InvalidAuthorizationSpecificationError: "Correct user and password in HOLDFAST_URL.",
    asyncpg.TooManyConnectionsError: "Raise max_connections, or use a pooler.",
}


@contextlib.contextmanager
def reachable(url: str) -> Iterator[None]:
    """Turn the many ways in which a connection fails into one error that says what to do."""
    where = place(url)
    try:
        yield
    except (*DRIVER_ERRORS, ValueError) as error:
        reason = f"no answer within {connect_timeout_seconds} s" if isinstance(error, TimeoutError) else str(error)
        fix = next((fix for kind, fix in FIXES.items() if isinstance(error, kind)), "Correct HOLDFAST_URL.")
        raise DatabaseUnreachable(f"{where}: {reason}.", fix=fix.format(database=database_of(url))) from error
