"""A real server on a port of its own, over a test's database, for whoever must speak real HTTP."""

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import uvicorn

from holdfast.api import close_app, make_app
from holdfast.engine.store.commands import Store
from holdfast.engine.sweeper import sweep_on
from holdfast.http.access import Guard
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.objects import Objects
from holdfast.objects.local import Folder
from holdfast.postgres.connections import Address, open_pool
from holdfast.testing import Database


@contextlib.contextmanager
def serving(
    database: Database,
    objects: Objects | None = None,
    embedder: Embedder | None = None,
    *,
    sweeps: bool = False,
    guard: Callable[[Store], Guard] | None = None,
) -> Iterator[str]:
    """The address of a server that answers until the block ends; its files are in a folder, unless told where.

    It sweeps only if it is told to: workers that have no database do not. It asks for keys unless another guard does.
    """
    with tempfile.TemporaryDirectory() as own:
        yield from served(database, objects or Folder(Path(own)).open(), embedder, sweeps, guard)


def served(
    database: Database,
    objects: Objects,
    embedder: Embedder | None,
    sweeps: bool,
    guard: Callable[[Store], Guard] | None,
) -> Iterator[str]:
    address = Address(given=database.url)
    listening = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()
    stops: list[Callable[[], object]] = []

    async def serve() -> None:
        async with open_pool(address, connections=5) as pool:
            app = make_app(pool, database="a test's own", objects=objects, embedder=embedder, address=address)
            if guard:
                app.state.guard = guard(Store(pool))
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
            server, loop = uvicorn.Server(config), asyncio.get_running_loop()
            sweeping = asyncio.create_task(sweep_on(Store(pool))) if sweeps else None

            def stop() -> None:
                close_app(app)
                server.should_exit = True

            stops.append(partial(loop.call_soon_threadsafe, stop))
            started.set()
            await server.serve(sockets=[listening])
            if sweeping:
                sweeping.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert started.wait(60), "the server did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for stop in stops:
            stop()
        thread.join(60)
        listening.close()
    assert not thread.is_alive(), "the server did not stop"
