"""A mutant: one bug, as a change of one text in one file, and the tests that must notice it."""

from dataclasses import dataclass
from pathlib import Path

SQL = "src/holdfast/engine/sql"
WORKER = "src/holdfast/worker"
ANALYSIS = "src/holdfast/lifecycles/analysis"
INGEST = "src/holdfast/lifecycles/ingest"
PIPELINE = "src/holdfast/lifecycles/pipeline"
BATCH = "src/holdfast/lifecycles/batch"

ENVIRONMENT = {
    "simulation": {"HOLDFAST_SIM_SEED": "0", "HOLDFAST_SIM_OPERATIONS": "4000"},
    "interleavings": {},
    "processes": {},
    "promises": {},
}
"""The layers of proof, and what the tests of each are told. `processes` are real ones, killed, stopped and orphaned."""

ONE_SEED = ("tests/simulation/test_simulation.py::test_no_history_of_a_seed_breaks_a_promise[0]",)


class NoLongerApplies(Exception):
    """The text that a mutant replaces is not there, or not there once."""


@dataclass(frozen=True)
class Mutant:
    """`breaks` is what the bug does, in one sentence; `was` must be in the file exactly once."""

    name: str
    breaks: str
    file: str
    was: str
    now: str
    layer: str
    tests: tuple[str, ...] = ONE_SEED

    def of(self, root: Path) -> str:
        """The file with the bug in it. Raises NoLongerApplies."""
        text = (root / self.file).read_text()
        if (found := text.count(self.was)) != 1:
            raise NoLongerApplies(f"{self.file} has {found} times: {self.was}")
        return text.replace(self.was, self.now)
