"""The script that cleans: plain polars, to be read, changed and run anywhere.

It holds names and values of a stranger's table. They stand in it only as literals written by `repr`, which leaves out
nothing and lets nothing out: quotes, line ends and invisible characters are escaped.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from holdfast.apps.agents.cleaning.options import SuggestionKind
from holdfast.apps.agents.cleaning.steps import Step
from holdfast.apps.agents.cleaning.suggesting import Reading
from holdfast.apps.agents.reading import ReadingOptions, Table
from holdfast.apps.agents.report import counted

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
    order = {kind: place for place, kind in enumerate(get_args(SuggestionKind))}
    ordered = sorted(suggested, key=lambda step: order[step.kind])
    parsed = {step.column for step in suggested if step.kind in {"parse_numbers", "parse_dates"}}
    plain = [reading for reading in readings if reading.plain and reading.column not in parsed]
    body = ["def clean(table, guesses=False):"]
    early = [step for step in ordered if order[step.kind] < order["parse_numbers"]]
    late = [step for step in ordered if order[step.kind] >= order["parse_numbers"]]
    for step in early:
        body += _lines(step)
    body += [f"    table = table.with_columns({reading.code})" for reading in plain]
    for step in late:
        body += _lines(step)
    body.append("    return table")
    missing = f"\nMISSING = {list(markers)!r}\n\n"
    return _head + missing.rstrip("\n") + _reading(table, options) + _column + "\n".join(body) + "\n\n" + _main


def _lines(step: Step) -> list[str]:
    about = f"    # {step.kind}" + f", {counted(step.rows, 'row')}"
    if step.sure:
        return [about, f"    {step.code}"]
    return [about + " (a guess)", "    if guesses:", f"        {step.code}"]


def _reading(table: Table, options: ReadingOptions) -> str:
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
