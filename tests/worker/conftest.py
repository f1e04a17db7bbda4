"""A worker that many tests share."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.testing import Database, Ground
from tests.worker.crew import Crew
from tests.worker.living import running_clock


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
