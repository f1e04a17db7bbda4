"""`python -m tests.mutants [names]`: put each bug into a copy of the tree and see that its tests notice.

`--list` only names them. The result is printed, and written to bench/results/local/mutants.json. Exit code 1 if a
mutant survived, is broken or no longer applies, or if the tests fail without any.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from bench.table import RESULTS

from holdfast.testing import Ground
from tests.conftest import POSTGRES_VERSIONS
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import ENVIRONMENT, Mutant
from tests.mutants.run import Lane, Verdict, control, judge

LANES = 2
GOOD = ("killed", "sound")


def run(mutants: Sequence[Mutant], folder: Path) -> list[Verdict]:
    """All of them, some at a time, each lane with a tree of its own; all on one server, with databases of their own."""
    lanes: SimpleQueue[Lane] = SimpleQueue()
    for number in range(LANES):
        lanes.put(Lane(folder / f"lane-{number}"))

    def in_a_lane(work: Callable[[Lane], Verdict]) -> Verdict:
        lane = lanes.get()
        try:
            return work(lane)
        finally:
            lanes.put(lane)

    controls = [
        (layer, sorted({test for one in mutants if one.layer == layer for test in one.tests})) for layer in ENVIRONMENT
    ]
    jobs: list[Callable[[Lane], Verdict]] = [
        *(lambda lane, layer=layer, tests=tests: control(lane, layer, tests) for layer, tests in controls if tests),
        *(lambda lane, mutant=mutant: judge(lane, mutant) for mutant in mutants),
    ]
    verdicts = []
    with Ground(folder / "ground" / f"ground-{max(POSTGRES_VERSIONS)}"), ThreadPoolExecutor(LANES) as pool:
        for done in as_completed([pool.submit(in_a_lane, job) for job in jobs]):
            verdicts.append(done.result())
            show(verdicts[-1])
    return verdicts


def show(verdict: Verdict) -> None:
    found = verdict.test.rpartition("::")[2]
    sys.stdout.write(f"{verdict.verdict:9} {verdict.seconds:4.0f} s  {verdict.layer:13}  {verdict.mutant:34} {found}\n")
    if verdict.verdict not in GOOD:
        sys.stdout.write(f"{verdict.message}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only mutants with one of these words in their name")
    parser.add_argument("--list", action="store_true", help="only name them")
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or any(part in one.name for part in given.names)]
    if not chosen:
        parser.error("no mutant has such a name; --list names them all")
    if given.list:
        for one in chosen:
            sys.stdout.write(f"{one.layer:14} {one.name:34} {one.breaks}\n")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        verdicts = run(chosen, Path(folder))
    took = time.monotonic() - began
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = RESULTS / "mutants.json"
    result.write_text(json.dumps({"took_seconds": took, "mutants": [asdict(one) for one in verdicts]}, indent=2))
    killed = sum(one.verdict == "killed" for one in verdicts)
    sys.stdout.write(f"{killed} of {len(chosen)} killed in {took:.0f} s; {result}\n")
    return int(any(one.verdict not in GOOD for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
