"""Workers over SQL and over HTTP: a promise counts only if both keep it.

`make test` runs those marked `over_http` over HTTP too, `make check` those marked `over_http("deep")`, `make crash`
all.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.testing import Database, Ground
from tests.over_http import staffing
from tests.tiers import both_transports
from tests.worker.crew import Crew


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both_transports(metafunc, unmarked="long", scope="module")


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
