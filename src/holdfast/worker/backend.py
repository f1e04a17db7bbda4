"""The line over which a worker speaks: SQL to a database, or HTTP to a server that has one. The settings say which."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.opening import Opening, open_database
from holdfast.engine.store.commands import Store
from holdfast.engine.sweeper import sweep_on
from holdfast.engine.task import Json
from holdfast.errors import HoldfastError
from holdfast.lifecycles import declare_all
from holdfast.schedules.ticker import tick_on
from holdfast.settings import Settings
from holdfast.wakeups import Wakeups
from holdfast.wakeups.opening import hear_queue, open_wakeups, publishing

if TYPE_CHECKING:
    from holdfast.remote.worker_backend import RemoteWorker

see_every_seconds = 10.0


class Declare(Protocol):
    """Write down what an application has of its own: lifecycles, what it offers, and queues."""

    async def __call__(
        self,
        lifecycles: Sequence[Mapping[str, Json]],
        published: Mapping[str, Sequence[Mapping[str, Json]]],
        queues: Sequence[str],
    ) -> None: ...


Chores = Callable[[Sequence[str]], Sequence[Callable[[], Coroutine[Any, Any, None]]]]


@dataclass(frozen=True)
class Line:
    """An open line: what can be said on it, how a worker is woken, and what else whoever has it does."""

    place: str
    """Where it leads, in words."""
    words: WorkerBackend
    declare: Declare
    wakeups: Callable[[str], Wakeups]
    chores: Chores = lambda schedules: ()
    """Over and over, beside the leases; told which schedules the application declares."""


@contextlib.asynccontextmanager
async def open_line(settings: Settings, *, connections: int, migrated: bool = False) -> AsyncIterator[Line]:
    """The line of these settings. Raises a DatabaseError or a MigrationError."""
    if settings.is_remote:
        from holdfast.remote.worker_backend import (  # only who speaks HTTP pays for what it imports
            RemoteWakeups,
            open_remote,
        )

        async with open_remote(settings) as remote:

            def listen(worker: str) -> Wakeups:
                return hear_queue(settings, remote.which_wait) or RemoteWakeups(remote, worker)

            def chores(schedules: Sequence[str]) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
                return [lambda: see_on(remote, schedules)] if schedules else []

            yield Line(", ".join(settings.servers), remote, remote.declare, listen, chores)
        return
    async with open_database(settings, connections=connections, migrated=migrated) as opening:
        yield by_database(settings, opening)


async def see_on(remote: "RemoteWorker", schedules: Sequence[str]) -> None:
    """Let the server, which starts them, know that these are declared here; until cancelled."""
    while True:
        with contextlib.suppress(HoldfastError):
            await remote.see(schedules)
        await asyncio.sleep(see_every_seconds)


def by_database(settings: Settings, opening: Opening) -> Line:
    """With the database at hand. Like every process that has it, the worker sweeps, ticks and publishes wake-ups."""
    store, publish = opening.store, publishing(settings, opening.store)

    def chores(schedules: Sequence[str]) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return lambda: sweep_on(store), lambda: tick_on(store, schedules), *publish

    return Line(
        opening.address.label,
        store,
        partial(declare_in, store),
        lambda worker: open_wakeups(settings, opening, worker),
        chores,
    )


async def declare_in(
    store: Store,
    lifecycles: Sequence[Mapping[str, Json]],
    published: Mapping[str, Sequence[Mapping[str, Json]]],
    queues: Sequence[str],
) -> None:
    await declare_all(store, [Lifecycle.from_definition(one) for one in lifecycles], published)
    for queue in queues:
        await store.make_queue(queue)
