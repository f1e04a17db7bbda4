"""The applications over SQL and over HTTP, where their handlers have a server and no database.

`make test` keeps the core of them over HTTP too, `make crash` also those that kill workers. With
HOLDFAST_TEST_TRANSPORT=http all of them speak HTTP.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.http.serving import serving
from tests.over_http import Trusting, speaking_http
from tests.worker.crew import Crew

ALWAYS = os.environ.get("HOLDFAST_TEST_TRANSPORT", "sql")
CORE = {
    "test_a_task_goes_from_upload_to_download",
    "test_a_batch_is_submitted_polled_and_merged",
    "test_a_cancelled_batch_leaves_nothing_running",
    "test_a_document_goes_through_every_step_and_is_found",
    "test_what_a_stage_spends_is_counted_once_and_progress_is_that_of_the_job",
}
KILLS = {
    "test_another_worker_goes_on_at_the_agent_that_was_running",
    "test_another_worker_goes_on_and_begins_nothing_twice",
    "test_another_worker_goes_on_at_the_stage_that_was_running",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.definition.originalname
    if "transport" in metafunc.fixturenames and name in CORE | KILLS:
        later = (pytest.mark.long,) if name in KILLS else ()
        metafunc.parametrize("transport", ["sql", pytest.param("http", marks=later)])


@pytest.fixture
def transport() -> str:
    return ALWAYS


@pytest.fixture
def holdfast(holdfast: Engine, transport: str) -> Iterator[Engine]:
    with speaking_http(holdfast) if transport == "http" else contextlib.nullcontext():
        yield holdfast


@pytest.fixture
async def crew(live: Database, tmp_path: Path, transport: str) -> AsyncIterator[Crew]:
    """Nobody yet, on a database of their own."""
    with contextlib.ExitStack() as stack:
        crew = stack.enter_context(contextlib.closing(Crew(live.url, tmp_path)))
        if transport == "http":
            served = serving(live, sweeps=True, guard=Trusting)
            crew.speak_http(await asyncio.to_thread(stack.enter_context, served), "hf_any")
        async with live.store() as crew.store:
            yield crew
            assert await crew.store.verify() == []
