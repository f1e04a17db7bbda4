"""Whoever asks over a link that falls silent: `python -m tests.crash.silent_client`, the other end in the environment.

Says `ready`; then for each line that it reads it asks once, and says how many seconds it took until it knew.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from holdfast.engine.store.commands import Store
from holdfast.errors import DatabaseError
from holdfast.postgres.connections import Address, open_pool
from holdfast.remote.worker_backend import open_remote
from holdfast.settings import Settings, read_settings

ME = "silent"
sleep_seconds = 20.0


async def by_database(settings: Settings) -> None:
    """Asks for work."""
    async with open_pool(Address(given=settings.url or ""), connections=1) as pool:
        store = Store(pool)
        await store.now()
        await answer(lambda: store.settle_and_claim([], ["default"], lasting=timedelta(seconds=4), worker=ME))


async def by_server(settings: Settings) -> None:
    """Asks to be woken."""
    async with open_remote(settings) as remote:
        await remote.hello(ME, label=ME, queues=["default"], names=None, slots=1)
        while await remote.sleep(ME, 1):
            """Who is new is woken, to look for itself."""
        await answer(lambda: remote.sleep(ME, sleep_seconds))


async def answer(ask: Callable[[], Awaitable[object]]) -> None:
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        began = time.monotonic()
        with contextlib.suppress(DatabaseError):
            await ask()
        say(f"{time.monotonic() - began:.2f}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    settings = read_settings()
    asyncio.run(by_server(settings) if settings.is_remote else by_database(settings))
