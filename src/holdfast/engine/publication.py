"""What a task publishes in a dataset: where it is, or its rows; looked at here, before anything is sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.errors import PayloadInvalid, PayloadTooLarge, StepInvalid

Mode = Literal["replace", "append"]

rows_most_bytes = 256 * 1024


@dataclass(frozen=True)
class Output:
    """What a task publishes in a dataset. Without a key it goes by the task.

    replace: the dataset's entry of this key becomes this one. append: it is added, unless the key is there already.
    """

    dataset: str
    key: str | None = None
    mode: Mode = "replace"
    uri: str | None = None
    rows: Sequence[Any] | None = field(default=None, repr=False)
    schema: Sequence[Sequence[str]] | None = None
    row_count: int | None = None
    bytes: int | None = None


def read_output(dataset: object, what: object, key: str | None, mode: Mode) -> Output:
    """An output of an address, of rows, or of whatever has a `uri`. Raises StepInvalid or PayloadTooLarge."""
    if not isinstance(dataset, str) or not 1 <= len(dataset) <= 200 or "/" in dataset or dataset != dataset.strip():
        raise StepInvalid(
            f"{dataset!r} cannot be the name of a dataset.", fix="Write output('prices', rows): 1 to 200 letters, no /."
        )
    if mode not in ("replace", "append"):
        raise StepInvalid(f"mode={mode!r} is not a way to write.", fix="Write mode='replace' or mode='append'.")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= 200):
        raise StepInvalid("The key of an output is a text of 1 to 200 characters.", fix="Write key='2030-01-01'.")
    if isinstance(what, str) and what:
        return Output(dataset, key, mode, uri=what)
    if isinstance(what, Sequence) and not isinstance(what, str | bytes):
        return Output(dataset, key, mode, rows=read_rows(dataset, what))
    if isinstance(uri := getattr(what, "uri", None), str):
        columns = getattr(what, "schema", None)
        schema = None if columns is None else [[str(name), str(kind)] for name, kind in columns]
        counts = (getattr(what, name, None) for name in ("rows", "bytes"))
        rows, size = (number if isinstance(number, int) else None for number in counts)
        return Output(dataset, key, mode, uri, schema=schema, row_count=rows, bytes=size)
    raise StepInvalid(
        f"{type(what).__name__} is not something that a dataset holds.",
        fix="Pass an address (s3://...), a list of rows as dictionaries, or a Table that write_table has returned.",
    )


def read_rows(dataset: str, rows: Sequence[object]) -> list[Any]:
    """Rows as they are kept. Raises StepInvalid, PayloadInvalid or PayloadTooLarge."""
    if not all(isinstance(row, Mapping) for row in rows):
        raise StepInvalid(
            "The rows of an output are dictionaries.", fix="Write [{'day': 'monday', 'price': 1.5}, ...]."
        )
    kept = [dict(row) for row in rows if isinstance(row, Mapping)]
    try:
        size = len(json.dumps(kept, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (TypeError, ValueError) as error:
        raise PayloadInvalid(f"{error}.", fix="Rows hold strings, numbers, booleans, None, lists and such.") from error
    if size > rows_most_bytes:
        raise PayloadTooLarge(
            f"The rows for {dataset} have {size:,} bytes; {rows_most_bytes:,} are kept as rows.",
            fix="Write a file and pass its address: output('prices', await write_table(frame)).",
        )
    return kept
