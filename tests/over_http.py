"""Engines and workers that speak HTTP to a server and have no database. All else is as it is over SQL."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from fastapi import Request

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.http.access import Guard
from holdfast.remote.worker_backend import open_remote
from holdfast.settings import Settings
from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.http.serving import serving
from tests.worker.crew import Crew


class Trusting(Guard):
    """Lets every caller in as a worker: the engine has no key."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, loopback=True)

    async def ask(self, request: Request) -> Principal:
        return Principal("engine", frozenset({"worker", "user"}))


@contextlib.contextmanager
def speaking_http(engine: Engine) -> Iterator[Engine]:
    """The engine, with a server before its database."""
    with contextlib.ExitStack() as stack:
        settings = Settings(api=stack.enter_context(serving(engine.database, guard=Trusting)))
        opened = contextlib.AsyncExitStack()
        stack.callback(lambda: engine.call(opened.aclose()))
        engine.backend = engine.call(opened.enter_async_context(open_remote(settings)))
        yield engine


@contextlib.contextmanager
def staffing(database: Database, folder: Path, transport: str) -> Iterator[Crew]:
    """No worker yet, on this database; over HTTP with a server in front of it."""
    with contextlib.ExitStack() as stack:
        crew = Crew(database.url, folder)
        if transport == "http":
            crew.speak_http(stack.enter_context(serving(database, sweeps=True)), key_to(database))
        stack.callback(crew.close)
        yield crew


def key_to(database: Database) -> str:
    """A key for a worker whose tasks may start others."""

    async def make() -> str:
        async with database.store() as store:
            return (await store.keys.make("crew", ["worker", "user"])).secret

    return asyncio.run(make())
