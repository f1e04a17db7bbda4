"""Run the measurements named (`python -m bench clone`), or all of them, and keep the figures as JSON.

Machines are shared and noisy: a figure is worth something only beside the others of its own run. Each measurement
interleaves its variants and gives the median and the spread of its rounds.
"""

import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    wanted = sys.argv[1:] or known
    if unknown := set(wanted) - set(known):
        sys.exit(f"no such measurement: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    for name in wanted:
        measure: Callable[[], dict[str, list[float]]] = importlib.import_module(f"bench.{name}").measure
        report(name, measure())


def report(name: str, variants: dict[str, list[float]]) -> None:
    """Print the table and write the file. The first variant is what the others are compared with."""
    medians = {variant: statistics.median(seconds) for variant, seconds in variants.items()}
    first = next(iter(medians.values()))
    print(f"\n{name}")
    for variant, seconds in variants.items():
        spread = f"{min(seconds) * 1000:.1f} to {max(seconds) * 1000:.1f}"
        print(f"  {variant:<34} {medians[variant] * 1000:9.1f} ms  ({spread})  x {medians[variant] / first:.2f}")
    folder = HERE / "results" / "local"
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "measurement": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": said("git", "rev-parse", "HEAD"),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "seconds": variants,
    }
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


def said(*command: str) -> str:
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()


main()
