"""The stages of a job while it runs: a list on stderr that is drawn anew, or a line when a stage ends."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing

if TYPE_CHECKING:
    from types import TracebackType

MARKS = {
    "pending": ("\u00b7", "dim"),
    "running": ("\u25cf", "cyan"),
    "completed": printing.MARKS["done"],
    "partial": printing.MARKS["partial"],
    "failed": printing.MARKS["failed"],
    "skipped": ("\u2013", "dim"),
}


class Board:
    """The list, from the first time that it is shown until the block ends. `quiet` shows nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._drawn = sys.stderr.isatty() and not quiet
        self._spinner = Spinner("dots", style="cyan")
        self._job: dict[str, Any] = {}
        self._note = ""
        self._told: set[str] = set()
        self._live = Live(
            console=Console(stderr=True), transient=True, refresh_per_second=8, get_renderable=self._picture
        )

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *_: "type[BaseException] | BaseException | TracebackType | None") -> None:
        self._live.stop()

    def show(self, job: dict[str, Any]) -> None:
        """The job as it is now."""
        self._job = job
        if self._drawn:
            self._live.start()
            return
        for stage in job["stages"]:
            if stage["finished_at"] and stage["name"] not in self._told:
                self._told.add(stage["name"])
                self._say(f"{stage['name']}: {in_words(stage, job)}")

    def note(self, sentence: str) -> None:
        """What it waits for; empty when it goes on. Drawn with the list, said at once where nothing is."""
        said = printing.clean(sentence)
        if said and said != self._note and not self._drawn:
            self._say(said)
        self._note = said

    def _picture(self) -> RenderableType:
        if not self._job:
            return Text()
        self._spinner.update(text=head(self._job))
        note = [Padding(Text(self._note, "yellow"), (0, 0, 0, 2))] if self._note else []
        return Group(self._spinner, rows(self._job), *note)

    def _say(self, line: str) -> None:
        if not self._quiet:
            printing.say(line, err=True)


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
