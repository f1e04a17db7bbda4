"""JSON as a person types it: a payload, parameters as KEY=VALUE, a file, stdin, or an editor."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from holdfast.errors import PayloadInvalid, RequestInvalid


def read_json(given: str) -> Any:
    """JSON as it is written, from stdin or from a file. Raises PayloadInvalid with the place of the mistake."""
    if given == "-":
        return parse_json("stdin", sys.stdin.read())
    if given.startswith("@"):
        return parse_json(given[1:], read_file(given[1:]))
    return parse_json("The argument", given)


def read_new_payload(given: str) -> Any:
    """Another payload for a task. Raises PayloadInvalid, also for null: that would leave the one that it has."""
    value = read_json(given)
    if value is None:
        raise PayloadInvalid("null is not another payload.", fix="Leave it out: then the task keeps the one it had.")
    return value


def read_params(given: str | None) -> dict[str, Any]:
    """Parameters as they are written, or from a file. Raises PayloadInvalid or RequestInvalid."""
    if given is None:
        return {}
    is_written = given.lstrip().startswith("{")
    found = parse_json("--params" if is_written else given, given if is_written else read_file(given))
    if not isinstance(found, dict):
        raise RequestInvalid(f"{'--params' if is_written else given} is not an object.", fix='Write {"name": value}.')
    return found


def read_pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """KEY=VALUE, each value as the JSON it is, or else as text. A usage error names the mistake."""
    found: dict[str, Any] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{option} {one}: write it as KEY=VALUE.")
        if key in found:
            raise typer.BadParameter(f"{option} names {key} twice.")
        found[key] = json_or_text(value)
    return found


def json_or_text(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)  # NaN and the like: Python reads them, JSON has none

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


def parse_json(source: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise PayloadInvalid(
            f"{source}, line {error.lineno}, column {error.colno}: {error.msg}.\n{mark_mistake(error)}",
            fix="""For the shell, put it into single quotes: '{"order": 42}'""",
        ) from None
    except RecursionError:
        raise PayloadInvalid(f"{source} is nested too deeply.") from None


def read_file(name: str) -> str:
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{name}: {error}") from None


def mark_mistake(error: json.JSONDecodeError) -> str:
    """The piece of the line around the mistake, with a mark below it."""
    line = error.doc.split("\n")[error.lineno - 1]
    first = max(0, error.colno - 36)
    piece = line[first : first + 70].replace("\t", " ")
    return f"  {piece}\n  {' ' * (error.colno - 1 - first)}^"


def edit(text: str, suffix: str) -> str:
    """A text as it was saved in $VISUAL, $EDITOR or vi. Raises RequestInvalid if that is missing, or fails."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"payload{suffix}"
        file.write_text(text)
        try:
            code = subprocess.run([*command, file], check=False).returncode
        except OSError as error:
            raise RequestInvalid(f"{command[0]}: {error.strerror}.", fix="Set EDITOR to one that exists.") from None
        if code:
            raise RequestInvalid(f"{command[0]} ended with {code}; nothing was done.", fix="Try again.")
        return file.read_text()
