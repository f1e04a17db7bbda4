"""A store on a database that may be away: opened when it is back, and asked for a few seconds at a time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from holdfast.engine.store.commands import Store
from holdfast.errors import DatabaseError
from holdfast.postgres.connections import Address, open_pool

answer_within_seconds = 4.0


@contextlib.asynccontextmanager
async def patient_store(url: str) -> AsyncIterator[Store]:
    async with contextlib.AsyncExitStack() as stack:
        while True:
            try:
                pool = await stack.enter_async_context(open_pool(Address(given=url), connections=6))
                break
            except DatabaseError:
                await asyncio.sleep(0.1)
        yield Store(pool, answer_within_seconds=answer_within_seconds)
