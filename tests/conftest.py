"""The test ground: one Postgres server for the run, a database of its own for each test."""

import asyncio
import contextlib
import gc
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest
from httpx2._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings

from holdfast.engine.store.commands import Store
from holdfast.postgres.embedded import binary_folders, major_version, read_postmaster
from holdfast.testing import Clock, Database, Ground
from tests.costs import Costs
from tests.hangs import Hangs
from tests.objects import servers
from tests.sharing import shared
from tests.tiers import Tiers
from tests.wakeups import amazon
from tests.worker.crew import Crew

POSTGRES_VERSIONS = (15, 16, 18)
MEMORY = Path("/dev/shm")  # noqa: S108
gigabytes_wanted = 6
answer_within_seconds = 60.0


gc.disable()


def pytest_collection_finish() -> None:
    """Thousands of tests are collected and stay until the end: the collector need not look at them again and again."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is made.

    Thousands of databases are made and dropped: in memory, if there is room, five times as fast as on a disk. And a
    machine that stands still for a moment is no reason to fail: httpx2 waits 5 s for an answer by default.
    """
    if "TMPDIR" not in os.environ and memory_is_large_enough():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    # Hypothesis tries other cases only in the long runs; those of the other tiers are the same each time.
    settings.register_profile("each run is the same", derandomize=config.option.markexpr != "long", database=None)
    settings.load_profile("each run is the same")
    config.pluginmanager.register(Tiers(config))
    config.pluginmanager.register(Hangs(config))
    config.pluginmanager.register(Costs(config), "costs")
    for phase in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, phase, answer_within_seconds)


def memory_is_large_enough() -> bool:
    try:
        memory = os.statvfs(MEMORY)
    except OSError:
        return False
    free = min(memory.f_bavail * memory.f_frsize, psutil.virtual_memory().available)
    return free > gigabytes_wanted * 1024**3 and not memory.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)


def pytest_xdist_auto_num_workers() -> int:
    """Two per core: tests wait about half of their time. On 2 cores 3 took 199 s, 4 took 174 s, 5 took 168 s."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * min(cores, 4)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all processes of this run; HOLDFAST_TEST_FOLDER, if several runs are to share a server."""
    if given := os.environ.get("HOLDFAST_TEST_FOLDER"):
        return Path(given)
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture(scope="session")
def ground_of(run_folder: Path, pytestconfig: pytest.Config) -> Iterator[Callable[[int], Ground]]:
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
                if running := read_postmaster(grounds[version].server.home):
                    pytestconfig.pluginmanager.getplugin("costs").postmasters.append(running.pid)
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
    pytest.param(15, id="postgres15", marks=pytest.mark.deep),
    pytest.param(16, id="postgres16", marks=pytest.mark.long),
    pytest.param(18, id="postgres18"),
]


@pytest.fixture(params=EACH_POSTGRES)
def every_ground(request: pytest.FixtureRequest, ground_of: Callable[[int], Ground]) -> Ground:
    """The test runs once on each Postgres we promise: the newest first, the oldest in the deep tier."""
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
    with ground.live_database() as database:
        yield database


@pytest.fixture
def transport() -> str:
    """What workers speak: `sql` or `http`. Tests marked `over_http` are run with both."""
    return "sql"


@pytest.fixture
async def crew(live: Database, tmp_path: Path, transport: str) -> AsyncIterator[Crew]:
    """No worker yet, on a database of their own."""
    from tests.over_http import staffing  # the server is imported only by tests that use it

    with contextlib.ExitStack() as stack:
        crew = await asyncio.to_thread(stack.enter_context, staffing(live, tmp_path, transport))
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
