"""What stand-ins keep in their files: JSON, written so that they may be killed and started again at any time."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def as_object(body: bytes) -> dict[str, Any]:
    """The JSON object; an empty one for anything else."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_bytes().splitlines():
            yield as_object(line)


def append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def write(path: Path, content: bytes) -> None:
    """Whole or not at all, however the server ends."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)
