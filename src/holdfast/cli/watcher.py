"""Watching: what runs is looked at until it has ended, and looks the same whatever it is.

On a terminal a few lines on stderr are drawn again and again and vanish at the end: a head with name, status and id, a
row for each part, a note that says why it waits. Elsewhere each change is a line. What follows the end (a table of
what failed, links to files) belongs to the command.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.access import Server
from holdfast.cli.printing import (
    MARKS,
    Cell,
    clean,
    format_cents,
    format_state,
    format_took,
    print_answer,
    print_json,
    print_line,
    shorten_times,
)
from holdfast.errors import HoldfastError, ServerUnreachable

if TYPE_CHECKING:
    from uuid import UUID

    from rich.console import RenderableType


Status = dict[str, Any]
Part = Mapping[str, Any]
T = TypeVar("T")

OUTCOMES = {
    "COMPLETED": "done", "PARTIAL": "partial", "PARTIAL_COMPLETE": "partial", "FAILED": "failed",
    "EXPIRED": "failed", "UPLOAD_FAILED": "refused", "CANCELLED": "cancelled", "CANCELED": "cancelled",
}  # fmt: skip
EXIT_CODES = {"done": 0, "failed": 1, "refused": 4, "partial": 6, "cancelled": 7}
TIMED_OUT = 124
NOT_TAKEN_UP = ("no_worker", "unknown_task", "queue_paused")
URGENT = ("running", "failed", "partial", "waiting")

soonest_seconds = 0.1
latest_seconds = 1.0
wonder_after_seconds = 3.0
wonder_again_seconds = 5.0
away_most_seconds = 300.0
parts_drawn = 15
bar_width = 24
line_every_seconds = 5.0


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What the server works on and is followed to its end: how to ask for one of these, and what to say of it."""

    path: str
    id_field: str
    name: Callable[[Status], str]
    why: Callable[[Server, Status], Awaitable[str]]
    """Why it does not go on; empty if it does. Asked when nothing has changed for a while."""
    following: str
    """The command that follows one; its id goes behind."""
    cancelling: str = ""
    is_claimed: bool = False
    """Whether a worker takes it up, and it is worth knowing at once if none does."""
    remark: Callable[[Status], str] = lambda status: ""
    """What there is to say whenever something has changed."""
    detail: Callable[[Status], str] = lambda status: ""
    rename: Callable[[Status], Status] = lambda status: status

    async def follow(
        self,
        server: Server,
        begun: Status,
        patience: timedelta | None,
        end: Callable[[Server, Status], AsyncIterator[object]],
        *,
        wait: bool,
        as_json: bool,
    ) -> int:
        """One has begun: wait for its end if that was asked, or say how to follow it; the exit code.

        `end` yields what --json prints, then prints for people how it has ended.
        """
        if wait:
            status = await watch(server, self, begun[self.id_field], patience, quiet=as_json)
            await print_answer(end(server, status), as_json=as_json)
            return exit_code(status)
        if as_json:
            print_json(begun)
            return 0
        print_line(str(begun[self.id_field]))
        print_line(("Follow it: ", "dim"), (f"{self.following} {begun[self.id_field]}", "bold"), err=True)
        if self.is_claimed:
            because = await server.ask("GET", f"/api/v1/tasks/{begun[self.id_field]}/why")
            if because["reason"] in NOT_TAKEN_UP:
                print_line(sentence_of(because), err=True)
        return 0

    def print_how_to_follow(self, id_: "UUID | str") -> None:
        print_line("It goes on. Follow it: ", (f"{self.following} {id_}", "bold"), err=True)
        if self.cancelling:
            print_line("Cancel it: ", (f"{self.cancelling} {id_}", "bold"), err=True)

    async def print_end(
        self, server: Server, status: Status, summary: str, again: tuple[str, str] | None = None
    ) -> None:
        """How one has ended, in a line or two beside the answer; if it has not, how to go on and what it waits for."""
        error = f" {status['error'].rstrip('.')}." if status.get("error") else ""
        cost = f"; cost {format_cents(status['cost_cents'])}" if "cost_cents" in status else ""
        took = format_took(status.get("started_at") or status["created_at"], status["finished_at"])
        line = f":{error} {summary}{cost}{f', {took}' if took else ''}"
        print_line(format_status(status, err=True), line, (f"  {status[self.id_field]}", "dim"), err=True)
        if not outcome_of(status):
            print_line("Not in time.", err=True)
            self.print_how_to_follow(status[self.id_field])
            if why := await self.why(server, status):
                print_line(why, err=True)
        elif again:
            label, command = again
            print_line(f"{label}:", err=True)
            print_line((f"  {command}", "bold"), err=True)


def status_of(status: Mapping[str, Any]) -> str:
    return str(status.get("status") or status["state"])


def outcome_of(status: Mapping[str, Any]) -> str | None:
    """How it has ended; None if it goes on."""
    return OUTCOMES.get(status_of(status).upper())


def exit_code(status: Mapping[str, Any]) -> int:
    return EXIT_CODES.get(outcome_of(status) or "", TIMED_OUT)


def format_status(status: Mapping[str, Any], *, actor: str = "worker", err: bool = False) -> Cell:
    """Its status; on a terminal with a sign and a colour."""
    return format_state({"state": status_of(status), "outcome": outcome_of(status), "actor": actor}, err=err)


async def watch(server: Server, it: Watched, id_: "UUID | str", patience: timedelta | None, *, quiet: bool) -> Status:
    """Show how it goes until it has ended, or patience has; its status then. Raises what the server answers."""
    import asyncio

    async def look() -> Status:
        found = it.rename(await server.ask("GET", f"{it.path}/{id_}"))
        if len(found["parts"]) > 1000 and not outcome_of(found):
            await asyncio.sleep(len(found["parts"]) / 1000)  # they are many to read, for the server too
        return found

    last: Status = {}
    wonder_at = 0.0
    try:
        with Display(quiet=quiet) as display:
            async for now in poll(look, patience, lambda now: outcome_of(now) is not None, display.note):
                status = status_of(now) + (", cancel requested" if now.get("cancel_requested") else "")
                display.show(it.name(now), status, str(id_), now["parts"], detail=it.detail(now))
                if now != last:
                    last, wonder_at = now, time.monotonic() + wonder_after_seconds
                    display.note(it.remark(now))
                elif time.monotonic() >= wonder_at and not outcome_of(now):
                    wonder_at = time.monotonic() + wonder_again_seconds
                    display.note(await it.why(server, now))
    except ServerUnreachable:
        print_line("Follow it when the server is back: ", (f"{it.following} {id_}", "bold"), err=True)
        raise
    except (asyncio.CancelledError, HoldfastError):
        it.print_how_to_follow(id_)
        raise
    return last


async def poll(
    look: Callable[[], Awaitable[T]],
    patience: timedelta | None,
    is_over: Callable[[T], bool],
    note: Callable[[str], None] = lambda sentence: None,
) -> AsyncIterator[T]:
    """Look until it is over or patience is: soon again while something changes, later while nothing does.

    Raises ServerUnreachable for a server that stays away.
    """
    import asyncio

    now = asyncio.get_running_loop().time
    until = math.inf if patience is None else now() + patience.total_seconds()
    before, pause, away_since = None, soonest_seconds, None
    while True:
        try:
            found = await look()
        except ServerUnreachable:  # it may only be starting again
            away_since = away_since or now()
            if now() >= min(until, away_since + away_most_seconds):
                raise
            note("The server does not answer. It is asked again; what has begun goes on when it is back.")
        else:
            away_since = None
            yield found
            if is_over(found) or now() >= until:
                return
            pause = soonest_seconds if found != before else min(pause * 1.3, latest_seconds)
            before = found
        await asyncio.sleep(max(0, min(pause, until - now())))


async def why_waiting(server: Server, task: "UUID | str", *, name: str = "") -> str:
    """Why a task does not go on, and what to do about it; empty if a worker has it."""
    why = await server.ask("GET", f"/api/v1/tasks/{task}/why")
    return "" if why["reason"] == "leased" else name + sentence_of(why)


def sentence_of(why: Mapping[str, Any]) -> str:
    """What it waits for, and what to do about it."""
    return shorten_times(f"{why['sentence']} {why['fix']}").rstrip()


class Display:
    """What is drawn on stderr, or printed line by line where that is no terminal. `quiet` prints nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live: Any = None
        self._head: Any = None
        self._rows: RenderableType | str = ""
        self._note = ""
        self._statuses: dict[str, str] = {}
        self._summary = ""
        self._summary_at = 0.0

    def __enter__(self) -> "Display":
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.live import Live
            from rich.spinner import Spinner

            self._head = Spinner("dots", style="cyan")
            self._live = Live(
                console=Console(stderr=True), transient=True, refresh_per_second=8, get_renderable=self._draw
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, name: str, status: str, of: str, parts: Sequence[Part], *, detail: str = "") -> None:
        """Show it as it is now."""
        if self._live:
            from rich.text import Text

            head = Text.assemble((clean(name), "bold"), "  ", (clean(status), "cyan"), "  ", (clean(detail), "dim"))
            self._head.update(text=head.append(f"{'  ' if detail else ''}{of}", "dim"))
            self._rows = rows_of(parts)
            self._live.start()
        elif not self._quiet:
            for line in self._changes(parts):
                print_line(line, err=True)

    def note(self, sentence: str) -> None:
        """Why it waits; empty when it goes on. Drawn below the parts; elsewhere printed once."""
        text = clean(sentence)
        if text and text != self._note and not self._live and not self._quiet:
            print_line(text, err=True)
        self._note = text

    def _changes(self, parts: Sequence[Part]) -> Iterable[str]:
        """A line for each part whose status is another now. Of very many, how many are where, every few seconds."""
        if len(parts) > parts_drawn:
            summary = count_statuses(parts)
            if summary != self._summary and time.monotonic() >= self._summary_at:
                self._summary, self._summary_at = summary, time.monotonic() + line_every_seconds
                yield f"{len(parts):,} parts: {summary}"
            return
        for part in parts:
            if self._statuses.get(part["name"], "waiting") != part["status"]:
                yield f"{part['name']}: {describe(part)}"
            self._statuses[part["name"]] = part["status"]

    def _draw(self) -> "RenderableType":
        from rich.console import Group
        from rich.padding import Padding
        from rich.text import Text

        note = [Padding(Text(self._note, "yellow"), (0, 0, 0, 2))] if self._note else []
        return Group(self._head, self._rows, *note) if self._rows else Text()


def rows_of(parts: Sequence[Part]) -> "RenderableType":
    """A row for each part: its mark, its name, a bar if it counts, what there is to say. Of many the urgent ones."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    chosen = sorted(parts, key=urgency)[:parts_drawn]
    table = Table.grid(padding=(0, 1, 0, 0))
    has_bars = any(part["total"] for part in chosen)
    for _ in range(3 if has_bars else 2):
        table.add_column(no_wrap=True)
    if has_bars:
        table.add_column(no_wrap=True, justify="right")
    table.add_column()  # the only one that gives way on a narrow terminal
    for part in (one for one in parts if one in chosen):
        sign, style = MARKS[part["status"]]
        cells: list[RenderableType] = [Text(sign, style), Text(clean(part["name"]), "dim" if style == "dim" else "")]
        if has_bars and part["total"]:
            done = min(part["done"] or 0, part["total"])
            bar = ProgressBar(part["total"], done, width=bar_width, complete_style=style, finished_style=style)
            cells += [bar, Text(f"{done:,g}/{part['total']:,g}", "" if done else "dim")]
        elif has_bars:
            cells += ["", ""]
        since = part.get("started_at") if part["status"] == "running" else None
        took = f", {format_took(since, datetime.now(UTC))}" if since else ""
        text = Text(clean(describe(part, counts=not part["total"]) + took), style, no_wrap=True, overflow="ellipsis")
        table.add_row(*cells, text)
    rest = [one for one in parts if one not in chosen]
    more = [Text(f"and {len(rest):,} more: {count_statuses(rest)}", "dim")] if rest else []
    return Padding(Group(table, *more), (0, 0, 0, 2))


def urgency(part: Part) -> int:
    return URGENT.index(part["status"]) - bool(part["error"]) if part["status"] in URGENT else len(URGENT)


def count_statuses(parts: Sequence[Part]) -> str:
    counts = Counter(part["status"] for part in parts)
    return ", ".join(f"{number:,} {status}" for status, number in counts.most_common())


def describe(part: Part, *, counts: bool = True) -> str:
    """The status of a part, how far it is, its note and its error."""
    far = f" {part['done'] or 0:,g}/{part['total']:,g}" if counts and part["total"] else ""
    note = f", {part['note']}" if part["note"] else ""
    return f"{part['status']}{far}{note}" + (f": {part['error']}" if part["error"] else "")


def part(name: str, status: str, **more: Any) -> Part:
    """A part in the form in which servers answer it."""
    return {"name": name, "status": status, "done": None, "total": None, "note": None, "error": None, **more}
