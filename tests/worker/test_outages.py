"""The database goes and comes back: what runs ends, what ended is settled, and nobody is blamed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from holdfast.engine.store.commands import Store
from holdfast.postgres.connections import Address, open_pool
from holdfast.postgres.embedded import Embedded, read_postmaster
from holdfast.postgres.migrate import migrate
from holdfast.testing import Database
from tests.worker import app
from tests.worker.crew import Crew


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[tuple[Embedded, Crew]]:
    """A server of their own that keeps what it has promised, and may be brought down."""
    with Embedded(tmp_path / ".holdfast") as server:
        await migrate(server.owner_url(by_socket=True))
        url = server.url(by_socket=True)
        with contextlib.closing(Crew(url, tmp_path)) as crew:
            async with open_pool(Address(given=url)) as pool:
                crew.store = Store(pool)
                yield server, crew


def disconnect(database: Database) -> int:
    """End every session of the application; how many."""
    return int(
        database.ask_owner(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1"
            " and usename = 'holdfast_app' and pid <> pg_backend_pid()",
            database.name,
        )
    )


@pytest.mark.deep
async def test_lost_connections_cost_nothing(live: Database, crew: Crew) -> None:
    crew.start(lease_seconds=10.0, slots=10)
    tasks = await crew.submit(
        *(app.note_slowly.submission(f"slow-{n}") for n in range(60)), *(app.add.submission(n, 1) for n in range(200))
    )
    broken = 0
    while len(await crew.store.outcomes(tasks)) < len(tasks):
        broken += disconnect(live)
        await asyncio.sleep(0.1)
    assert broken > 10, "vacuous"
    ends = await crew.ended(tasks)
    assert {end.outcome for end in ends} == {"done"}
    for task in tasks:
        read = await crew.read(task)
        assert (read["crashes"], read["failures"]) == (0, 0)
        assert (await crew.verbs(task)).count("done") == 1
    assert all(len(crew.notes(f"slow-{n}")) == 1 for n in range(60))


@pytest.mark.deep
async def test_a_server_that_restarts_costs_nothing(apart: tuple[Embedded, Crew]) -> None:
    server, crew = apart
    crew.start(lease_seconds=20.0)
    tasks = await crew.submit(
        app.hold.submission("go", "held"), app.outlasts.submission("done_meanwhile"),
        *(app.note_slowly.submission(f"slow-{n}") for n in range(20)),
    )  # fmt: skip
    await crew.noted("held")
    await crew.noted("done_meanwhile")
    postmaster = read_postmaster(server.home)
    assert postmaster
    psutil.Process(postmaster.pid).kill()
    crew.open("go")

    ends = await crew.ended(tasks)
    assert {end.outcome for end in ends} == {"done"}
    for end in ends:
        read = await crew.read(end.task_id)
        assert (read["attempt"], read["crashes"], read["failures"]) == (1, 0, 0)
    assert len(crew.notes("held")) == 1
