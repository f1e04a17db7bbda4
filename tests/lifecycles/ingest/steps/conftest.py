"""A desk at which documents are read."""

from pathlib import Path

import pytest
import pytest_asyncio
from anyio import to_process

from tests.lifecycles.ingest.steps.reading import Harness


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def readers() -> None:
    """Processes that read are ended with the task that started the first of them: let that be this one."""
    await to_process.run_sync(int)


@pytest.fixture
def harness(tmp_path: Path, readers: None) -> Harness:
    return Harness(tmp_path)
