"""Delimited text (CSV, TSV): which character divides it, what its header says, and which line is wrong.

Polars reads the rows. It refuses a row with too many fields but fills one with too few, so the fields are counted: if
no row has too many and the delimiters in the file are as many as whole rows have, then no row has too few. Only when
that fails, or Polars refuses, is the file walked row by row, slowly, to name the line. What turns out to be well formed
by the rules of RFC 4180, though not to Polars, is rewritten and read again.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from holdfast.apps.agents.reading.raw import Counts, head, line_most_bytes
from holdfast.lifecycles.analysis.tools import wrong_format

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
columns_most = 5_000
name_most_characters = 10_000
sniffed_bytes = 64 * 1024
sniffed_rows = 50


@dataclass(frozen=True)
class Shape:
    """How a delimited file is laid out. `first`: the fields of its first row, as they are written there."""

    delimiter: str
    names: tuple[str, ...]
    header: bool
    null_values: tuple[str, ...] = ()
    first: tuple[str, ...] = ()

    def scan(self, path: Path, rows: int | None = None) -> pl.LazyFrame:
        """All columns as text."""
        return pl.scan_csv(
            path,
            has_header=False,
            skip_rows=1 if self.header else 0,
            separator=self.delimiter,
            schema=dict.fromkeys(self.names, pl.String),
            null_values=list(self.null_values) or None,
            n_rows=rows,
            missing_columns="insert",
            glob=False,
        )


def sniff(path: Path, filename: str) -> str:
    """The delimiter: the one that divides the first rows into most fields, evenly."""
    start = head(path, sniffed_bytes).decode("utf-8-sig", "replace")
    whole = start[: max(start.rfind("\n"), start.rfind("\r")) + 1] or start
    by_name = "\t" if filename.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else ","

    def evenness(delimiter: str) -> tuple[float, int, bool]:
        rows = filter(None, csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter))
        try:
            widths = [len(row) for row in islice(rows, sniffed_rows)]
        except csv.Error:
            return 0.0, 0, False
        if not widths or widths[0] < 2:
            return 0.0, 0, delimiter == by_name
        return round(widths.count(widths[0]) / len(widths), 1), widths[0], delimiter == by_name

    return max(DELIMITERS, key=evenness)


def lay_out(path: Path, name: str, delimiter: str, header: bool, null_values: Sequence[str]) -> tuple[Shape, list[str]]:
    """The shape of a file, with what its reader should know. Raises SchemaInvalid for a header that is none."""
    _, fields = next(records(path, name, delimiter), (0, []))
    if not fields:
        raise wrong_format(f"{name} has no rows: all its lines are blank.")
    if len(fields) > columns_most:
        raise wrong_format(f"{name} has {len(fields):,} columns; at most {columns_most:,} can be read.")
    if header:
        check_names(name, fields)
    names, notes = name_columns(fields if header else [""] * len(fields), tell=header)
    return Shape(delimiter, tuple(names), header, tuple(null_values), tuple(fields)), notes


def check_names(name: str, given: Iterable[str]) -> None:
    """Raise SchemaInvalid for a column's name that is too long to read."""
    for number, text in enumerate(given, start=1):
        if len(text) > name_most_characters:
            raise wrong_format(
                f"{name}: the name of column {number} has {len(text):,} characters; at most {name_most_characters:,} "
                "are taken. Is the first line a header?"
            )


def name_columns(given: Sequence[str], tell: bool = True) -> tuple[list[str], list[str]]:
    """Names that are all different, none empty and none a pattern to Polars, and what was changed for it."""
    names: list[str] = []
    notes: list[str] = []
    taken: set[str] = {name.strip() for name in given}
    seen: set[str] = set()
    for number, text in enumerate(given, start=1):
        name = text.strip()
        new, why = name, ""
        if is_pattern(name):
            new, why = f"({name})", f"is named {name}"
        elif not name:
            new, why = f"column_{number}", "has no name"
        elif name in seen:
            new, why = f"{name}_2", f"is named {name}, as another is"
        if why:
            new = not_taken(new, taken)
            notes.append(f"Column {number} {why}; it is called {new} here.")
        taken.add(new)
        seen.add(new)
        names.append(new)
    return names, notes if tell else []


def is_pattern(name: str) -> bool:
    """Whether Polars would take a name for many columns."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def not_taken(name: str, taken: set[str]) -> str:
    """The name, or the first with a higher number at its end that is free."""
    stem, _, count = name.rpartition("_")
    if name in taken and not (stem and count.isdigit()):
        stem, count = name, "1"
    while name in taken:
        count = str(int(count) + 1)
        name = f"{stem}_{count}"
    return name


def records(path: Path, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins in, without blank lines. Raises SchemaInvalid, naming the line, for wrong quotes.

    A field that is longer than a line may be is refused too, so that a quote that is never closed costs no memory.
    """
    csv.field_size_limit(line_most_bytes)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        line = 1
        try:
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1
        except csv.Error as error:
            raise wrong_format(f"{name}: line {line}: {quote_problem(str(error), delimiter)}.") from None


def quote_problem(message: str, delimiter: str) -> str:
    if "expected after" in message:
        named = DELIMITERS.get(delimiter, delimiter)
        return f'after a closing quote stands something other than a {named} (write "" for a quote inside quotes)'
    return "a quote is opened and never closed"


def rewrite(path: Path, name: str, shape: Shape, target: Path) -> None:
    """The same rows without blank lines, with all quotes as Polars wants them.

    Raises SchemaInvalid with the line of the first that is wrong and how many are.
    """
    width, wrong, first = len(shape.names), 0, None
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=shape.delimiter, lineterminator="\n")
        for line, row in records(path, name, shape.delimiter):
            writer.writerow(row)
            if len(row) != width:
                wrong += 1
                first = first or (line, len(row))
    if first is None:
        return
    line, fields = first
    others = f" {wrong:,} rows are like that." if wrong > 1 else ""
    what = "the header has" if shape.header else "the first row has"
    raise wrong_format(
        f"{name}: line {line} has {fields} field{'s' if fields != 1 else ''}, but {what} {width}.{others} "
        "Is a field with a delimiter in it not quoted?"
    )


def delimiters_inside(shape: Shape, counts: Counts) -> pl.Expr:
    """How many delimiters stand inside quoted fields. It looks at every column, so that Polars parses every field."""
    if not counts.quotes:
        return pl.sum_horizontal(pl.col(shape.names).null_count()) * 0
    return pl.sum_horizontal(pl.col(shape.names).str.count_matches(shape.delimiter, literal=True).sum())


def is_whole(shape: Shape, counts: Counts, rows: int, inside: int) -> bool:
    """Whether every row has all its fields, given that none has more."""
    if len(shape.names) == 1:
        return True
    in_header = sum(field.count(shape.delimiter) for field in shape.first) if shape.header else 0
    return counts.delimiters - inside - in_header == (rows + shape.header) * (len(shape.names) - 1)
