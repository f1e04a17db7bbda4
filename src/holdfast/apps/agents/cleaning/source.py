"""The table as it was written: every value as text, before anyone took it for a number or a date.

`open_table` gives values as they were understood, and what was stray about them, such as space or a decimal comma, is
gone by then. So the text is laid out a second time here, which costs a pass over the file. Parquet has types of its
own: there is nothing before them.
"""

import contextlib
import tempfile
from pathlib import Path

import polars as pl
import polars.selectors as cs

from holdfast.apps.agents.reading import ReadingOptions, Table, delimited, lines, raw
from holdfast.apps.agents.reading.delimited import Shape
from holdfast.lifecycles.analysis.tools import Job


def as_written(job: Job, table: Table, scratch: Path) -> pl.LazyFrame:
    """The rows of the job's primary file, which `open_table` has found to be in order, with every column as text."""
    if table.format == "Parquet":
        return table.frame
    options = job.options(ReadingOptions, "reading")
    own = Path(tempfile.mkdtemp(dir=scratch))
    path, _ = raw.unpack(job.primary.path, table.filename, own)
    start = raw.head(path, delimited.sniffed_bytes)
    path = raw.as_utf8(path, table.filename, options.encoding or raw.marked_encoding(start) or "utf-8", own)
    scan = _lines(path, table, options, own) if table.delimiter is None else _delimited(path, table, options, own)
    return scan.select(cs.by_name(*table.names))


def _lines(path: Path, table: Table, options: ReadingOptions, own: Path) -> pl.LazyFrame:
    keys, _, _ = lines.rewrite(path, table.filename, own / "rows.csv")
    names, _ = delimited.name_columns(keys)
    return Shape(",", tuple(names), header=False, null_values=options.null_values).scan(own / "rows.csv")


def _delimited(path: Path, table: Table, options: ReadingOptions, own: Path) -> pl.LazyFrame:
    delimiter = table.delimiter or ","
    shape, _ = delimited.lay_out(path, table.filename, delimiter, options.header, options.null_values)
    if not _reads_as_it_is(path, table, shape):
        delimited.write_anew(path, shape, own / "anew.csv")
        path = own / "anew.csv"
    return shape.scan(path)


def _reads_as_it_is(path: Path, table: Table, shape: Shape) -> bool:
    """Whether Polars sees whole rows in the file, as `open_table` asks too."""
    counts = raw.check_text(path, table.filename, shape.delimiter)
    if counts.quotes % 2 or not counts.newlines:
        return False
    with contextlib.suppress(pl.exceptions.PolarsError):
        asked = [pl.len().alias("rows"), delimited.delimiters_inside(shape, counts).alias("inside")]
        rows, inside = shape.scan(path).select(asked).collect(engine="streaming").row(0)
        return rows == table.rows and delimited.is_whole(shape, counts, rows, inside)
    return False
