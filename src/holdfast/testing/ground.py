"""One server per test run, one template database, one clone of it per test.

All processes of a run open the same folder and so share one embedded server. Whoever comes first makes the template:
migrated, with the lifecycles declared and the moved clock in place of the real one. A clone of it costs some 15 ms
(`python -m bench clone`).
The server trades durability for speed; a crash of the machine loses the run, and nothing else.
"""

import contextlib
import fcntl
import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from holdfast.kernel.embedded import Embedded
from holdfast.kernel.migrate import ROOMS, Room, digest, migrate
from holdfast.kernel.postgres import Address, connected, pooled
from holdfast.kernel.store import Store
from holdfast.lifecycles import LIFECYCLES, declare_all
from holdfast.lifecycles.analysis.tools import PROFILE_MY_DATA
from holdfast.testing.clock import CLOCK_SQL, Clock

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "10min",
    "max_connections": "300",
}


class Ground:
    """The server of a test run. Open it as a context; any number of processes may open the same folder."""

    def __init__(
        self,
        folder: Path,
        *,
        bindir: Path | None = None,
        rooms: Sequence[Room] = ROOMS,
    ) -> None:
        self.server = Embedded(folder, bindir=bindir, settings=FAST)
        self.rooms = rooms
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Ground":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.server)
            self.portal: BlockingPortal = stack.enter_context(start_blocking_portal())
            self._keeper = stack.enter_context(self.portal.wrap_async_context_manager(self._connected("postgres")))
            self._template = self._make_template()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def database(self) -> Iterator["Database"]:
        """A database of its own, gone at the end."""
        with self.empty_database(like=self._template) as database:
            yield database

    @contextlib.contextmanager
    def empty_database(self, like: str = "template0") -> Iterator["Database"]:
        """A database with nothing in it, not even our schema; or a copy of another one."""
        name = f"test_{uuid4().hex}"
        self._run(f"create database {name} template {like} strategy file_copy")
        database = Database(self, name)
        try:
            yield database
        finally:
            database.close()
            self._run(f"drop database {name} with (force)")

    def _run(self, statement: str) -> None:
        self.portal.call(self._keeper.execute, statement)

    def _make_template(self) -> str:
        """The template's name. It is made by one process while the others wait at the flock."""
        mark = hashlib.sha256(
            "".join(
                [
                    digest(self.rooms),
                    CLOCK_SQL,
                    *(step.sha256 for room in self.rooms for step in room.migrations),
                    *(json.dumps(lifecycle.definition()) for lifecycle in LIFECYCLES),
                    json.dumps(PROFILE_MY_DATA.published()),
                ]
            ).encode()
        ).hexdigest()
        name = f"template_{mark[:16]}"
        with (self.server.home / "template.lock").open("w") as flock:
            fcntl.flock(flock, fcntl.LOCK_EX)
            if not self.portal.call(self._keeper.fetchval, "select 1 from pg_database where datname = $1", name):
                self._run(f"drop database if exists {name}_new")
                self._run(f"create database {name}_new template template0")
                self.portal.call(self._fill_template, f"{name}_new")
                self._run(f"alter database {name}_new rename to {name}")
        return name

    async def _fill_template(self, name: str) -> None:
        await migrate(self.server.owner_url(name, by_socket=True), self.rooms)
        async with self._connected(name) as connection:
            await connection.execute(CLOCK_SQL)
            await declare_all(Store(connection))

    @contextlib.asynccontextmanager
    async def _connected(self, name: str) -> AsyncIterator[asyncpg.Connection]:
        async with connected(self.server.owner_url(name, by_socket=True)) as connection:
            yield connection


class Database:
    """A test's own database: addresses for the application and the owner, and the clock."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.ground = ground
        self.name = name
        self.url = ground.server.url(database=name, by_socket=True)
        self.owner_url = ground.server.owner_url(name, by_socket=True)
        self.clock = Clock(self)
        self._stack = contextlib.ExitStack()
        self._owner: asyncpg.Connection | None = None

    def connect(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        """A connection as the application."""
        return connected(self.url)

    def connect_owner(self) -> contextlib.AbstractAsyncContextManager[asyncpg.Connection]:
        """A connection as the owner of the schema."""
        return connected(self.owner_url)

    @contextlib.asynccontextmanager
    async def store(self, *, connections: int = 10) -> AsyncIterator[Store]:
        """The kernel, as the application reaches it."""
        async with pooled(Address(given=self.url), connections=connections) as pool:
            yield Store(pool)

    def ask_owner(self, query: str, *arguments: object) -> Any:
        """One value, asked as the owner from synchronous code."""
        portal = self.ground.portal
        if self._owner is None:
            self._owner = self._stack.enter_context(portal.wrap_async_context_manager(self.connect_owner()))
        return portal.call(self._owner.fetchval, query, *arguments)

    def close(self) -> None:
        self._stack.close()
