"""How work goes on: a picture on stderr that is drawn anew while it changes; lines where that is no terminal."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from holdfast.cli import printing

if TYPE_CHECKING:
    from types import TracebackType

line_every_seconds = 5.0


class Picture(ABC):
    """From the first time that it is shown until the block ends. `quiet` shows nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._drawn = sys.stderr.isatty() and not quiet
        self._spinner = Spinner("dots", style="cyan")
        self._now: dict[str, Any] = {}
        self._note = ""
        self._line = ""
        self._next_line = 0.0
        self._live = Live(
            console=Console(stderr=True), transient=True, refresh_per_second=8, get_renderable=self._picture
        )

    @abstractmethod
    def head(self, now: dict[str, Any]) -> Text:
        """The first line, beside what turns."""

    @abstractmethod
    def rows(self, now: dict[str, Any]) -> RenderableType:
        """What stands below it."""

    @abstractmethod
    def lines(self, now: dict[str, Any]) -> Iterable[str]:
        """What to say now where nothing is drawn."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: "type[BaseException] | BaseException | TracebackType | None") -> None:
        self._live.stop()

    def show(self, now: dict[str, Any]) -> None:
        """The work as it is now."""
        self._now = now
        if self._drawn:
            self._live.start()
            return
        for line in self.lines(now):
            self._say(line)

    def note(self, sentence: str) -> None:
        """What it waits for; empty when it goes on. Drawn with the picture, said at once where nothing is."""
        said = printing.clean(sentence)
        if said and said != self._note and not self._drawn:
            self._say(said)
        self._note = said

    def now_and_then(self, line: str) -> Iterable[str]:
        """The line, unless it was said already, or another one a moment ago."""
        now = time.monotonic()
        if line != self._line and now >= self._next_line:
            self._line, self._next_line = line, now + line_every_seconds
            yield line

    def _picture(self) -> RenderableType:
        if not self._now:
            return Text()
        self._spinner.update(text=self.head(self._now))
        note = [Padding(Text(self._note, "yellow"), (0, 0, 0, 2))] if self._note else []
        return Group(self._spinner, self.rows(self._now), *note)

    def _say(self, line: str) -> None:
        if not self._quiet:
            printing.say(line, err=True)
