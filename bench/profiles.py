"""What the agent unified-profiler takes beside Polars' own summary of the same file: time, processor and memory.

The file is a shop's orders, 1,000,000 rows of 12 columns, generated for each run from a fixed seed. Polars describes it
as one would by hand: `scan_csv` with types from 10,000 rows and dates tried, then `describe`, which tells count, nulls,
mean, deviation, extremes and quartiles. The agent also finds out what every column is, counts copies of rows and
distinct and commonest values, measures correlations, and writes a report, so it must take longer; by how much is the
figure. JSON Lines of a tenth of the rows stand for themselves. Each variant runs in a process of its own; memory is the
greatest resident set of that process less what it had before it began.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from bench.frame import Bench

COUNTRIES = ("DE", "FR", "US", "GB", "IT", "ES", "NL", "PL", "SE", "NA")
STATES = ("paid", "paid", "paid", "open", "cancelled")
NAMES = (
    "order_id", "ordered_at", "day", "country", "email", "price", "quantity", "discount", "status", "returned", "note",
    "weight",
)  # fmt: skip

CHILD = """
import json, resource, sys, time
from pathlib import Path
import polars as pl
from holdfast.lifecycles.analysis.tools import InputFile, Job
from holdfast.apps.agents.profiler import profile
from holdfast.apps.agents.reading import open_table
what, path, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
folder.mkdir()
job = Job(InputFile(path, path.name), folder)
before = resource.getrusage(resource.RUSAGE_SELF)
start = time.perf_counter()
if what == "describe":
    pl.scan_csv(path, infer_schema_length=10_000, try_parse_dates=True, null_values=["NA"]).describe()
elif what == "read":
    open_table(job, job.primary, folder)
else:
    profile(job)
seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
json.dump([seconds, processor, (after.ru_maxrss - before.ru_maxrss) / 1024], sys.stdout)
"""


async def measure(bench: Bench) -> None:
    await asyncio.to_thread(compare, bench)


def compare(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, lines = Path(folder, "orders.csv"), Path(folder, "orders.jsonl")
        write(table, bench.size(1_000_000))
        write_lines(table, lines, bench.size(100_000))
        for number in range(bench.rounds):
            described = spent("describe", table, Path(folder, f"a{number}"))
            note(bench, "describe by Polars", described, None)
            note(bench, "read and typed", spent("read", table, Path(folder, f"b{number}")), "describe by Polars")
            note(bench, "profiled", spent("profile", table, Path(folder, f"c{number}")), "describe by Polars")
            note(bench, "a tenth as JSON Lines", spent("profile", lines, Path(folder, f"d{number}")), None)


def note(bench: Bench, name: str, figures: tuple[float, float, float], beside: str | None) -> None:
    """Seconds, seconds of the processor, and mebibytes."""
    for value, what, unit in zip(figures, ("", ", processor", ", memory"), ("s", "s", "MiB"), strict=True):
        bench.note(name + what, value, unit, beside and beside + what)


def spent(what: str, path: Path, folder: Path) -> tuple[float, float, float]:
    child = [sys.executable, "-c", CHILD, what, str(path), str(folder)]
    output = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    seconds, processor, mebibytes = json.loads(output)
    return seconds, processor, mebibytes


def write(path: Path, rows: int) -> None:
    """Orders with what tables have: gaps, a tail, words for nothing, texts that repeat and texts that do not."""
    seeded = random.Random(7)  # noqa: S311
    first = datetime(2024, 1, 1)
    with path.open("w") as file:
        file.write(",".join(NAMES) + "\n")
        for number in range(rows):
            at = first + timedelta(seconds=seeded.randrange(86_400 * 600))
            price = round(seeded.lognormvariate(3, 1), 2)
            fields = (
                100_000 + number, f"{at:%Y-%m-%d %H:%M:%S}", f"{at:%Y-%m-%d}", seeded.choice(COUNTRIES),
                f"user{seeded.randrange(rows // 3 + 1)}@example.com", price, min(1 + int(seeded.expovariate(0.7)), 50),
                "" if seeded.random() < 0.3 else seeded.choice((0, 5, 10, 20)), seeded.choice(STATES),
                seeded.choice(("true", "false")),
                "" if seeded.random() < 0.8 else f"please leave it at door {seeded.randrange(1000)}",
                "NA" if seeded.random() < 0.05 else round(price * 0.1 + seeded.gauss(1, 0.3), 3),
            )  # fmt: skip
            file.write(",".join(map(str, fields)) + "\n")


def write_lines(table: Path, target: Path, rows: int) -> None:
    """The first rows of a table as JSON Lines."""
    with table.open() as source, target.open("w") as sink:
        next(source)
        for line, _ in zip(source, range(rows), strict=False):
            sink.write(json.dumps(dict(zip(NAMES, line.rstrip("\n").split(","), strict=True))) + "\n")
