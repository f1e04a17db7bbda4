"""A real server on a port of its own, over a test's database, for whoever must speak real HTTP."""

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from holdfast.api import make_app
from holdfast.kernel.postgres import Address, pooled
from holdfast.lifecycles.ingest.embedders import Embedder
from holdfast.objects import Objects
from holdfast.objects.local import Folder
from holdfast.testing import Database


@contextlib.contextmanager
def serving(database: Database, objects: Objects | None = None, embedder: Embedder | None = None) -> Iterator[str]:
    """The address of a server that answers until the block ends; its files are in a folder, unless told where."""
    with tempfile.TemporaryDirectory() as own:
        yield from served(database, objects or Folder(Path(own)).open(), embedder)


def served(database: Database, objects: Objects, embedder: Embedder | None) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        async with pooled(Address(given=database.url), connections=5) as pool:
            app = make_app(pool, database="a test's own", objects=objects, embedder=embedder)
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
            servers.append(uvicorn.Server(config))
            started.set()
            await servers[0].serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        started.wait(30)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(30)
        listening.close()
