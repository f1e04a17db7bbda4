"""The applications over SQL and over HTTP, where their handlers have a server and no database.

`make test` runs those marked `over_http` over HTTP too, `make crash` those marked `over_http("long")`, which kill
workers. With HOLDFAST_TEST_TRANSPORT=http all of them speak HTTP.
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
from tests.tiers import both_transports
from tests.worker.crew import Crew

ALWAYS = os.environ.get("HOLDFAST_TEST_TRANSPORT", "sql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both_transports(metafunc)


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
