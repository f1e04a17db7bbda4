"""Run mutants: a copy of the tree for each lane, one bug at a time in it, and the tests that must notice it.

First the same tests must pass without any bug. A mutant is killed when one of its tests finds a promise broken; it is
broken when its tests stop for another reason, and it has survived when they pass.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ENVIRONMENT, Mutant, NoLongerApplies

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "examples", "bench", "pyproject.toml")
within_seconds = 600


@dataclass(frozen=True)
class Verdict:
    """`killed`, `survived`, `broken` or `gone` (it no longer applies); by which test, what it said; after how long.

    Of the tests without any bug: `sound` or `unsound`.
    """

    mutant: str
    layer: str
    verdict: str
    test: str
    message: str
    seconds: float


@dataclass(frozen=True)
class TestRun:
    """The outcome of a run of tests: its exit code, and what failed first."""

    code: int
    test: str = ""
    noticed: bool = False
    message: str = ""


class Lane:
    """A copy of the tree."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._folder = folder
        for name in COPIED:
            source, target = ROOT / name, self.root / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "results"))
            else:
                shutil.copy(source, target)

    @contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        """Raises NoLongerApplies."""
        file = self.root / mutant.file
        sound, text = file.read_text(), mutant.of(self.root)
        file.write_text(text)
        try:
            yield
        finally:
            file.write_text(sound)

    def test(self, layer: str, tests: Sequence[str]) -> TestRun:
        """Run these until the first one fails."""
        report, temporary = self._folder / "report", self._folder / "tmp"
        report.unlink(missing_ok=True)
        given = {
            **os.environ, **ENVIRONMENT[layer], "PYTHONPATH": f"{self.root / 'src'}",
            "MUTANT_ROOT": str(self.root), "MUTANT_REPORT": str(report),
            "HOLDFAST_TEST_FOLDER": str(self._folder.parent / "ground"),
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "tests.mutants.witness", "-p", "no:cacheprovider",
            "--basetemp", str(temporary), *tests,
        ]  # fmt: skip
        with (self._folder / "output").open("w") as output:
            try:
                done = subprocess.run(
                    command, cwd=self.root, env=given, stdout=output, stderr=output, timeout=within_seconds
                )
            except subprocess.TimeoutExpired:
                return TestRun(-1, message=f"no end within {within_seconds} s")
        if report.exists():
            return TestRun(done.returncode, **json.loads(report.read_text().splitlines()[0]))
        return TestRun(
            done.returncode, message=(self._folder / "output").read_text()[-2000:] if done.returncode else ""
        )


def judge(lane: Lane, mutant: Mutant) -> Verdict:
    began = time.monotonic()
    try:
        with lane.with_bug(mutant):
            run = lane.test(mutant.layer, mutant.tests)
    except NoLongerApplies as error:
        return Verdict(mutant.name, mutant.layer, "gone", "", str(error), 0)
    verdict = "survived" if run.code == 0 else "killed" if run.noticed else "broken"
    message = run.message or mutant.breaks
    return Verdict(mutant.name, mutant.layer, verdict, run.test, message, time.monotonic() - began)


def control(lane: Lane, layer: str, tests: Sequence[str]) -> Verdict:
    """Without any bug all of them must pass."""
    began = time.monotonic()
    run = lane.test(layer, tests)
    verdict = "unsound" if run.code else "sound"
    return Verdict("(none)", layer, verdict, run.test, run.message, time.monotonic() - began)
