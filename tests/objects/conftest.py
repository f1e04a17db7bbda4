"""A folder of a test's own behind a real server, and a client without a key."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from holdfast.objects.local import Folder
from holdfast.testing import Database, Ground
from tests.http.apps import Changing
from tests.http.serving import serving
from tests.sharing import free_ports


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "objects").open()


@pytest.fixture
def server(database: Database, folder: Folder) -> Iterator[str]:
    """The address of a server on that folder."""
    with serving(database, folder) as url:
        yield url


@pytest.fixture(scope="module")
def behind(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Changing]]:
    """A server, and what it has its files in: another place for each test. Time passes there, as S3 asks for."""
    objects = Changing()
    objects.now = Folder(tmp_path_factory.mktemp("behind")).open()
    with ground.live_database() as database, serving(database, objects) as address:
        yield address, objects


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=30) as http:
        yield http


@pytest.fixture
def unused_port() -> int:
    return free_ports(1)[0]
