"""The nodes of a run while it goes on: a bar on stderr that is drawn anew, or a line when a node ends."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import printing
from holdfast.cli.picture import Picture

running_shown = 8
bar_width = 30


class Nodes(Picture):
    """How many nodes have ended, and which are being worked on."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._told: set[str] = set()

    def head(self, now: dict[str, Any]) -> Text:
        text = Text.assemble((printing.clean(now["name"]), "bold"), "  ", (now["state"], "cyan"))
        return text.append(f"  {now['dag_id']}", "dim")

    def rows(self, now: dict[str, Any]) -> RenderableType:
        progress = now["progress"]
        ended = progress["completed"] + progress["failed"] + progress["canceled"]
        grid = Table.grid(padding=(0, 1, 0, 0))
        bar = ProgressBar(total=progress["total"], completed=ended, width=bar_width)
        grid.add_row(bar, Text(f"{ended} of {progress['total']}"), failed(progress))
        running = [one["name"] for one in now["nodes"] if one["state"] == "Running"]
        more = f" and {len(running) - running_shown} more" if len(running) > running_shown else ""
        under_way = Table.grid()
        under_way.add_row(grid)
        under_way.add_row(Text(printing.clean(", ".join(running[:running_shown])) + more, "cyan"))
        return Padding(under_way, (0, 0, 0, 2))

    def lines(self, now: dict[str, Any]) -> Iterator[str]:
        for node in now["nodes"]:
            if node["outcome"] and node["name"] not in self._told:
                self._told.add(node["name"])
                yield f"{node['name']}: {node['state']}" + (f": {node['error']}" if node["error"] else "")


def failed(progress: dict[str, int]) -> Text:
    number = progress["failed"] + progress["canceled"]
    return Text(f"{number} did not complete" if number else "", "red")
