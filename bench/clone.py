"""What a test pays for its database: one that is used again, a copy of the template, or one migrated from nothing.

One process, the server of the test ground (fsync off), five of each in a round. In the first two a task is submitted,
claimed and finished, since a test pays for its connections too.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from bench.frame import Bench
from holdfast.engine.task import Done, Submission
from holdfast.postgres.migrate import migrate
from holdfast.testing import Database, Ground

times = 5


async def measure(bench: Bench) -> None:
    await asyncio.to_thread(compare, bench)


def compare(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder, Ground(Path(folder, "ground")) as ground:
        with ground.database() as database:
            asyncio.run(work(database))
        for _ in range(bench.rounds * times):
            with timed(bench, "empty and migrated"), ground.empty_database() as database:
                ground.background.call(migrate(database.owner_url))
            with timed(bench, "copy of the template", "empty and migrated"), ground.fresh_database() as database:
                asyncio.run(work(database))
            with timed(bench, "used again", "empty and migrated"), ground.database() as database:
                asyncio.run(work(database))


@contextlib.contextmanager
def timed(bench: Bench, name: str, *beside: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    bench.note(name, (time.perf_counter() - start) * 1000, "ms", *beside)


async def work(database: Database) -> None:
    """What a small test does."""
    async with database.store() as store:
        await store.submit(Submission("work"))
        (lease,) = await store.claim(["default"], lasting=timedelta(minutes=1), worker="bench")
        await store.settle((lease, Done()))
