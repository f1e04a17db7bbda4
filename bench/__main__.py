"""Run the measurements named (`python -m bench engine worker`), or all of them, and keep the figures as JSON.

Each measurement's file says what it measures and how. `--waits` shows where the time went.
"""

import argparse
import importlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench import table, waits
from bench.frame import Bench, describe, kept
from holdfast.postgres.embedded import Embedded

MEASUREMENTS = ("limits", "engine", "history", "leases", "worker", "sizes", "crashes", "statements", "clone", "start",
                "profiles", "search", "polls", "transports", "wakeups")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("measurement", nargs="*", help=f"of {', '.join(MEASUREMENTS)}; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant has its turn")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks: does it run at all?")
    parser.add_argument("--waits", action="store_true", help="look where the time goes; figures suffer from it")
    given = parser.parse_args()
    if unknown := set(given.measurement) - set(MEASUREMENTS):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}; there are: {', '.join(MEASUREMENTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a run that is stopped still ends its workers and its server
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Embedded(Path(folder, "server")) as server:
        for name in given.measurement or MEASUREMENTS:
            run(name, Bench(server, rounds=given.rounds, quick=given.quick, waits=given.waits))


def run(name: str, bench: Bench) -> None:
    measure: Callable[[Bench], Coroutine[Any, Any, None]] = importlib.import_module(f"bench.{name}").measure
    start = time.monotonic()
    uvloop.run(measure(bench))
    result = {
        "measurement": name,
        "quick": bench.quick,
        "took_seconds": time.monotonic() - start,
        **uvloop.run(describe(bench.server)),
        "figures": kept(bench.figures),
        "waits": bench.profiles,
    }
    table.RESULTS.mkdir(parents=True, exist_ok=True)
    (table.RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(table.text(result), flush=True)
    for label, seen in bench.profiles.items():
        print(waits.text(label, seen))


main()
