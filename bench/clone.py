"""What a test pays for a database of its own: a copy of the template, against one that is migrated from nothing.

20 rounds, the variants in turn, one process, the server of the test ground (fsync off).
"""

import tempfile
import time
from pathlib import Path

from holdfast.kernel.migrate import migrate
from holdfast.testing import Ground

ROUNDS = 20


def measure() -> dict[str, list[float]]:
    variants: dict[str, list[float]] = {"copy of the template": [], "empty and migrated": []}
    with tempfile.TemporaryDirectory() as folder, Ground(Path(folder, "ground")) as ground:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            with ground.database():
                variants["copy of the template"].append(time.perf_counter() - start)
            start = time.perf_counter()
            with ground.empty_database() as database:
                ground.portal.call(migrate, database.owner_url)
                variants["empty and migrated"].append(time.perf_counter() - start)
    return variants
