"""The stages of a job while it runs: a list on stderr that is drawn anew, or a line when a stage ends."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.picture import Picture

MARKS = {
    "pending": ("\u00b7", "dim"),
    "running": ("\u25cf", "cyan"),
    "completed": printing.MARKS["done"],
    "partial": printing.MARKS["partial"],
    "failed": printing.MARKS["failed"],
    "skipped": ("\u2013", "dim"),
}


class Board(Picture):
    """The list of stages."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._told: set[str] = set()

    def head(self, now: dict[str, Any]) -> Text:
        return head(now)

    def rows(self, now: dict[str, Any]) -> RenderableType:
        return rows(now)

    def lines(self, now: dict[str, Any]) -> Iterator[str]:
        for stage in now["stages"]:
            if stage["finished_at"] and stage["name"] not in self._told:
                self._told.add(stage["name"])
                yield f"{stage['name']}: {in_words(stage, now)}"


def head(job: dict[str, Any]) -> Text:
    text = Text.assemble((printing.clean(job["pipeline"]), "bold"), "  ", (job["status"], "cyan"))
    if job["cancel_requested"]:
        text.append("  cancel requested", "yellow")
    return text.append(f"  {job['job_id']}", "dim")


def rows(job: dict[str, Any]) -> RenderableType:
    """A row for each stage: its mark, its name, and in words how it stands."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for stage in job["stages"]:
        sign, style = MARKS[stage["status"]]
        name = printing.clean(stage["name"])
        words = printing.clean(in_words(stage, job))
        table.add_row(Text(sign, style), Text(name, "dim" if style == "dim" else ""), Text(words, style))
    return Padding(table, (0, 0, 0, 2))


def in_words(stage: dict[str, Any], job: dict[str, Any]) -> str:
    """How a stage stands: its status, how long it took, and what there is to say of it."""
    status, errors = stage["status"], stage["errors"]
    took = f", {span}" if (span := taken(stage)) else ""
    match status:
        case "running":
            own = own_note(stage["name"], job["progress"])
            return f"running{took}" + (f": {own}" if own else "")
        case "skipped":
            return "skipped" + (f": {stage['reason']}" if stage["reason"] else "")
        case "failed" | "partial":
            return f"{status}{took}" + (f": {errors[0]}" if errors else "") + more(len(errors) - 1)
    return f"{status}{took}"


def taken(stage: dict[str, Any]) -> str:
    """How long it ran, or has run by now; nothing if it never did."""
    if not stage["started_at"]:
        return ""
    began = datetime.fromisoformat(stage["started_at"])
    if stage["finished_at"]:
        return printing.lasting(datetime.fromisoformat(stage["finished_at"]) - began, fine=True)
    return printing.lasting(datetime.now(UTC) - began)


def own_note(stage: str, progress: Any) -> str:
    """What the stage itself says of how far it is: its note, or the step within it. What is of another is old."""
    told = progress if isinstance(progress, dict) and progress.get("stage") == stage else {}
    return next((str(one) for one in (told.get("note"), told.get("step")) if one and one != stage), "")


def more(number: int) -> str:
    return f" (and {number} more)" if number > 0 else ""
