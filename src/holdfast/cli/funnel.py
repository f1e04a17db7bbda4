"""How far the documents of a run are, step by step: a picture on stderr, or a line now and then."""

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.picture import Picture
from holdfast.lifecycles.ingest.declaration import STEPS

bar_width = 30
ENDS = {"done": "green", "failed": "red", "waiting": "magenta"}


class Funnel(Picture):
    """The bars of the steps."""

    def head(self, now: dict[str, Any]) -> Text:
        return head(now)

    def rows(self, now: dict[str, Any]) -> RenderableType:
        return Group(rows(now), money(now))

    def lines(self, now: dict[str, Any]) -> Iterable[str]:
        return self.now_and_then(in_words(now))


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
