"""From nothing to a store: the database is there, its schema is up to date, its functions can be called."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg

from holdfast.engine.store.commands import Store
from holdfast.postgres.connections import Address, locate, open_connection, open_pool
from holdfast.postgres.migrate import migrate
from holdfast.settings import Settings, read_settings


@dataclass(frozen=True)
class Opening:
    """An open database: where it is, the connections to it, and what can be asked there."""

    address: Address
    pool: asyncpg.Pool
    store: Store


async def bring_up_to_date(address: Address) -> list[str]:
    """The schema, and what was applied to it. Raises a MigrationError.

    Partitions are made before the first task: who is at work plans again after each of them, and a day whose first
    tasks found none gets none any more.
    """
    url = address.nearest(owner=True)
    applied = await migrate(url)
    if applied:
        async with open_connection(url) as connection:
            await Store(connection).make_partitions()
    return applied


@contextlib.asynccontextmanager
async def open_database(
    settings: Settings | None = None, *, connections: int = 10, migrated: bool = False
) -> AsyncIterator[Opening]:
    """The database of these settings, by default of the environment's, brought up to date unless it is known to be.

    An embedded server runs until the block ends. Raises a DatabaseError or a MigrationError.
    """
    with locate(settings or read_settings()) as address:
        if not migrated:
            await bring_up_to_date(address)
        async with open_pool(address, connections=connections) as pool:
            yield Opening(address, pool, Store(pool))


@contextlib.asynccontextmanager
async def open_store(settings: Settings | None = None, *, connections: int = 10) -> AsyncIterator[Store]:
    """The store alone."""
    async with open_database(settings, connections=connections) as opening:
        yield opening.store
