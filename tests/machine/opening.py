"""A database to play histories in, one after the other."""

import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvloop

from holdfast.engine.store.commands import Store
from holdfast.postgres.connections import connect
from holdfast.testing import Ground
from tests.machine.seen import Window

Opened = tuple[Window, Store, Callable[..., Any], Counter[str]]


@contextlib.contextmanager
def opened(ground: Ground, tally: Counter[str]) -> Iterator[Opened]:
    """What a stage needs; each clears away what the last one left. One connection for all callers: no call waits for
    another, and nothing but the choices decides what happens.
    """
    loop = uvloop.new_event_loop()

    def call(verb: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> Any:
        return loop.run_until_complete(verb(*given))  # half a millisecond less than a call into another thread

    with ground.database() as database, contextlib.closing(loop):
        application, owner = (
            call(lambda url: connect(url, prepared=True), url) for url in (database.url, database.owner_url)
        )
        try:
            yield Window(owner, call), Store(application), call, tally
        finally:
            call(application.close)
            call(owner.close)
