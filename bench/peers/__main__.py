"""Compare: `python -m bench.peers --peers pgqueuer,holdfast --workloads drain1,idle --rounds 1 --tasks 5000`.

Round by round, workload by workload, peer by peer; all raw figures go to bench/results/local/peers.json. A peer that
cannot be installed, or fails at something, is reported with its reason and stops nobody else.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.peers.figures import METRICS, ratio, summary, written
from bench.peers.frame import ROOT, SETTINGS, Failure, Ground, ground, python_of, tool, version_of
from bench.peers.page import OUTPUT
from bench.peers.registry import PEERS, Peer
from bench.peers.workloads import AT_ONCE, FIRST_ROUND_ONLY, WORKLOADS, Measured, Run


def main() -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM")
    )  # servers and workers are stopped on the way out
    asked = arguments()
    peers = [peer for peer in PEERS if peer.name in chosen(asked.peers, [one.name for one in PEERS])]
    workloads = [one for one in WORKLOADS if one in chosen(asked.workloads, list(WORKLOADS))]
    with ground() as server:
        results = describe(server, asked.rounds)
        present = [peer for peer in peers if is_present(peer, results)]
        run = Run(server, asked.tasks)
        for number in range(asked.rounds):
            for workload in workloads:
                if number and workload in FIRST_ROUND_ONLY and not asked.workloads:
                    continue
                do_all(run, workload, [peer for peer in present if workload in peer.workloads], results, number)
                OUTPUT.parent.mkdir(parents=True, exist_ok=True)
                OUTPUT.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--peers", default="", help="by default all")
    parser.add_argument("--workloads", default="", help=f"of {', '.join(WORKLOADS)}; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, help="at most so many in a drain")
    return parser.parse_args()


def chosen(text: str, known: list[str]) -> list[str]:
    wanted = [one.strip() for one in text.split(",") if one.strip()] or known
    if unknown := set(wanted) - set(known):
        sys.exit(f"not known: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    return wanted


def describe(server: Ground, rounds: int) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "measurement": "peers",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "rounds": rounds,
        "machine": {
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 2**30),
            "system": platform.platform(),
            "python": platform.python_version(),
            "postgres": server.asked("show server_version"),
            "settings": {
                name: server.asked(f"show {name}")
                for name in ("fsync", "synchronous_commit", "full_page_writes", "max_wal_size", *SETTINGS)
            },
        },
        "peers": {},
        "figures": {},
        "failures": {},
    }


def is_present(peer: Peer, results: dict[str, Any]) -> bool:
    """Make its environment; who has none is reported and left out."""
    about: dict[str, str] = {"settings": peer.settings, "promises": peer.promises}
    results["peers"][peer.name] = about
    try:
        about["python"] = tool(str(python_of(peer)), "-c", "import platform; print(platform.python_version())")
        about["version"] = version_of(peer)
    except Failure as failure:
        about["absent"] = str(failure)
        print(f"{peer.name}: absent: {failure}", flush=True)
        return False
    return True


def do_all(run: Run, workload: str, peers: list[Peer], results: dict[str, Any], number: int) -> None:
    """One workload of one round, for one peer after the other; those that mostly wait, some at once."""

    def do(peer: Peer) -> tuple[Peer, Measured | str, float]:
        begun = time.monotonic()
        try:
            return peer, run.do(workload, peer), time.monotonic() - begun
        except Failure as failure:
            return peer, str(failure), time.monotonic() - begun

    with ThreadPoolExecutor(AT_ONCE[workload]) if workload in AT_ONCE else nullcontext() as pool:
        for peer, measured, seconds in pool.map(do, peers) if pool else map(do, peers):
            if isinstance(measured, str):
                results["failures"].setdefault(workload, {}).setdefault(peer.name, []).append(measured)
                line = measured
            else:
                for metric, raw in measured.items():
                    results["figures"].setdefault(metric, {}).setdefault(peer.name, []).append(raw)
                line = json.dumps(measured)
            print(f"round {number + 1}  {workload:<9} {peer.name:<16} {seconds:6.1f} s  {line}", flush=True)


def show(results: dict[str, Any]) -> None:
    """The table: per metric each peer's median, its spread, and how many times better Holdfast is."""
    for metric, about in METRICS.items():
        rows = [(peer, found) for peer in results["peers"] if (found := summary(results, metric, peer))]
        if rows:
            print(f"\n{about.title}")
        for peer, found in sorted(rows, key=lambda row: row[1].median, reverse=about.more_is_better):
            spread = f"({written(metric, found.least)} to {written(metric, found.most)})"
            times = ratio(results, metric, peer)
            beside = f"  holdfast x {times:.2f}" if times and peer != "holdfast" else ""
            print(f"  {peer:<18} {written(metric, found.median):>10}  {spread:<24}{beside}")
    for workload, failures in results["failures"].items():
        for peer, reasons in failures.items():
            print(f"\n{workload}: {peer}: {reasons[0]}")
    print(f"\nRaw figures: {OUTPUT.relative_to(Path.cwd()) if OUTPUT.is_relative_to(Path.cwd()) else OUTPUT}")


if __name__ == "__main__":
    main()
