"""A database whose runs write datasets."""

from collections.abc import AsyncIterator

import pytest

from holdfast.datasets.store import Datasets
from holdfast.engine.store.commands import Store
from holdfast.testing import Database
from tests.datasets.stage import EFFECTS, RUN, Runs


@pytest.fixture
async def runs(store: Store, database: Database) -> AsyncIterator[Runs]:
    async with database.connect_owner() as owner:
        await owner.execute(EFFECTS)
        await store.declare(RUN)
        yield Runs(store, owner, Datasets.over(store))
