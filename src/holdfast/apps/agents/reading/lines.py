"""JSON Lines: one object in each line, rewritten as delimited text with a column for every key.

Each line is parsed by Python's own JSON, so that a wrong one is named and a key that comes late is a column like the
others. That is slower than CSV (bench/profiles.py has the figure). A value inside a value is kept as its JSON.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from holdfast.apps.agents.reading.delimited import check_names, columns_most
from holdfast.lifecycles.analysis.tools import wrong_format

ALLOWED = {bool: ("boolean",), int: ("integer", "decimal"), float: ("decimal",), str: ("date", "datetime")}


def looks_like_lines(start: bytes) -> bool:
    """Whether the first line holds a JSON object."""
    first = next((line for line in start.splitlines() if line.strip()), b"")
    if not first.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return b'":' in first or b'" :' in first


def rewrite(path: Path, name: str, target: Path) -> tuple[list[str], list[tuple[str, ...]], int]:
    """Write the objects as rows. Returns the names of the columns, which kinds each may be, and the number of rows.

    A row is as long as the keys known when it was met. Raises SchemaInvalid, naming the line.
    """
    places: dict[str, int] = {}
    types: dict[str, set[type]] = {}
    rows = 0
    with path.open(encoding="utf-8-sig", newline="\n") as source, target.open("w", encoding="utf-8") as sink:
        for line, found in objects(source, name):
            rows += 1
            fields = [""] * len(places)
            for key, value in found.items():
                if key not in places:
                    places[key] = len(fields)
                    fields.append("")
                    if len(places) > columns_most:
                        raise wrong_format(f"{name}: by line {line} there are more than {columns_most:,} keys.")
                    check_names(f"{name}, line {line}", [key])
                if value is not None:
                    types.setdefault(key, set()).add(type(value))
                    fields[places[key]] = field(value)
            sink.write(",".join(fields) + "\n")
    return [clean(key) for key in places], [allowed_types(types.get(key, set())) for key in places], rows


def objects(source: Iterator[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in enumerate(source, start=1):
        if not text.strip():
            continue
        try:
            found = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise wrong_format(f"{name}: line {line} is not JSON: {reason(error)}.") from None
        if not isinstance(found, dict):
            raise wrong_format(
                f'{name}: line {line} is not a JSON object: write one in each line, such as {{"price": 3}}.'
            )
        yield line, found


def reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[0].lower()}{error.msg[1:]} at character {error.pos + 1}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def field(value: Any) -> str:
    """A value as a quoted field, so that an empty text is not a missing one."""
    if isinstance(value, int | float):
        return str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + clean(text).replace('"', '""') + '"'


def clean(text: str) -> str:
    """Without the halves of characters that JSON can hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def allowed_types(types: set[type]) -> tuple[str, ...]:
    """What a column may be: digits in quotes were meant as a text."""
    if not types:
        return ()
    return tuple(set.intersection(*(set(ALLOWED.get(kind, ())) for kind in types)))
