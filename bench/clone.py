"""What a test pays for a database of its own: a copy of the template, against one that is migrated from nothing.

One process, the server of the test ground (fsync off), five of each in a round.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from bench.frame import Bench
from holdfast.kernel.migrate import migrate
from holdfast.testing import Ground

times = 5


async def measure(bench: Bench) -> None:
    await asyncio.to_thread(compare, bench)


def compare(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder, Ground(Path(folder, "ground")) as ground:
        for _ in range(bench.rounds * times):
            start = time.perf_counter()
            with ground.empty_database() as database:
                ground.portal.call(migrate, database.owner_url)
                bench.note("empty and migrated", (time.perf_counter() - start) * 1000, "ms")
            start = time.perf_counter()
            with ground.database():
                taken = (time.perf_counter() - start) * 1000
                bench.note("copy of the template", taken, "ms", "empty and migrated")
