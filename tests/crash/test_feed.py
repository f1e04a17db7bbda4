"""The live feed over a crash of Postgres: who follows goes on, and nothing is taken for seen that was not."""

import asyncio
import contextlib
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.lifecycles import declare_all
from holdfast.postgres.connections import Address, open_connection, open_pool
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.migrate import migrate
from tests.crash.holders import processes_of, watchdog_of
from tests.eventually import eventually_sync
from tests.promises.stage import submit

# So that what a crash can lose is lost: a rollback is written to disk by the next commit, or by this process.
LAZY = {"wal_writer_delay": "10s"}


async def roll_back(pool: asyncpg.Pool) -> str:
    """A task that was never submitted; the number of its transaction."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await submit(Store(connection), "undone")
        number = str(await connection.fetchval("select pg_current_xact_id()::text"))
        await transaction.rollback()
        return number


def kill_postgres(home: Path) -> None:
    """All of it at once: a server process that outlives the others for a moment may still commit."""
    watchdog = watchdog_of(home)
    for process in processes_of(home):
        if process != watchdog:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.deep
@pytest.mark.timeout(120)
async def test_a_follower_goes_on_after_a_crash_that_gives_numbers_out_again(home: Path) -> None:
    with Embedded(home, settings=LAZY) as server:
        await migrate(server.owner_url(by_socket=True))
        async with open_pool(Address(embedded=server)) as pool:
            store = Store(pool)
            await declare_all(store)
            await submit(store)
            async with contextlib.aclosing(Feed(store).looks()) as looks:
                begin = (await anext(looks)).cursor
                undone = [await roll_back(pool) for _ in range(20)][-1]
                seen = (await store.feed(begin)).cursor
                kill_postgres(home)
                await asyncio.to_thread(eventually_sync, server.is_ready)
                task = await submit(store, key="after the crash")
                while not (look := await anext(looks)).moves:
                    pass
            assert [move.task_id for move in look.moves] == [task]
            assert [move.task_id for move in (await store.feed(seen)).moves] == [task]
        async with open_connection(server.owner_url(by_socket=True)) as owner:
            number = await owner.fetchval("select xid::text from holdfast.event where task_id = $1", task)
            assert int(number) <= int(undone)  # or nothing was given out again
