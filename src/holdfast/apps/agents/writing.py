"""JSON that every program reads: what is no finite number is written as null."""

import json
from math import isfinite
from pathlib import Path
from typing import Any


def finite(said: Any) -> Any:
    """The same lists and objects, with null for what JSON has no word for."""
    if isinstance(said, float):
        return said if isfinite(said) else None
    if isinstance(said, dict):
        return {key: finite(one) for key, one in said.items()}
    return [finite(one) for one in said] if isinstance(said, list | tuple) else said


def write_json(path: Path, said: Any) -> None:
    """Write what was found, in a form that people can read too."""
    path.write_text(json.dumps(said, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8")
