"""An application whose fourth process stays in its loading until the gate `load` is opened."""

import os
from pathlib import Path

from holdfast import Holdfast
from tests.worker.app import note, wait_for

note("loading")
if Path(os.environ["LEDGER"]).read_text().count("loading ") == 4:
    note("gated")
    wait_for("load")

hf = Holdfast()


@hf.task
async def deadly() -> None:
    """Not in a thread: it starts before the runner can stop it, so a wrong start always leaves a note."""
    note("deadly")
    os._exit(7)
