"""What prepared statements save: one task submitted, claimed and settled, by calls of one task each.

One connection over the local socket; over a network the saved round trips weigh more.
"""

import time

from bench.engine import LEASE
from bench.frame import Bench
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Submission


async def measure(bench: Bench) -> None:
    tasks = bench.size(200)
    async with (
        bench.database("statements") as place,
        place.connections(prepared=False) as (parsing,),
        place.connections(prepared=True) as (prepared,),
    ):
        for connection in (parsing, prepared):
            await work(Store(connection), 10)  # warm up
        for _ in range(bench.rounds):
            bench.note("parsed each time", await work(Store(parsing), tasks), "ms")
            bench.note("prepared", await work(Store(prepared), tasks), "ms", "parsed each time")


async def work(store: Store, tasks: int) -> float:
    """The milliseconds that each took."""
    start = time.perf_counter()
    for _ in range(tasks):
        await store.submit(Submission("work"))
        (lease,) = await store.claim(["default"], lasting=LEASE, worker="bench")
        await store.finish(lease, Done())
    return (time.perf_counter() - start) / tasks * 1000
