"""The server, a folder of objects and a worker, on a database of the test's own whose clock is moved."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.api import make_app
from holdfast.kernel.postgres import Address, pooled
from holdfast.kernel.settings import Settings
from holdfast.kernel.store import Store
from holdfast.objects import open_objects
from holdfast.sdk.client import all_pointed_at
from holdfast.testing.engine import Engine
from tests.http.conftest import client
from tests.lifecycles.analysis.app import hf
from tests.lifecycles.analysis.desk import Desk


@pytest.fixture
async def desk(holdfast: Engine, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = Settings.model_construct(url=holdfast.database.url, home=tmp_path)
    with all_pointed_at(settings):
        async with pooled(Address(given=holdfast.database.url), connections=10) as pool:
            store = Store(pool)
            await hf.declare(store)
            objects = open_objects(settings)
            app = make_app(pool, database="a test's own", objects=objects)
            async with client(app) as http:
                yield Desk(app, http, store, objects, holdfast)
                assert await store.verify() == []
