"""What a worker was told is settled stays settled, whatever happens to the server in the next moment."""

from functools import partial
from pathlib import Path
from uuid import UUID

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Ended
from holdfast.lifecycles import declare_all
from holdfast.postgres.connections import open_connection
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.migrate import migrate
from tests.crash.holders import postmaster_of
from tests.eventually import eventually
from tests.promises.stage import submit, take

KILLS = 5


async def ends_of(server: Embedded, task: UUID) -> list[Ended | None]:
    """Asked anew each time: a backend may outlive its server for a moment, and answer."""
    async with open_connection(server.url()) as connection:
        return [(await Store(connection).outcomes([task])).get(task)]


async def test_a_settle_that_was_answered_outlives_the_server(home: Path) -> None:
    with Embedded(home) as server:
        await migrate(server.owner_url())
        for _ in range(KILLS):
            async with open_connection(server.url()) as connection:
                store = Store(connection)
                await declare_all(store)
                task = await submit(store)
                (lease,) = await take(store)
                postmaster = postmaster_of(home)
                assert [one.status for one in await store.settle((lease, Done("kept")))] == ["ok"]
                postmaster.kill()
            postmaster.wait(60)
            (end,) = await eventually(partial(ends_of, server, task), "the server's return")
            assert end, "it was settled, and is not"
