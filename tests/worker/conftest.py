"""Workers over SQL and over HTTP: a promise is kept by both, or it is none.

`make test` runs those marked `over_http` over HTTP too, `make check` those marked `over_http("deep")`, `make crash`
all.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database, Ground
from tests.http.serving import serving
from tests.tiers import both_transports
from tests.worker.crew import Crew


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both_transports(metafunc, unmarked="long", scope="module")


@contextlib.contextmanager
def staffing(database: Database, folder: Path, transport: str) -> Iterator[Crew]:
    """Nobody yet, on this database; over HTTP with a server in front of it."""
    with contextlib.ExitStack() as stack:
        crew = Crew(database.url, folder)
        if transport == "http":
            crew.speak_http(stack.enter_context(serving(database, sweeps=True)), key_to(database))
        stack.callback(crew.close)
        yield crew


def key_to(database: Database) -> str:
    """A key for a worker whose tasks may start others."""

    async def make() -> str:
        async with database.store() as store:
            return (await store.keys.make("crew", ["worker", "user"])).secret

    return asyncio.run(make())


@pytest.fixture
async def crew(live: Database, tmp_path: Path, transport: str) -> AsyncIterator[Crew]:
    """Nobody yet, on a database of their own."""
    with contextlib.ExitStack() as stack:
        crew = await asyncio.to_thread(stack.enter_context, staffing(live, tmp_path, transport))
        async with live.store() as crew.store:
            yield crew
            assert await crew.store.verify() == []


@pytest.fixture(scope="module")
def office(ground: Ground, tmp_path_factory: pytest.TempPathFactory, transport: str) -> Iterator[tuple[Database, Crew]]:
    """One worker for all tests of a file that do it no harm."""
    folder = tmp_path_factory.mktemp("office")
    with ground.live_database() as database, staffing(database, folder, transport) as crew:
        crew.start()
        yield database, crew


@pytest.fixture
async def staff(office: tuple[Database, Crew]) -> AsyncIterator[Crew]:
    """That worker, at work."""
    database, crew = office
    async with database.store() as crew.store:
        yield crew
        assert await crew.store.verify() == []
