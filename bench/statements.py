"""What prepared statements save: one task submitted, claimed and settled, by calls of one task each.

Ten rounds of 100 tasks, the two variants in turn, one connection over the local socket, the server of the test ground.
Over a network the saved round trips weigh more.
"""

import asyncio
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from holdfast.kernel.postgres import connect
from holdfast.kernel.store import Store
from holdfast.kernel.task import Done, Submission
from holdfast.testing import Database, Ground

ROUNDS, TASKS = 10, 100


def measure() -> dict[str, list[float]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Ground(Path(folder, "ground")) as ground,
        ground.database() as database,
    ):
        return asyncio.run(compare(database))


async def compare(database: Database) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"parsed each time": [], "prepared": []}
    connections = {name: await connect(database.url, prepared=name == "prepared") for name in seconds}
    for round_number in range(ROUNDS + 1):
        for name, connection in connections.items():
            start = time.perf_counter()
            await work(Store(connection))
            if round_number:  # the first one warms up
                seconds[name].append((time.perf_counter() - start) / TASKS)
    for connection in connections.values():
        await connection.close()
    return seconds


async def work(store: Store) -> None:
    for _ in range(TASKS):
        await store.submit(Submission("work"))
        (lease,) = await store.claim(["default"], lasting=timedelta(seconds=30), worker="bench")
        await store.finish(lease, Done())
