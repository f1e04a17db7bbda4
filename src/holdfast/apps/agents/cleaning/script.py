"""The steps of cleaning, and the script that takes them: plain polars, to be read, changed and run anywhere.

Each step has an expression to count with and the same as code, so that the script does what was counted. Names and
values of a stranger's table stand in the script only as literals written by `repr`: quotes, line ends and invisible
characters are escaped, nothing is left out and nothing can leave the literal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import polars as pl

from holdfast.apps.agents.options import SuggestionKind
from holdfast.apps.agents.reading import ReadingOptions, Table
from holdfast.apps.agents.report import count_noun
from holdfast.apps.agents.signs import DateFormat, NumberFormat, exactly


@dataclass(frozen=True)
class Step:
    """One line of the script, and what it is good for.

    `changed` says which rows it changes and `after` what becomes of them; `lost` are values that it clears because they
    cannot be read. A step that is not `sure` runs only if the script is asked to take guesses too.
    """

    kind: SuggestionKind
    column: str | None
    why: str
    code: str
    changed: pl.Expr
    after: pl.Expr | None = None
    lost: pl.Expr | None = None
    sure: bool = True
    rows: int = 0
    rows_lost: int = 0
    examples: Sequence[tuple[str, str]] = ()
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """How a column of texts is read once it is clean: an expression and its code.

    A plain one every program finds by itself, so that the script does it without being asked.
    """

    column: str
    value: pl.Expr
    code: str
    lost: pl.Expr
    plain: bool


def column_code(name: str) -> str:
    """The code that names a column exactly."""
    return f"column({name!r})"


def trim(name: str) -> pl.Expr:
    """A text without surrounding space, nor doubled space inside."""
    return exactly(name).str.strip_chars().str.replace_all(r"\s+", " ")


def number_code(name: str, form: NumberFormat, whole: bool) -> str:
    """The reading of numbers, as NumberFormat.read does it."""
    kind = "Int64" if whole else "Float64"
    if form.describe() == "plain":
        return f"{column_code(name)}.str.strip_chars().cast(pl.{kind}, strict=False)"
    replaced = "".join(f", ({pattern!r}, {by!r})" for pattern, by in form.replacements())
    code = f"as_number({name!r}, {form.shape!r}{replaced})"
    return f"({code} / 100).round(12)" if form.percent else code


def date_code(name: str, form: DateFormat) -> str:
    """The reading of dates, as DateFormat.read does it."""
    kind = 'pl.Datetime("us")' if form.has_time else "pl.Date"
    return f"{column_code(name)}.str.strip_chars().str.strptime({kind}, {form.pattern!r}, strict=False)"


def assign(code: str) -> str:
    """A step that changes or adds a column."""
    return f"table = table.with_columns({code})"


_head = '''\
"""Cleans a table: the steps that suggest-cleaning proposed. Read it before you run it.

    python clean.py INPUT OUTPUT.csv             what is sure
    python clean.py INPUT OUTPUT.csv --guesses   also what is only probable

OUTPUT may end in .parquet. It needs polars (pip install polars).
"""

import gzip
import json
import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs
'''

_column = '''

def column(name):
    """The column of exactly this name."""
    return cs.by_name(name).as_expr()


def trimmed(name):
    """Without surrounding space, nor doubled space inside."""
    return column(name).str.strip_chars().str.replace_all(r"\\s+", " ")


def without_markers(name):
    """Words that say that there is nothing, as nothing."""
    return pl.when(~column(name).str.strip_chars().str.to_lowercase().is_in(MISSING)).then(column(name))


def as_number(name, shape, *replacements):
    """Texts of this shape as numbers; all others are cleared."""
    text = column(name).str.strip_chars()
    text = pl.when(text.str.contains(shape)).then(text)
    for pattern, by in replacements:
        text = text.str.replace_all(pattern, by)
    return text.cast(pl.Float64, strict=False)


'''

_main = """
def main(source, target, *flags):
    table = clean(read(source), guesses="--guesses" in flags)
    if target.endswith(".parquet"):
        table.sink_parquet(target)
    else:
        table.sink_csv(target)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python clean.py INPUT OUTPUT.csv [--guesses]")
    main(*sys.argv[1:])
"""

_text = '''

def text_of(source):
    """The text of a file, without its gzip and its byte order mark."""
    data = Path(source).read_bytes()
    if data[:2] == b"\\x1f\\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-16" if data[:2] in (b"\\xff\\xfe", b"\\xfe\\xff") else ENCODING)
'''

_read_lines = '''

def read(source):
    """JSON Lines, every value as text."""
    rows = [json.loads(line) for line in text_of(source).split("\\n") if line.strip()]
    keys = NAMES if CHOSEN else dict.fromkeys(key for row in rows for key in row)
    columns = {name: [as_text(row.get(key)) for row in rows] for key, name in zip(keys, NAMES)}
    return pl.LazyFrame(columns, schema=dict.fromkeys(NAMES, pl.String))


def as_text(value):
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
'''

_read_delimited = '''

def read(source):
    """Delimited text, every column as text. Names go by place, so that double ones do no harm."""
    data = text_of(source).encode()
    options = {"separator": DELIMITER, "null_values": NULL_VALUES}
    if CHOSEN:
        return pl.read_csv(data, infer_schema=False, **options).select(cs.by_name(NAMES)).lazy()
    schema = dict.fromkeys(NAMES, pl.String)
    return pl.read_csv(data, has_header=False, skip_rows=SKIPPED, schema=schema, **options).lazy()
'''

_read_parquet = '''

def read(source):
    """Parquet, with texts of every kind as plain ones. Names go by place, as for other files."""
    if PACKED:
        table = pl.read_parquet(gzip.decompress(Path(source).read_bytes())).lazy()
    else:
        table = pl.scan_parquet(source, glob=False)
    if not CHOSEN:
        table = table.rename(dict(zip(table.collect_schema().names(), NAMES)))
    return table.with_columns((cs.categorical() | cs.enum()).cast(pl.String))
'''


def write_script(
    table: Table,
    options: ReadingOptions,
    suggested: Sequence[Step],
    readings: Sequence[Reading],
    markers: Sequence[str],
) -> str:
    """The whole script."""
    parsed = {step.column for step in suggested if step.kind in {"parse_numbers", "parse_dates"}}
    plain = [reading for reading in readings if reading.plain and reading.column not in parsed]
    body = ["def clean(table, guesses=False):"]
    for kind in get_args(SuggestionKind):
        if kind == "parse_numbers":
            body += [f"    {assign(reading.code)}" for reading in plain]
        body += [line for step in suggested if step.kind == kind for line in _lines(step)]
    body.append("    return table")
    missing = f"\nMISSING = {list(markers)!r}\n\n"
    return _head + missing.rstrip("\n") + _write_reader(table, options) + _column + "\n".join(body) + "\n\n" + _main


def _lines(step: Step) -> list[str]:
    about = f"    # {step.kind}" + f", {count_noun(step.rows, 'row')}"
    if step.sure:
        return [about, f"    {step.code}"]
    return [about + " (a guess)", "    if guesses:", f"        {step.code}"]


def _write_reader(table: Table, options: ReadingOptions) -> str:
    """The function that reads the file as it was read here, and what it needs to know."""
    known: dict[str, object] = {"NAMES": table.names, "CHOSEN": options.columns is not None}
    if table.format == "Parquet":
        return "\n" + _constants(known | {"PACKED": table.compressed}) + _read_parquet
    known["ENCODING"] = "utf-8-sig" if options.encoding in {None, "utf-8"} else options.encoding
    if table.format != "JSON Lines":
        known |= {"DELIMITER": table.delimiter, "SKIPPED": int(options.header)}
        known |= {"NULL_VALUES": list(options.null_values) or None}
    return "\n" + _constants(known) + _text + (_read_lines if table.format == "JSON Lines" else _read_delimited)


def _constants(known: Mapping[str, object]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in known.items())
