"""How far the jobs of a batch are: a bar for each on stderr, or a line whenever one goes on."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.picture import Picture, line_every_seconds

MARKS = {
    "PLANNED": ("\u00b7", "dim"),
    "INTENDED": ("\u25cf", "cyan"),
    "SUBMITTED": ("\u25cf", "cyan"),
    "ENDED": ("\u25cf", "cyan"),
    "PARKED": printing.MARKS["owner"],
    "COMPLETED": printing.MARKS["done"],
    "PARTIAL_COMPLETE": printing.MARKS["partial"],
    "FAILED": printing.MARKS["failed"],
    "CANCELLED": printing.MARKS["cancelled"],
}
URGENT = ("PARKED", "ENDED", "SUBMITTED", "INTENDED", "PLANNED", "FAILED", "PARTIAL_COMPLETE")
jobs_shown = 8
bar_width = 24

Batch = dict[str, Any]
Job = dict[str, Any]


class Lanes(Picture):
    """The bars of the jobs."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._told: dict[int, str] = {}

    def head(self, now: Batch) -> Text:
        return head(now)

    def rows(self, now: Batch) -> RenderableType:
        return rows(now["jobs"])

    def lines(self, now: Batch) -> Iterator[str]:
        if len(now["jobs"]) > jobs_shown:
            yield from self.now_and_then(f"{len(now['jobs']):,} jobs: {counted(now['jobs'])}")
            return
        for job in now["jobs"]:
            if self._told.get(job["number"]) != job["status"]:
                self._told[job["number"]] = job["status"]
                yield f"job {job['number']}: {in_words(job)}"


def head(batch: Batch) -> Text:
    name = f"{batch['task_type']} with {batch['provider']}"
    text = Text.assemble((printing.clean(name), "bold"), "  ", (batch["status"], "cyan"))
    if batch["cancel_requested"]:
        text.append("  cancel requested", "yellow")
    return text.append(f"  {batch['task_id']}", "dim")


def rows(jobs: list[Job]) -> RenderableType:
    """A bar for each job, those that are not over first; more than fit are one line."""
    chosen = sorted(jobs, key=lambda job: (order_of(job), job["number"]))[:jobs_shown]
    table = Table.grid(padding=(0, 1, 0, 0))
    for justify in ("left", "left", "left", "right"):
        table.add_column(no_wrap=True, justify=justify)
    table.add_column()  # the only one that gives way where there is too little room
    for job in sorted(chosen, key=lambda job: int(job["number"])):
        sign, style = MARKS[job["status"]]
        bar = ProgressBar(job["inputs"], job["done"], width=bar_width, complete_style=style, finished_style=style)
        done = Text(f"{job['done']:,}/{job['inputs']:,}", "" if job["done"] else "dim")
        words = Text(printing.clean(in_words(job)), style, no_wrap=True, overflow="ellipsis")
        table.add_row(Text(sign, style), Text(printing.clean(name_of(job))), bar, done, words)
    rest = [job for job in jobs if job not in chosen]
    more = [Text(f"and {len(rest):,} more: {counted(rest)}", "dim")] if rest else []
    return Padding(Group(table, *more), (0, 0, 0, 2))


def order_of(job: Job) -> int:
    return URGENT.index(job["status"]) if job["status"] in URGENT else len(URGENT)


def name_of(job: Job) -> str:
    return f"job {job['number']}" + (f" {job['model']}" if job["model"] else "")


def counted(jobs: list[Job]) -> str:
    """How many are in each status."""
    counts = Counter(job["status"] for job in jobs)
    return ", ".join(f"{counts[status]:,} {status}" for status in MARKS if counts[status])


def in_words(job: Job) -> str:
    """How a job stands: its status, what the provider says of it, what went wrong, when it is asked again."""
    told = f": {job['error']}" if job["error"] else ""
    match job["status"]:
        case "SUBMITTED" | "ENDED":
            own = f", {job['provider_status']}" if job["provider_status"] else ""
            return f"{job['status']}{own}{told}{again(job)}"
        case "PLANNED" | "INTENDED":
            return f"{job['status']}{told}{again(job)}"
        case "COMPLETED" | "CANCELLED":
            return f"{job['status']}"
        case "PARTIAL_COMPLETE" | "FAILED":
            return f"{job['status']}, {job['ok']:,} of {job['inputs']:,} ok{told}"
    return f"{job['status']}{told}"


def again(job: Job) -> str:
    """When it is asked about next, if that is long enough to wonder."""
    if not job["due_at"]:
        return ""
    span = datetime.fromisoformat(job["due_at"]) - datetime.now(UTC)
    return f", again in {printing.lasting(span)}" if span.total_seconds() >= line_every_seconds else ""
