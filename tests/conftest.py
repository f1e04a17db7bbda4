"""The test ground: one Postgres server for the run, a database of its own for each test."""

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG

from holdfast.kernel.embedded import binary_folders, major_version
from holdfast.kernel.store import Store
from holdfast.testing import Clock, Database, Ground
from tests.doors import amazon
from tests.objects import servers
from tests.sharing import shared
from tests.worker.crew import Crew
from tests.worker.living import running_clock

POSTGRES_VERSIONS = (15, 16, 18)
TRIED_FIRST = (15, 18)
MEMORY = Path("/dev/shm")  # noqa: S108
gigabytes_wanted = 6
answer_within_seconds = 60.0


def pytest_configure() -> None:
    """Before anything is made.

    Thousands of databases are made and dropped: in memory, if there is room, five times as fast as on a disk. And a
    machine that stands still for a moment is no reason to fail: httpx waits 5 s for an answer unless it is told.
    """
    if "TMPDIR" not in os.environ and memory_has_room():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    for phase in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, phase, answer_within_seconds)


def memory_has_room() -> bool:
    try:
        memory = os.statvfs(MEMORY)
    except OSError:
        return False
    free = min(memory.f_bavail * memory.f_frsize, psutil.virtual_memory().available)
    return free > gigabytes_wanted * 1024**3 and not memory.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait for processes and for Postgres more than they compute: two on each core, and one more."""
    return 2 * min(os.cpu_count() or 1, 4) + 1


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all processes of this run; HOLDFAST_TEST_FOLDER, if several runs are to share a server."""
    if given := os.environ.get("HOLDFAST_TEST_FOLDER"):
        return Path(given)
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture(scope="session")
def ground_of(run_folder: Path) -> Iterator[Callable[[int], Ground]]:
    """The server of a given Postgres version, started when first asked for."""
    bindirs = {major_version(folder): folder for folder in binary_folders()}
    grounds: dict[int, Ground] = {}
    with contextlib.ExitStack() as stack:

        def ground(version: int) -> Ground:
            if version not in bindirs:
                pytest.skip(f"Postgres {version} is not installed here")
            if version not in grounds:
                folder = run_folder / f"ground-{version}"
                grounds[version] = stack.enter_context(Ground(folder, bindir=bindirs[version]))
            return grounds[version]

        yield ground


@pytest.fixture(scope="session")
def ground(ground_of: Callable[[int], Ground]) -> Ground:
    return ground_of(max(POSTGRES_VERSIONS))


@pytest.fixture(scope="session")
def holdfast_ground(ground: Ground) -> Ground:
    """The plugin's tests share the server of all the others."""
    return ground


EACH_POSTGRES = [
    pytest.param(one, id=f"postgres{one}", marks=[pytest.mark.long] * (one not in TRIED_FIRST))
    for one in POSTGRES_VERSIONS
]


@pytest.fixture(params=EACH_POSTGRES)
def every_ground(request: pytest.FixtureRequest, ground_of: Callable[[int], Ground]) -> Ground:
    """The test runs once on each Postgres we promise; `make test` tries the oldest and the newest."""
    return ground_of(request.param)


@pytest.fixture
def database(ground: Ground) -> Iterator[Database]:
    """A database with the schema in place and the clock standing still."""
    with ground.database() as database:
        yield database


@pytest.fixture
def empty_database(ground: Ground) -> Iterator[Database]:
    """A database with nothing in it yet."""
    with ground.empty_database() as database:
        yield database


@pytest.fixture
def clock(database: Database) -> Clock:
    return database.clock


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    """The kernel on that database, as the application's role."""
    async with database.store() as store:
        yield store


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


@pytest.fixture(scope="session")
def seaweed(run_folder: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to a real S3."""
    with shared(run_folder / "seaweed", servers.start_seaweed) as variables:
        yield variables


@pytest.fixture(scope="session")
def azurite(run_folder: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to what speaks like Azure."""
    with shared(run_folder / "azurite", servers.start_azurite) as variables:
        yield variables


@pytest.fixture(scope="session")
def moto(run_folder: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to what speaks like Amazon."""
    with shared(run_folder / "moto", amazon.start_moto) as variables:
        yield variables


@pytest.fixture
async def line(moto: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[amazon.Line]:
    """A queue of SQS, and a line to it that can be cut."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in amazon.KEYS.items():
        monkeypatch.setenv(name, value)
    async with amazon.line_to(moto["AWS_ENDPOINT_URL"]) as line:
        yield line
