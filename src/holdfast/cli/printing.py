"""How answers look: colour and columns that fit for a terminal, whole plain lines for everything else.

Whatever was written by others (names, errors, payloads) is cleaned here, in the one place that prints: it is never read
as markup, and what would steer a terminal is written out.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import typer

Part = str | tuple[str, str]
"""Text, or text and the style it has on a terminal."""

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


MARKS = {
    "done": ("\u2713", "green"),
    "partial": ("\u25d0", "yellow"),
    "failed": ("\u2717", "red"),
    "cancelled": ("\u2298", "dim"),
    "owner": ("\u25c6", "magenta"),
    "tasks": ("\u25cc", "blue"),
    "worker": ("\u25cf", "cyan"),
    "clock": ("\u25cb", "yellow"),
}

narrowest = 6
longest_line = 76


def on_terminal() -> bool:
    return sys.stdout.isatty()


def readable(sentence: str) -> str:
    """A sentence of the database, with its times to the second."""
    return re.sub(r"(\d\d:\d\d:\d\d)(?:\.\d+)?\+00\b", r"\1 UTC", sentence)


def clean(text: str, *, lines: bool = False) -> str:
    """Text that a terminal only shows. With `lines`, line breaks stay."""
    kept = "\n" if lines else ""
    return STEERING.sub(lambda sign: sign[0] if sign[0] in kept else ascii(sign[0])[1:-1], text)


def cleaned(part: Part) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return clean(text), style


def state(task: Mapping[str, Any], *, err: bool = False) -> Part:
    """The state of a task; on a terminal with a sign and a colour for how it ended, or who acts next."""
    sign, style = MARKS[task["outcome"] or task["actor"]]
    return (f"{sign} {task['state']}", style) if (sys.stderr if err else sys.stdout).isatty() else task["state"]


def say(*parts: Part, err: bool = False) -> None:
    """Print one line."""
    given = [cleaned(part) for part in parts]
    if (sys.stderr if err else sys.stdout).isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=err).print(Text.assemble(*given))
    else:
        typer.echo("".join(text for text, _ in given).rstrip(), err=err)


def block(text: str, *, most: int) -> None:
    """Print lines as they are, set in, up to `most` characters."""
    left = len(text) - most
    for line in clean(text[:most], lines=True).splitlines():
        say(f"  {line}")
    if left > 0:
        say((f"  ... {left} more characters: --json has all", "dim"))


def size(number: int) -> str:
    """A number of bytes, as people say it."""
    shown = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if shown < 1000 or unit == "GB":
            return f"{shown:.0f} {unit}" if unit == "bytes" else f"{shown:.1f} {unit}"
        shown /= 1000
    raise AssertionError  # pragma: no cover - the last unit takes them all


def answer(value: Any) -> None:
    """Print JSON: on one line, unless that is too long for a person."""
    text = to_json(value)
    typer.echo(to_json(value, indent=2) if on_terminal() and len(text) > longest_line else text)


def to_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=plain)


def plain(value: Any) -> Any:
    """How JSON carries what it has no form for."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)


def pretty(value: Any) -> str:
    """A value for people: on one line if it is short."""
    flat = json.dumps(value, ensure_ascii=False)
    return flat if len(flat) <= longest_line else json.dumps(value, ensure_ascii=False, indent=2)


def table(heads: Sequence[str], rows: Sequence[Sequence[Part]], *, elastic: Sequence[str] = ()) -> None:
    """Print rows under their heads. Where a terminal is too narrow, the `elastic` columns are cut, the widest first."""
    lines = [[(head, "dim") for head in heads], *([cleaned(cell) for cell in row] for row in rows)]
    if not on_terminal():
        widths = [max(len(text) for text, _ in column) for column in zip(*lines, strict=True)]
        for line in lines:
            typer.echo("  ".join(text.ljust(width) for (text, _), width in zip(line, widths, strict=True)).rstrip())
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console()
    widths = [max(cell_len(text) for text, _ in column) for column in zip(*lines, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > console.width:
        widest = max((place for place, head in enumerate(heads) if head in elastic), key=lambda place: widths[place])
        if widths[widest] <= narrowest:
            break
        widths[widest] -= 1
    for line in lines:
        printed = Text()
        for (text, style), width in zip(line, widths, strict=True):
            cell = Text(text, style)
            cell.truncate(width, overflow="ellipsis", pad=True)
            printed.append_text(cell).append("  ")
        printed.rstrip()
        console.print(printed, soft_wrap=True)


def facts(pairs: Sequence[tuple[str, Part]]) -> None:
    """Print values behind their names; on a terminal a long one goes on below itself."""
    if not on_terminal():
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            typer.echo(f"{name:<{width}}  {cleaned(value)[0]}".rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, Text(*cleaned(value)))
    Console().print(grid)


def age(then: datetime, now: datetime) -> str:
    """How long ago, or in how long."""
    if abs(now - then) < timedelta(seconds=1):
        return "now"
    return f"{lasting(now - then)} ago" if then < now else f"in {lasting(then - now)}"


def lasting(span: timedelta, *, fine: bool = False) -> str:
    """A length of time in its largest unit; with `fine` in its two largest, and exact where it is short."""
    seconds = max(span.total_seconds(), 0)
    if fine and seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if fine and seconds < 9.95:
        return f"{seconds:.1f} s"
    left, words = round(seconds), []
    for size, name in UNITS:
        if left >= size:
            words.append(f"{left // size} {name}")
            left %= size
    return " ".join(words[: 2 if fine else 1]) or "0 s"


def shown(moment: datetime) -> str:
    """A point in time: local and short on a terminal, ISO 8601 elsewhere."""
    if not on_terminal():
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    local = moment.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == datetime.now().date() else "%Y-%m-%d %H:%M:%S")
