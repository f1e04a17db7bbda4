"""Bars for bytes and for agents, on stderr. Where that is no terminal: a line when something is done."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from holdfast.cli import printing

if TYPE_CHECKING:
    from types import TracebackType

name_width = 28


class Bars:
    """What goes on, from upload to the last agent. `quiet` says nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        console = Console(stderr=True)
        text = TextColumn("{task.description}")
        self._bytes = Progress(text, BarColumn(30), DownloadColumn(), TransferSpeedColumn(), console=console)
        self._agents = Progress(SpinnerColumn(), text, BarColumn(30), MofNCompleteColumn(), console=console)
        self._bar: Any = None
        self._told: set[str] = set()

    def __enter__(self) -> "Bars":
        return self

    def __exit__(self, *_: "type[BaseException] | BaseException | TracebackType | None") -> None:
        self.stop()

    def stop(self) -> None:
        if self._live:
            self._bytes.stop()
            self._agents.stop()

    @contextlib.contextmanager
    def sending(self, name: str, size: int) -> Iterator[Callable[[int], None]]:
        """A bar for one file; call what it gives with the bytes that went."""
        if not self._live:
            yield lambda number: None
            self.sent(name, size)
            return
        self._bytes.start()
        bar = self._bytes.add_task(shortened(name), total=size)
        try:
            yield lambda number: self._bytes.advance(bar, number)
        except BaseException:
            self._bytes.remove_task(bar)
            raise

    def sent(self, name: str, size: int) -> None:
        self._say(f"uploaded {name} ({printing.size(size)})")

    def agents(self, status: dict[str, Any]) -> None:
        """Where the task is now."""
        detail = status["progress_detail"]
        if self._live:
            self._bytes.stop()
            self._agents.start()
            if self._bar is None:
                self._bar = self._agents.add_task("", total=detail["agents_total"])
            doing = detail["current_agent"] or status["display"]["label"]
            self._agents.update(self._bar, description=shortened(doing), completed=detail["agents_completed"])
        else:
            self._say(f"{status['status']}: {detail['agents_completed']} of {detail['agents_total']} agents")

    def note(self, line: str) -> None:
        """Something that whoever waits should know."""
        if self._live:
            self._agents.console.print(Text(printing.clean(line), "yellow"))
        else:
            self._say(line)

    def _say(self, line: str) -> None:
        if not self._live and not self._quiet and line not in self._told:
            self._told.add(line)
            printing.say(line, err=True)


def shortened(name: str) -> str:
    """A name in a column of its own width, as a terminal can show it."""
    shown = printing.clean(name).replace("[", "\\[")
    return f"{shown if len(shown) <= name_width else shown[: name_width - 1] + '…':<{name_width}}"
