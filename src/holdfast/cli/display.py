"""How a task goes, on a terminal: a few lines on stderr that are drawn anew and vanish at the end."""

from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from holdfast.cli.graphs import ACTORS
from holdfast.cli.printing import MARKS, clean, readable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from holdfast.engine.task import Explanation, Step

steps_shown = 8
nodes_shown = 20
URGENT = ("Running", "Failed", "Dead", "Queued", "Blocked")


class Display:
    """The lines, from the first that is shown until the block ends."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=10)
        self._spinner = Spinner("dots")

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: "type[BaseException] | BaseException | TracebackType | None") -> None:
        self._live.stop()

    def show(
        self, task: dict[str, Any], why: "Explanation", steps: "list[Step]", nodes: "Sequence[dict[str, Any]]" = ()
    ) -> None:
        """Draw the task as it is now; a run with its nodes."""
        self._spinner.update(text=head(task), style=MARKS[task["actor"]][1])
        lines: list[RenderableType] = [self._spinner, indented(readable(clean(why.sentence)), "dim")]
        if bar := progress(task["progress"]):
            lines.append(bar)
        if done := [clean(step.name) for step in steps if step.done]:
            left = len(done) - steps_shown
            more = f"  and {left} before" if left > 0 else ""
            lines.append(indented(f"{'  '.join(f'✓ {name}' for name in done[-steps_shown:])}{more}", "green"))
        if nodes:
            lines.append(rows_of(nodes))
        self._live.update(Group(*lines))
        self._live.start()


def indented(text: str, style: str) -> RenderableType:
    return Padding(Text(text, style), (0, 0, 0, 2))


def head(task: dict[str, Any]) -> Text:
    text = Text.assemble((clean(task["name"]), "bold"), "  ", (clean(task["state"]), MARKS[task["actor"]][1]))
    if task["max_attempts"] > 1:
        text.append(f"  attempt {task['attempt']} of {task['max_attempts']}", "dim")
    return text.append(f"  {task['id']}", "dim")


def rows_of(nodes: "Sequence[dict[str, Any]]") -> RenderableType:
    """A line for each node: its state and attempt. Of very many those that say most, in their order."""
    chosen = sorted(nodes, key=lambda one: order_of(one["state"]))[:nodes_shown] if len(nodes) > nodes_shown else nodes
    grid = Table.grid(padding=(0, 2, 0, 0))
    for one in nodes:
        if one in chosen:
            sign, style = MARKS[one["outcome"] or ACTORS.get(one["state"], "worker")]
            tries = f"attempt {one['attempt']} of {one['max_attempts']}" if one["attempt"] > 1 else ""
            name = Text(f"{sign} {clean(one['name'])}", style)
            grid.add_row(
                name, Text(clean(one["state"]), style), Text(tries, "dim"), Text(clean(one["error"] or ""), "dim")
            )
    if len(chosen) < len(nodes):
        grid.add_row(Text(f"  and {len(nodes) - len(chosen):,} more", "dim"))
    return Padding(grid, (0, 0, 0, 2))


def order_of(state: str) -> int:
    return URGENT.index(state) if state in URGENT else len(URGENT)


def progress(told: Any) -> RenderableType | None:
    """What the worker told: a bar if it said how much there is to do, a line if not, nothing if it makes no sense."""
    if not isinstance(told, dict):
        return None
    done, total = told.get("done"), told.get("total")
    note = clean(str(told.get("note") or told.get("step") or ""))
    row = Table.grid(padding=(0, 1))
    if isinstance(done, (int, float)) and isinstance(total, (int, float)) and total > 0:
        row.add_row(" ", ProgressBar(total, min(done, total), width=30), f"{done:g}/{total:g}", Text(note))
    elif isinstance(done, (int, float)):
        row.add_row(" ", f"{done:g}", Text(note))
    elif note:
        row.add_row(" ", Text(note))
    else:
        return None
    return row
