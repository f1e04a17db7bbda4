"""The backend of a worker: SQL to a database, or HTTP to a server that has one. The settings decide which."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.opening import open_database
from holdfast.engine.store.commands import Store
from holdfast.engine.sweeper import sweep_on
from holdfast.engine.task import Json
from holdfast.errors import HoldfastError
from holdfast.lifecycles import declare_all
from holdfast.schedules.ticker import tick_on
from holdfast.settings import Settings
from holdfast.wakeups import Wakeups
from holdfast.wakeups.postgres import PostgresWakeups
from holdfast.wakeups.publishing import PendingWakeups, publishers
from holdfast.wakeups.sqs import open_queue_wakeups

report_schedules_seconds = 10.0


Records = Sequence[Mapping[str, Json]]
Declare = Callable[[Records, Mapping[str, Records], Sequence[str]], Awaitable[None]]
"""Write down what an application has of its own: lifecycles, what it offers, and queues."""
Chore = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class OpenBackend:
    """A backend that is open, how a worker is woken, and what else a worker with this backend does."""

    place: str
    """Where it is, for people."""
    backend: WorkerBackend
    declare: Declare
    wakeups: Callable[[str], Wakeups]
    chores: Callable[[Sequence[str]], Sequence[Chore]] = lambda schedules: ()
    """Over and over, beside the leases; given the schedules that the application declares."""


@contextlib.asynccontextmanager
async def open_backend(
    settings: Settings, *, connections: int, migrated: bool = False
) -> AsyncIterator[OpenBackend]:  # fmt: skip
    """The backend of these settings. Raises a DatabaseError or a MigrationError."""
    if settings.is_remote:
        from holdfast.remote.worker_backend import (  # imported only where HTTP is used
            RemoteWakeups,
            open_remote,
        )

        async with open_remote(settings) as remote:

            async def report_schedules(schedules: Sequence[str]) -> None:
                """Let the server, which starts them, know that these are declared here; until cancelled."""
                while True:
                    with contextlib.suppress(HoldfastError):
                        await remote.see(schedules)
                    await asyncio.sleep(report_schedules_seconds)

            yield OpenBackend(
                ", ".join(settings.servers),
                remote,
                remote.declare,
                lambda worker: open_queue_wakeups(settings, remote.which_wait) or RemoteWakeups(remote, worker),
                lambda schedules: [partial(report_schedules, schedules)] if schedules else [],
            )
        return
    async with open_database(settings, connections=connections, migrated=migrated) as opening:
        store, publish = opening.store, publishers(settings, opening.store)
        yield OpenBackend(
            opening.address.label,
            store,
            partial(declare_in, store),
            lambda worker: (
                open_queue_wakeups(settings, PendingWakeups.over(store).which_wait)
                or PostgresWakeups(opening.address, opening.pool, worker)
            ),
            # Like every process that has the database, the worker sweeps, ticks and publishes wake-ups.
            lambda schedules: (partial(sweep_on, store), partial(tick_on, store, schedules), *publish),
        )


async def declare_in(
    store: Store, lifecycles: Records, published: Mapping[str, Records], queues: Sequence[str]
) -> None:
    await declare_all(store, [Lifecycle.from_definition(one) for one in lifecycles], published)
    for queue in queues:
        await store.make_queue(queue)
