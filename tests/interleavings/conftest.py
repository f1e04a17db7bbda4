"""One scene per process, put back between any two interleavings."""

from collections.abc import AsyncIterator

import pytest_asyncio

from holdfast.testing import Ground
from tests.interleavings.world import World, opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(ground: Ground) -> AsyncIterator[World]:
    with ground.database() as database:
        async with opened(database) as world:
            yield world
