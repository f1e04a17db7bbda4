"""How long the embedded Postgres keeps its first user waiting: joined while it runs, started, made and started.

5 rounds, the variants in turn, with the durable settings that `holdfast up` uses.
"""

import tempfile
import threading
import time
from pathlib import Path

from holdfast.kernel.embedded import Embedded, is_watched

ROUNDS = 5


def measure() -> dict[str, list[float]]:
    variants: dict[str, list[float]] = {"joined": [], "started": [], "made and started": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            home = Path(folder, str(number))
            for variant in ("made and started", "started"):
                start = time.perf_counter()
                with Embedded(home):
                    variants[variant].append(time.perf_counter() - start)
                    start = time.perf_counter()
                    with Embedded(home):
                        variants["joined"].append(time.perf_counter() - start)
                while is_watched(home):
                    threading.Event().wait(0.01)
    return variants
