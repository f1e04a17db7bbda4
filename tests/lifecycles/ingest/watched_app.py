"""Documents for workers that are killed: each step writes into LEDGER, and those in HALTS wait there for their gate."""

import os
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.lifecycles.ingest.ledger import Ledger, watch
from tests.worker.app import until_open

HALTS = os.environ.get("HALTS", "").split(",")

hf = Holdfast()
hf.documents()


async def halt(moment: str) -> None:
    if moment in HALTS:
        await until_open(moment)


watch(pytest.MonkeyPatch(), Ledger(Path(os.environ["LEDGER"])), halt)


@hf.task
async def other() -> str:
    """Work of another kind, beside documents."""
    return "done"
