"""From nothing to a store: the database is there, its schema is up to date, its functions can be called."""

import contextlib
from collections.abc import AsyncIterator

from holdfast.kernel.migrate import migrate
from holdfast.kernel.postgres import locate, pooled
from holdfast.kernel.settings import Settings, read_settings
from holdfast.kernel.store import Store


@contextlib.asynccontextmanager
async def open_store(settings: Settings | None = None, *, connections: int = 10) -> AsyncIterator[Store]:
    """The store of these settings, by default of the environment's. An embedded server runs until the block ends.

    Raises a DatabaseError or a MigrationError.
    """
    with locate(settings or read_settings()) as address:
        await migrate(address.nearest(owner=True))
        async with pooled(address, connections=connections) as pool:
            yield Store(pool)
