"""Documents for workers that are killed: each step writes into LEDGER, and those in HALTS wait there for their gate.

With PAUSE_SECONDS every step takes a little longer, before its work and after it, so that kills fall within.
"""

import asyncio
import os
from pathlib import Path

from holdfast import Holdfast
from tests.lifecycles.ingest.ledger import Ledger, watch
from tests.worker.app import until_open

HALTS = os.environ.get("HALTS", "").split(",")
pause_seconds = float(os.environ.get("PAUSE_SECONDS", "0"))

hf = Holdfast()
hf.documents()


async def halt(moment: str) -> None:
    if moment in HALTS:
        await until_open(moment)
    if pause_seconds:
        await asyncio.sleep(pause_seconds)


watch(setattr, Ledger(Path(os.environ["LEDGER"])), halt)


@hf.task
async def other() -> str:
    """Work of another kind, beside documents."""
    return "done"
