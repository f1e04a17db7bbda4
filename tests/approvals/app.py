"""Tasks that ask, for workers that are killed. What is told goes to the ledger: the second witness."""

import os
from pathlib import Path
from typing import Any

from holdfast import Holdfast, ask
from tests.worker.app import note

hf = Holdfast()


def send_link(link: str) -> None:
    note(link)
    gate = Path(os.environ["LEDGER"]).with_name("gate-die")
    if gate.exists():
        gate.unlink()
        os.kill(os.getpid(), 9)


@hf.task
async def publish() -> Any:
    return await ask("publish", "Publish?", within="1h", tell=send_link)


@hf.task
def approve() -> Any:
    return ask.sync("approve", "Approve?", within="1h", tell=send_link)


@hf.task
def other() -> str:
    return "done"
