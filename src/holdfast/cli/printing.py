"""How answers look: colour and columns that fit for a terminal, whole plain lines for everything else.

Whatever was written by others (names, errors, payloads) is cleaned here, in the one place that prints: it is never read
as markup, and what would steer a terminal is written out.
"""

import dataclasses
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import typer

Cell = str | tuple[str, str]
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
    "waiting": ("\u00b7", "dim"),
    "running": ("\u25cf", "cyan"),
    "completed": ("\u2713", "green"),
    "skipped": ("\u2013", "dim"),
}
"""The sign and colour of an outcome, of the one who acts next, and of the status of a part."""

narrowest = 6
longest_line = 76


def is_terminal() -> bool:
    return sys.stdout.isatty()


def shorten_times(sentence: str) -> str:
    """A sentence of the database, with its times to the second."""
    return re.sub(r"(\d\d:\d\d:\d\d)(?:\.\d+)?\+00\b", r"\1 UTC", sentence)


def clean(text: str, *, lines: bool = False) -> str:
    """Text that a terminal only shows. With `lines`, line breaks stay."""
    kept = "\n" if lines else ""
    return STEERING.sub(lambda sign: sign[0] if sign[0] in kept else ascii(sign[0])[1:-1], text)


def clean_cell(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return clean(text), style


def format_state(task: Mapping[str, Any], *, err: bool = False) -> Cell:
    """The state of a task; on a terminal with a sign and a colour for how it ended, or who acts next."""
    sign, style = MARKS[task["outcome"] or task["actor"]]
    return (f"{sign} {task['state']}", style) if (sys.stderr if err else sys.stdout).isatty() else task["state"]


def print_line(*cells: Cell, err: bool = False) -> None:
    """Print one line."""
    given = [clean_cell(cell) for cell in cells]
    if (sys.stderr if err else sys.stdout).isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=err).print(Text.assemble(*given))
    else:
        typer.echo("".join(text for text, _ in given).rstrip(), err=err)


def print_block(text: str, *, most: int) -> None:
    """Print lines as they are, set in, up to `most` characters."""
    left = len(text) - most
    for line in clean(text[:most], lines=True).splitlines():
        print_line(f"  {line}")
    if left > 0:
        print_line((f"  ... {left} more characters: --json has all", "dim"))


def format_size(number: int) -> str:
    """A number of bytes, as people write it."""
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError  # pragma: no cover - the last unit takes them all


def print_json(value: Any) -> None:
    """Print JSON: on one line, unless that is too long for a person."""
    text = to_json(value)
    typer.echo(to_json(value, indent=2) if is_terminal() and len(text) > longest_line else text)


async def print_answer(answers: AsyncIterator[object], *, as_json: bool) -> None:
    """Of what is yielded once as JSON and then printed for people, the one or the other."""
    async for answer in answers:
        if as_json:
            print_json(answer)
            break


def to_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=json_default)


def json_default(value: Any) -> Any:
    """How JSON carries what it has no form for."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    return vars(value) if dataclasses.is_dataclass(value) else str(value)


def format_json(value: Any) -> str:
    """A value for people: on one line if it is short."""
    flat = json.dumps(value, ensure_ascii=False)
    return flat if len(flat) <= longest_line else json.dumps(value, ensure_ascii=False, indent=2)


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    elastic: Sequence[str] = (),
    right: Sequence[str] = (),
    none: Sequence[Cell] = (),
) -> None:
    """Print rows under their heads; without any, what there is to say of `none`, if that is given.

    Where a terminal is too narrow, the `elastic` columns are cut, the widest first. Those on the `right` end there.
    """
    if none and not rows:
        print_line(*none, err=True)
        return
    lines = [[(head, "dim") for head in heads], *([clean_cell(cell) for cell in row] for row in rows)]
    for place in (heads.index(head) for head in right):
        width = max(len(line[place][0]) for line in lines)
        for line in lines:
            line[place] = (line[place][0].rjust(width), line[place][1])
    if not is_terminal():
        widths = [max(len(text) for text, _ in column) for column in zip(*lines, strict=True)]
        for line in lines:
            typer.echo("  ".join(text.ljust(width) for (text, _), width in zip(line, widths, strict=True)).rstrip())
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console()
    widths = [max(cell_len(text) for text, _ in column) for column in zip(*lines, strict=True)]
    elastic_places = [place for place, head in enumerate(heads) if head in elastic]
    while sum(widths) + 2 * (len(widths) - 1) > console.width:
        widest = max(elastic_places, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= narrowest:
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


def print_links(files: Sequence[Mapping[str, Any]]) -> None:
    """Files with their links. On a terminal a link has a line of its own, whole, so that it can be clicked on."""
    labels = {"name": "file", "stage": "stage", "bytes": "size"}
    kept = [name for name in labels if files and name in files[0]]
    rows = [[*(format_size(one[name]) if name == "bytes" else one[name] for name in kept), one["url"]] for one in files]
    if rows and not is_terminal():
        print_table([*(labels[name] for name in kept), "link"], rows)
    elif rows:
        print_line(("files, by links that are good for an hour", "dim"))
        for *about, url in rows:
            print_line("  ".join(about))
            typer.echo(f"  {clean(url)}")


def print_facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print what has a value, behind its name; on a terminal a long value goes on below itself."""
    given = [(name, clean_cell(value)) for name, value in pairs if value]
    if not is_terminal():
        width = max(len(name) for name, _ in given)
        for name, (text, _) in given:
            typer.echo(f"{name:<{width}}  {text}".rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in given:
        grid.add_row(name, Text(*value))
    Console().print(grid)


def print_columns(columns: Mapping[str, Sequence[Cell]], *, elastic: Sequence[str] = ()) -> None:
    """Print a table by its columns. One with nothing in it is left out; without a row nothing is printed."""
    kept = {name: cells for name, cells in columns.items() if any(clean_cell(cell)[0] for cell in cells)}
    if kept:
        print_table(list(kept), list(zip(*kept.values(), strict=True)), elastic=elastic)


def print_more(number: int, how: str = "--json has all", *, err: bool = False) -> None:
    """A line about what was left out of a list; nothing if that is nothing."""
    if number > 0:
        print_line((f"... and {number:,} more: {how}", "dim"), err=err)


def print_started(task_id: str, label: str) -> None:
    """The id of a task; for a person also what it is, and how to follow it."""
    if not is_terminal():
        typer.echo(task_id)
        return
    print_line(label, (task_id, "bold"))
    print_line((f"Follow it: holdfast watch {task_id}", "dim"))


def to_moment(given: str | datetime) -> datetime:
    return datetime.fromisoformat(given) if isinstance(given, str) else given


def format_age(then: str | datetime, now: str | datetime | None = None) -> str:
    """How long ago, or in how long."""
    since = (to_moment(now) if now else datetime.now(UTC)) - to_moment(then)
    if abs(since) < timedelta(seconds=1):
        return "now"
    return f"{format_duration(since)} ago" if since > timedelta(0) else f"in {format_duration(-since)}"


def format_duration(span: timedelta, *, fine: bool = False) -> str:
    """A length of time in its largest unit; with `fine` in its two largest, and exact where it is short."""
    seconds = max(span.total_seconds(), 0)
    if fine and seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if fine and seconds < 9.95:
        return f"{seconds:.1f} s"
    left, found = round(seconds), []
    for size, name in UNITS:
        if left >= size:
            found.append(f"{left // size} {name}")
            left %= size
    return " ".join(found[: 2 if fine else 1]) or "0 s"


def format_took(began: str | datetime | None, ended: str | datetime | None) -> str:
    """How long it took; empty unless it has begun and ended."""
    return format_duration(to_moment(ended) - to_moment(began), fine=True) if began and ended else ""


def format_time(given: str | datetime) -> str:
    """A point in time: local and short on a terminal, ISO 8601 elsewhere."""
    moment = to_moment(given)
    if not is_terminal():
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    local = moment.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == datetime.now().date() else "%Y-%m-%d %H:%M:%S")


def format_when(then: str | datetime, now: str | datetime) -> str:
    """A point in time, and how long ago or in how long that is."""
    return f"{format_time(then)}, {format_age(then, now)}"


def format_amount(cents: Decimal | float) -> str:
    """A number of cents: to the hundredth; where it is less than a cent, to its third digit."""
    exact = Decimal(str(cents))
    places = 2 if exact >= 1 or exact == 0 else 2 - exact.adjusted()
    whole, _, rest = f"{exact:,.{places}f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def format_cents(cents: Decimal | float) -> str:
    return f"{format_amount(cents)} cents" if cents else "0 cents"


def format_cost(of: Mapping[str, Any]) -> str:
    """What it has cost; empty if that is nothing, or not known."""
    return format_cents(of["cost_cents"]) if of.get("cost_cents") else ""


def count(number: int, noun: str) -> str:
    """A number of things: `1 file`, `1,200 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
