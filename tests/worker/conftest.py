"""A database whose clock runs, and workers that live on it."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database, Ground
from tests.worker.crew import Crew

REAL_CLOCK = (
    "create or replace function holdfast.now() returns timestamptz language sql stable parallel safe"
    " as 'select pg_catalog.now()'"
)


@contextlib.contextmanager
def running_clock(ground: Ground) -> Iterator[Database]:
    with ground.database() as database:
        database.ask_owner(REAL_CLOCK)
        yield database


@pytest.fixture
def live(ground: Ground) -> Iterator[Database]:
    """A database on which time passes."""
    with running_clock(ground) as database:
        yield database


@pytest.fixture
async def crew(live: Database, tmp_path: Path) -> AsyncIterator[Crew]:
    """Nobody yet, on a database of their own."""
    with contextlib.closing(Crew(live.url, tmp_path)) as crew:
        async with live.store() as crew.store:
            yield crew
            assert await crew.store.verify() == []


@pytest.fixture(scope="module")
def office(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Crew]]:
    """One worker for all tests of a file that do it no harm."""
    folder = tmp_path_factory.mktemp("office")
    with running_clock(ground) as database, contextlib.closing(Crew(database.url, folder)) as crew:
        crew.start()
        yield database, crew


@pytest.fixture
async def staff(office: tuple[Database, Crew]) -> AsyncIterator[Crew]:
    """That worker, at work."""
    database, crew = office
    async with database.store() as crew.store:
        yield crew
        assert await crew.store.verify() == []
