"""How long the embedded Postgres keeps its first user waiting: joined while it runs, started, made and started.

With the durable settings that `holdfast up` uses.
"""

import asyncio
import tempfile
import threading
import time
from pathlib import Path

from bench.frame import Bench
from holdfast.postgres.embedded import Embedded, is_watched


async def measure(bench: Bench) -> None:
    await asyncio.to_thread(compare, bench)


def compare(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(bench.rounds):
            home = Path(folder, str(number))
            for variant in ("made and started", "started"):
                start = time.perf_counter()
                with Embedded(home):
                    bench.note(variant, (time.perf_counter() - start) * 1000, "ms")
                    if variant == "started":
                        start = time.perf_counter()
                        with Embedded(home):
                            bench.note("joined", (time.perf_counter() - start) * 1000, "ms")
                while is_watched(home):
                    threading.Event().wait(0.01)
