"""Workers over SQL and over HTTP: a promise is kept by both, or it is none.

`make test` keeps some of them over HTTP too, `make check` their core, `make crash` all.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database, Ground
from tests.http.serving import serving
from tests.worker.crew import Crew

CORE = {
    "test_results_come_back",
    "test_a_task_may_start_others_and_run_programs",
    "test_a_result_that_cannot_be_kept_fails_alone",
    "test_outcomes_lead_where_the_lifecycle_says",
    "test_cancelling_raises_in_the_handler",
    "test_progress_is_seen_while_it_runs",
}
DEEP_CORE = {
    "test_what_a_runner_claimed_as_it_died_is_run_at_once",
    "test_a_worker_that_leaves_gives_back_what_a_runner_claimed_as_it_died",
    "test_a_lease_that_is_lost_stops_its_task_and_no_other",
    "test_what_a_killed_runner_ran_is_run_again_at_once",
    "test_what_is_done_is_not_done_again_after_a_crash",
    "test_short_tasks_end_and_long_ones_go_back",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "transport" in metafunc.fixturenames:
        name = metafunc.definition.originalname
        tier = () if name in CORE else (pytest.mark.deep,) if name in DEEP_CORE else (pytest.mark.long,)
        metafunc.parametrize("transport", ["sql", pytest.param("http", marks=tier)], scope="module")


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
