"""The server, a folder of objects and a worker, on a database of the test's own whose clock is moved."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.sdk.client import override_settings
from holdfast.settings import Settings
from holdfast.testing.engine import Engine
from tests.lifecycles.ingest import app
from tests.lifecycles.ingest.harness import Harness, harness_at


@pytest.fixture
async def harness(holdfast: Engine, tmp_path: Path) -> AsyncIterator[Harness]:
    settings = Settings(url=holdfast.database.url, home=tmp_path / "home", fetch_allow="127.0.0.1/32")
    app.RAN.clear()
    app.SCRIPT.clear()
    with override_settings(settings):
        async with harness_at(holdfast, settings, tmp_path / "papers") as harness:
            yield harness
