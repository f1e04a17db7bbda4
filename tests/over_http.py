"""An engine whose attempts speak HTTP to a server, as a worker without a database does. All else is as it was."""

import contextlib
from collections.abc import Iterator

from fastapi import Request

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.http.access import Guard
from holdfast.remote.worker_backend import open_remote
from holdfast.settings import Settings
from holdfast.testing.engine import Engine
from tests.http.serving import serving


class Trusting(Guard):
    """Takes whoever calls for a worker: a test may make keys, and this one has none."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, loopback=True)

    async def ask(self, request: Request) -> Principal:
        return Principal("spoken", frozenset({"worker", "user"}))


@contextlib.contextmanager
def speaking_http(engine: Engine) -> Iterator[Engine]:
    """The engine, with a server before its database."""
    with contextlib.ExitStack() as stack:
        settings = Settings.model_construct(api=stack.enter_context(serving(engine.database, guard=Trusting)))
        opened = contextlib.AsyncExitStack()
        stack.callback(lambda: engine.call(opened.aclose()))
        engine.backend = engine.call(opened.enter_async_context(open_remote(settings)))
        yield engine
