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
def deadly() -> None:
    note("deadly")
    os._exit(7)
