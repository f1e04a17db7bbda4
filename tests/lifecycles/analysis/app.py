"""A tool with agents that fail on request, for tests of what happens around them."""

import json
import os
import time
from typing import Any

from holdfast import Fatal, Holdfast, Transient
from holdfast.analysis import PROFILE_MY_DATA, Agent, InputFile, Job, Options, Tool, cannot_read, wrong_format
from tests.worker.app import note, wait_for

hf = Holdfast()


class LinesOptions(Options):
    """What parameters.json says to an agent."""

    mark: str = ""
    fails: str = ""


def lines(job: Job) -> None:
    """How many lines there are; fails in the way that its options name."""
    options = job.options(LinesOptions, "lines")
    noted("lines")
    fail(options.fails)
    write(job, "lines.json", {"lines": count(job.primary), "mark": options.mark})


def size(job: Job) -> None:
    """How many bytes there are, in two files."""
    noted("size")
    write(job, "size.json", {"bytes": job.primary.path.stat().st_size})
    write(job, "more/name.json", {"name": job.primary.filename})


def compare(job: Job) -> None:
    """How many lines more than in the baseline."""
    assert job.baseline
    write(job, "compare.json", {"more": count(job.primary) - count(job.baseline)})


def stuck(job: Job) -> None:
    """Never ends, in code that nobody can interrupt."""
    note("stuck")
    time.sleep(600)


def fail(how: str) -> None:
    match how:
        case "format":
            raise wrong_format("line 3 has 2 fields, the header has 3")
        case "read":
            raise cannot_read("it ends in the middle")
        case "fatal":
            raise Fatal("this cannot be counted")
        case "transient":
            raise Transient("not now")
        case "bug":
            raise ZeroDivisionError("secret/path")


def count(file: InputFile) -> int:
    with file.path.open("rb") as stream:
        return sum(1 for _ in stream)


def write(job: Job, name: str, value: dict[str, Any]) -> None:
    path = job.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def noted(text: str) -> None:
    """Write down that it runs, where a test has asked for it; and wait there until it is let go on."""
    if "LEDGER" in os.environ:
        note(text)
        wait_for(text)


hf.tool(PROFILE_MY_DATA)
hf.tool(Tool("stubborn", [Agent("stuck", stuck, credits=0)]))
COUNT = hf.tool(
    Tool(
        "count",
        [
            Agent("lines", lines, "Lines", credits=2, options=LinesOptions),
            Agent("size", size, "Size", credits=3),
            Agent("compare", compare, "Compare", needs_baseline=True),
            Agent("free", size, "Free", credits=0),
        ],
    )
)
