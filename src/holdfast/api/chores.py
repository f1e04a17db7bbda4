"""What every process that serves does beside it, over and over. None of it has a leader to lose."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.approvals.store import Questions
from holdfast.backoff import jitter
from holdfast.datasets.store import Datasets
from holdfast.engine.store.commands import Store
from holdfast.engine.sweeper import sweep_on
from holdfast.objects import Objects
from holdfast.objects.cleaner import Cleanups, clean, clean_every
from holdfast.remote.fetch.guard import Guard
from holdfast.schedules.ticker import tick_on
from holdfast.settings import Settings
from holdfast.wakeups.publishing import publishers
from holdfast.webhooks.delivering import Deliverer
from holdfast.webhooks.store import Webhooks

log = logging.getLogger("holdfast.chores")

forget_every = timedelta(minutes=10)


@contextlib.asynccontextmanager
async def chores(store: Store, objects: Objects, settings: Settings) -> AsyncIterator[None]:
    """Done beside the block, and cancelled at its end. Raises SettingInvalid before any of it has begun."""
    publish = publishers(settings, store)
    work: list[Coroutine[Any, Any, None]] = [
        sweep_on(store),
        tick_on(store),
        repeat(partial(clean, Cleanups.over(store), objects), clean_every, "cleaning"),
        Deliverer(Webhooks.over(store), Guard(settings.fetch_networks)).run(),
        *(repeat(one.over(store).forget, forget_every, "forgetting") for one in (Datasets, Questions, Webhooks)),
        *(chore() for chore in publish),
    ]
    beside = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for one in beside:
            one.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def repeat(chore: Callable[[], Awaitable[int]], every: timedelta, name: str) -> None:
    """Do this until cancelled, at once again where there may be more. Nothing else stops it: a database may be away."""
    while True:
        more = False
        try:
            more = await chore() > 0
        except Exception as error:
            log.warning(f"{name} failed", extra={"error": str(error)})
        await asyncio.sleep(0 if more else jitter(every.total_seconds()))
