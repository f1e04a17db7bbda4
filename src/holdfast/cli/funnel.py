"""How far the documents of a run are, step by step: a picture on stderr, or a line now and then."""

import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing
from holdfast.lifecycles.ingest.declaration import STEPS

if TYPE_CHECKING:
    from types import TracebackType

line_every_seconds = 5.0
bar_width = 30
ENDS = {"done": "green", "failed": "red", "waiting": "magenta"}


class Funnel:
    """The picture, from the first time that it is shown until the block ends. `quiet` shows nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._drawn = sys.stderr.isatty() and not quiet
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=10)
        self._spinner = Spinner("dots", style="cyan")
        self._note = ""
        self._line = ""
        self._next_line = 0.0

    def __enter__(self) -> "Funnel":
        return self

    def __exit__(self, *_: "type[BaseException] | BaseException | TracebackType | None") -> None:
        self._live.stop()

    def show(self, run: dict[str, Any]) -> None:
        """The run as it is now."""
        if self._drawn:
            self._spinner.update(text=head(run))
            note = [Padding(Text(self._note, "yellow"), (0, 0, 0, 2))] if self._note else []
            self._live.update(Group(self._spinner, rows(run), money(run), *note))
            self._live.start()
            return
        line, now = in_words(run), time.monotonic()
        if line != self._line and now >= self._next_line:
            self._line, self._next_line = line, now + line_every_seconds
            self._say(line)

    def note(self, sentence: str) -> None:
        """What it waits for; empty when it goes on. Drawn when it is shown next, said at once where nothing is."""
        said = printing.clean(sentence)
        if said and said != self._note and not self._drawn:
            self._say(said)
        self._note = said

    def _say(self, line: str) -> None:
        if not self._quiet:
            printing.say(line, err=True)


def head(run: dict[str, Any]) -> Text:
    number = run["item_count_total"]
    words = f"{number:,} document{'' if number == 1 else 's'}"
    return Text.assemble((words, "bold"), "  ", (run["status"], "cyan"), (f"  {run['run_id']}", "dim"))


def rows(run: dict[str, Any]) -> RenderableType:
    """A bar for each step and for each way in which documents rest."""
    total = run["item_count_total"]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for name, number, style in counted(run):
        bar = ProgressBar(total or 1, number, width=bar_width, complete_style=style, finished_style=style)
        table.add_row(Text(printing.clean(name)), bar, Text(f"{number:,}/{total:,}", "" if number else "dim"))
    return Padding(table, (0, 0, 0, 2))


def counted(run: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Each row: what it counts, how many, and the style of its bar."""
    steps = [(name, number, "cyan") for name, number in steps_of(run)]
    return steps + [(name, run[f"item_count_{name}"], style) for name, style in ENDS.items()]


def steps_of(run: dict[str, Any]) -> list[tuple[str, int]]:
    """How many have done each step. Steps of one's own come before PERSISTED."""
    own, persisted = sorted(run["steps"].keys() - set(STEPS)), STEPS.index("PERSISTED")
    return [(name, run["steps"].get(name, 0)) for name in (*STEPS[:persisted], *own, *STEPS[persisted:])]


def money(run: dict[str, Any]) -> RenderableType:
    return Padding(Text(f"cost {spent(run)}", "dim"), (0, 0, 0, 2))


def spent(run: dict[str, Any]) -> str:
    """What it has cost, and what it may."""
    cost, budget = run["cost_cents"], run["budget_cents"]
    return cents(cost) + ("" if budget is None else f" of a budget of {cents(budget)}")


def cents(amount: float) -> str:
    number = f"{amount:,.4f}".rstrip("0").rstrip(".") if 0 < amount < 1 else f"{amount:,.2f}".removesuffix(".00")
    return f"{number} cent{'' if number == '1' else 's'}"


def in_words(run: dict[str, Any]) -> str:
    """The same on one line: those who rest, then those on their way."""
    ends = [f"{number} {name}" for name in ENDS if (number := run[f"item_count_{name}"])]
    steps = "".join(f" {name} {number}" for name, number in steps_of(run) if number)
    told = f"{run['status']}: {', '.join(ends) or '0 done'} of {run['item_count_total']}"
    return f"{told};{steps}" if steps else told
