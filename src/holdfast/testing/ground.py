"""One server per test run, one template database, and copies of it that tests use one after another.

All processes of a run open the same folder and so share one embedded server. The first one makes the template:
migrated, with the lifecycles declared and the moved clock in place of the real one. A test gets a copy of it, or a copy
that an earlier test used and that was restored (reuse.py). With its connections still open that makes a small test
several times as fast (`python -m bench clone`).
The server trades durability for speed; a crash of the machine loses the run, and nothing else.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import asyncpg

from holdfast.apps import offer_bundled
from holdfast.apps.agents import PROFILE_MY_DATA
from holdfast.engine.store.commands import Store
from holdfast.errors import DatabaseError, DatabaseUnreachable
from holdfast.lifecycles import LIFECYCLES, declare_all
from holdfast.postgres.connections import (
    DRIVER_ERRORS,
    Address,
    connect,
    open_connection,
    open_pool,
    skip_reset,
)
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.migrate import PACKAGES, Package, digest, migrate
from holdfast.sdk.session import LoopThread
from holdfast.testing.clock import CLOCK_SQL, REAL_CLOCK_SQL, Clock
from holdfast.testing.reuse import AT_LOGIN, RESET, Snapshot

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "300",
}
uses_at_most = 40
"""Dead rows add up: a test should not pay for those of hundreds of tests before it."""
connections_kept = 10
KEPT = {"application_name": "kept for the next test"}
"""Marks the connections that stay open, unlike those a test opens."""
restore_within_seconds = 20


class Ground:
    """The server of a test run. Open it as a context; any number of processes may open the same folder."""

    def __init__(
        self,
        folder: Path,
        *,
        bindir: Path | None = None,
        packages: Sequence[Package] = PACKAGES,
    ) -> None:
        self.server = Embedded(folder, bindir=bindir, settings=FAST)
        self.packages = packages
        self.run = uuid4()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Ground":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.server)
            self.background = LoopThread()
            stack.callback(self.background.stop)
            self._postgres = Database(self, "postgres")
            stack.callback(lambda: self.background.call(self._postgres.close()))
            self._moved = stack.enter_context(contextlib.closing(SpareDatabases(self, self._make_template())))
            self._live: SpareDatabases | None = None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def database(self) -> contextlib.AbstractContextManager["Database"]:
        """A database for one test, with the schema in place and a clock that is moved."""
        return self._moved.borrow()

    def live_database(self) -> contextlib.AbstractContextManager["Database"]:
        """The same with the real clock: time passes in it."""
        if self._live is None:
            self._live = self._stack.enter_context(contextlib.closing(SpareDatabases(self, self._make_live_template())))
        return self._live.borrow()

    def fresh_database(self) -> contextlib.AbstractContextManager["Database"]:
        """Always a new copy, dropped at the end: for tests of plans, pages and statistics."""
        return self.empty_database(like=self._moved.template)

    @contextlib.contextmanager
    def empty_database(self, like: str = "template0") -> Iterator["Database"]:
        """A database with nothing in it, not even our schema; or a copy of another one. Dropped at the end."""
        database = self.make(like)
        try:
            yield database
        finally:
            self.drop(database)

    def make(self, like: str) -> "Database":
        name = f"test_{self.run.hex[:8]}_{uuid4().hex}"
        self._ask(f"create database {name} template {like} strategy file_copy")
        return Database(self, name)

    def drop(self, database: "Database") -> None:
        self.background.call(database.close())
        self._ask(f"drop database if exists {database.name} with (force)")

    def _ask(self, statement: str, *arguments: object) -> Any:
        """Ask as the owner. A test may end all sessions of the server, so it is asked once more."""
        with contextlib.suppress(*DRIVER_ERRORS):
            return self._postgres.ask_owner(statement, *arguments)
        self.background.call(self._postgres.close())
        return self._postgres.ask_owner(statement, *arguments)

    def _make_template(self) -> str:
        """The template's name, with all that goes into it as a digest."""
        parts = [
            digest(self.packages),
            CLOCK_SQL + REAL_CLOCK_SQL,
            *(step.sha256 for package in self.packages for step in package.migrations),
            *(json.dumps(lifecycle.definition()) for lifecycle in LIFECYCLES),
            json.dumps(PROFILE_MY_DATA.published()),
        ]
        mark = hashlib.sha256("".join(parts).encode()).hexdigest()
        return self._made_once(f"template_{mark[:16]}", "template0", self._fill_template)

    def _make_live_template(self) -> str:
        """The same with the real clock, and with partitions for the days at hand, as a database in use has them."""
        template = self._moved.template
        return self._made_once(f"{template}_live", template, self._let_time_pass)

    def _made_once(self, name: str, like: str, fill: Callable[[str], Coroutine[Any, Any, None]]) -> str:
        """One process makes it while the others wait for the lock."""
        with (self.server.home / "template.lock").open("w") as flock:
            fcntl.flock(flock, fcntl.LOCK_EX)
            exists = "select exists (select from pg_database where datname = $1)"
            if not self._ask(exists, name):
                self._ask(f"drop database if exists {name}_new")
                self._ask(f"create database {name}_new template {like} strategy file_copy")
                self.background.call(fill(f"{name}_new"))
                self._ask(f"alter database {name}_new rename to {name}")
        return name

    async def _fill_template(self, name: str) -> None:
        await migrate(self.server.owner_url(name, by_socket=True), self.packages)
        async with open_connection(self.server.owner_url(name, by_socket=True)) as connection:
            await connection.execute(CLOCK_SQL)
            await declare_all(Store(connection))
            await offer_bundled(Store(connection))

    async def _let_time_pass(self, name: str) -> None:
        async with open_connection(self.server.owner_url(name, by_socket=True)) as connection:
            await connection.execute(REAL_CLOCK_SQL)
            await Store(connection).make_partitions()


class SpareDatabases:
    """Copies of one template that no test is using."""

    def __init__(self, ground: Ground, template: str) -> None:
        self.ground = ground
        self.template = template
        self._spare: list[Database] = []
        self._snapshot: Snapshot | None = None

    @contextlib.contextmanager
    def borrow(self) -> Iterator["Database"]:
        """One of them, or a new one."""
        database = self._spare.pop() if self._spare else self._make()
        try:
            yield database
        finally:
            database.uses += 1
            if database.uses < uses_at_most and self.ground.background.call(database.restore()):
                self._spare.append(database)
            else:
                self.ground.drop(database)

    def _make(self) -> "Database":
        database = self.ground.make(self.template)
        self._snapshot = self.ground.background.call(database.begin(self._snapshot))
        return database

    def close(self) -> None:
        while self._spare:
            self.ground.drop(self._spare.pop())


class Database:
    """A test's own database: addresses for the application and the owner, and the clock."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.ground = ground
        self.name = name
        self.url = ground.server.url(database=name, by_socket=True)
        self.owner_url = ground.server.owner_url(name, by_socket=True)
        self.clock = Clock(self)
        self.uses = 0
        self._opening = asyncio.Lock()
        self._owner: asyncpg.Connection | None = None
        self._kept: list[asyncpg.Connection] = []
        self._seen: set[asyncpg.Connection] = set()
        self._pool: asyncpg.Pool | None = None
        self._bridges: list[Bridge] = []

    def connect(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        """A connection as the application."""
        return open_connection(self.url)

    def connect_owner(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        """A connection as the owner of the schema."""
        return open_connection(self.owner_url)

    @contextlib.asynccontextmanager
    async def store(self, *, connections: int | None = None) -> AsyncIterator[Store]:
        """The kernel, as the application reaches it: over connections that are kept, or over so many new ones."""
        if connections is None:
            yield Store(self.bridge())
        else:
            async with open_pool(Address(given=self.url), connections=connections) as pool:
                yield Store(pool)

    def bridge(self) -> asyncpg.Pool:
        """The application's connections, which stay open for later tests; any event loop may call it like a pool."""
        self._bridges.append(Bridge(self))
        return cast(asyncpg.Pool, self._bridges[-1])

    async def connections(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    min_size=0, max_size=connections_kept, max_inactive_connection_lifetime=0,
                    connect=self._connect_kept, reset=skip_reset,
                )  # fmt: skip
        return self._pool

    async def _connect_kept(self, *_: object, **options: Any) -> asyncpg.Connection:
        connection = await connect(self.url, prepared=True, server_settings=KEPT, **options)
        self._kept.append(connection)
        return connection

    def ask_owner(self, query: str, *arguments: object) -> Any:
        """One value, asked as the owner from synchronous code."""
        return self.ground.background.call(self._ask_owner(query, *arguments))

    async def _ask_owner(self, query: str, *arguments: object) -> Any:
        return await (await self._as_owner()).fetchval(query, *arguments)

    async def _as_owner(self) -> asyncpg.Connection:
        if self._owner is None or self._owner.is_closed():
            self._owner = await connect(self.owner_url, prepared=True, server_settings=KEPT)
        return self._owner

    async def begin(self, snapshot: Snapshot | None) -> Snapshot:
        """Leave the mark of this run. Returns the snapshot, or takes one: all copies hold the same rows."""
        owner = await self._as_owner()
        await owner.execute(f"update holdfast.test_clock set run = '{self.ground.run}'")
        self._snapshot = snapshot or await Snapshot.of(owner)
        self._fingerprint = await owner.fetchval(self._snapshot.fingerprint)
        async with (await self.connections()).acquire() as connection:
            self._at_login = await connection.fetchval(AT_LOGIN)
        return self._snapshot

    async def restore(self) -> bool:
        """Whether it is what it was again, so that another test can use it. What the test has opened is closed."""
        self._close_bridges()
        self._kept = [one for one in self._kept if not one.is_closed()]
        if self._pool and self._pool.get_idle_size() != self._pool.get_size():
            return False
        try:
            async with asyncio.timeout(restore_within_seconds):
                for one in self._kept:
                    await one.execute(RESET)
                    if one not in self._seen and await one.fetchval(AT_LOGIN) != self._at_login:
                        return False
                self._seen = set(self._kept)
                return await self._snapshot.restore(
                    await self._as_owner(), run=self.ground.run, database=self.name, fingerprint=self._fingerprint,
                    kept=[one.get_server_pid() for one in self._kept],
                )  # fmt: skip
        except (*DRIVER_ERRORS, DatabaseError):
            return False

    async def close(self) -> None:
        self._close_bridges()
        for one in [*self._kept, *filter(None, [self._owner])]:
            one.terminate()
        if self._pool:
            self._pool.terminate()

    def _close_bridges(self) -> None:
        """A thread that outlives its test must not write into the next one."""
        while self._bridges:
            self._bridges.pop().is_closed = True


class Bridge:
    """Passes queries to a database's connections, which live in the event loop of another thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_closed = False

    async def _pass(self, method: str, query: str, *arguments: Any) -> Any:
        return await self._database.ground.background.acall(self._ask(method, query, *arguments))

    fetch = partialmethod(_pass, "fetch")
    fetchrow = partialmethod(_pass, "fetchrow")
    execute = partialmethod(_pass, "execute")

    async def _ask(self, method: str, query: str, *arguments: Any) -> Any:
        async with (await self._database.connections()).acquire() as connection:
            if self.is_closed:  # opening a connection takes a while, and the test may have ended meanwhile
                raise DatabaseUnreachable(
                    "The test that opened it is over.", fix="End what a test starts before it ends."
                )
            return await getattr(connection, method)(query, *arguments)
