"""Uploaded tables as lazy frames, in bounded memory.

`open_table` takes CSV, TSV (also with `;` and `|`), JSON Lines and Parquet, each also compressed with gzip, and goes by
the content first and by the name where the content leaves it open. What it cannot take it refuses with the line that is
wrong. Text is written as Parquet into the scratch folder, its columns typed by all their values; whoever works on the
frame then reads single columns, as often as they like, and meets no surprise halfway.

A frame has only these types: Int64, Float64, Boolean, Date, Datetime in microseconds without zone (UTC where the file
had a zone), and String. Polars is asked to stream: `frame.select(...).collect(engine="streaming")`.
"""

import codecs
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
import polars.selectors as cs
from pydantic import Field

from holdfast.apps.agents.reading import delimited, kinds, lines, parquet, raw
from holdfast.apps.agents.reading.delimited import Shape
from holdfast.apps.agents.reading.kinds import MISSING_TEXTS as MISSING_TEXTS
from holdfast.apps.agents.reading.kinds import Learned, learn
from holdfast.lifecycles.analysis.tools import InputFile, Job, Options, cannot_read, wrong_format

Format = Literal["CSV", "TSV", "JSON Lines", "Parquet"]


class ReadingOptions(Options):
    """The section "reading" of parameters.json: how the files are to be understood."""

    delimiter: Annotated[str, Field(pattern=r'^[^"\r\n\x00\x80-\U0010ffff]$')] | None = None
    encoding: Literal["utf-8", "latin-1", "windows-1252", "utf-16"] | None = None
    header: bool = True
    null_values: tuple[str, ...] = ()
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    dates: kinds.Dates = "auto"


@dataclass(frozen=True)
class Column:
    """A column. `misfits`: how many values kept a column of text from being `almost` (integer, date and so on)."""

    name: str
    dtype: pl.DataType
    misfits: int = 0
    almost: str | None = None


@dataclass(frozen=True)
class Table:
    """An uploaded file as a table. `frame` reads from the scratch folder: use it while that is there.

    `rows` is exact. `bytes` is the size of the upload as it came. `notes` are sentences for whoever sent the file, such
    as that a column was renamed.
    """

    filename: str
    format: Format
    compressed: bool
    bytes: int
    rows: int
    columns: tuple[Column, ...]
    frame: pl.LazyFrame
    delimiter: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def only(self, names: Sequence[str]) -> "Table":
        """The same table with these of its columns, in the table's order."""
        kept = tuple(column for column in self.columns if column.name in names)
        return replace(self, columns=kept, frame=self.frame.select(column.name for column in kept))


@contextlib.contextmanager
def scratch_folder(job: Job) -> Iterator[Path]:
    """A folder for what is needed only while an agent runs: in the job's own, and gone at the end."""
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=job.folder) as folder:
        yield Path(folder)


def open_table(job: Job, file: InputFile, scratch: Path) -> Table:
    """Read one of the job's files. Raises SchemaInvalid with the code FILE_FORMAT_ERROR or FILE_READ_ERROR."""
    options = job.options(ReadingOptions, "reading")
    own = Path(tempfile.mkdtemp(dir=scratch))
    name = file.filename
    try:
        size_bytes = file.path.stat().st_size
        path, compressed = raw.unpack(file.path, name, own)
        start = raw.head(path, delimited.sniffed_bytes)
        if start.startswith(parquet.MAGIC):
            table = open_parquet(path, name, options)
        else:
            raw.refuse_others(start, name)
            table = open_text(path, name, start, options, own)
    except pl.exceptions.PanicException as error:
        raise cannot_read(f"{name} cannot be read: {first_line(error)}.") from None
    except OSError as error:
        if str(error.filename) != str(file.path):
            raise
        raise cannot_read(f"{name} cannot be read: {error.strerror}.") from None
    return replace(table, compressed=compressed, bytes=size_bytes)


def open_parquet(path: Path, name: str, options: ReadingOptions) -> Table:
    rows = parquet.refuse_unreasonable(path, name)
    try:
        scan = pl.scan_parquet(path, glob=False)
        schema = scan.collect_schema()
        names, notes = delimited.name_columns(list(schema))
        chosen = choose(names, options.columns, name)
        types = dict(zip(names, schema.values(), strict=True))
        renamed = scan.rename(dict(zip(schema, names, strict=True)))
        frame = renamed.select(parquet.simple(column, types[column]) for column in chosen)
        simple = frame.collect_schema()
        # Every page is decoded once, so that a damaged one is found here.
        counted = frame.select(pl.len(), pl.all().null_count().name.prefix("n:")).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise cannot_read(f"{name} is a Parquet file that cannot be read: {first_line(error)}.") from None
    if counted["len"][0] != rows:
        raise wrong_format(f"{name} says that it has {rows:,} rows, but it has {counted['len'][0]:,}.")
    columns = tuple(Column(column, simple[column]) for column in chosen)
    return Table(name, "Parquet", False, 0, rows, columns, frame, notes=tuple(notes))


def open_text(path: Path, name: str, start: bytes, options: ReadingOptions, scratch: Path) -> Table:
    if name.lower().removesuffix(".gz").endswith((".parquet", ".pq")):
        raise wrong_format(f"{name} is called Parquet and is none, since it does not begin with PAR1: {raw.SEND}.")
    path = raw.as_utf8(path, name, options.encoding or raw.marked_encoding(start) or "utf-8", scratch)
    start = raw.head(path, delimited.sniffed_bytes).removeprefix(codecs.BOM_UTF8)
    if not start.strip():
        raw.check_text(path, name)
        raise wrong_format(f"{name} is empty: it holds nothing but blanks.")
    by_name = name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json"))
    if by_name and start.lstrip().startswith(b"["):
        raise wrong_format(f"{name} is one JSON array: write each of its objects into a line of its own.")
    if by_name or lines.looks_like_lines(start):
        return open_lines(path, name, options, scratch)
    return open_delimited(path, name, options, scratch)


def open_lines(path: Path, name: str, options: ReadingOptions, scratch: Path) -> Table:
    raw.check_text(path, name)
    target = scratch / "rows.csv"
    keys, allowed, rows = lines.rewrite(path, name, target)
    if not rows or not keys:
        raise wrong_format(f"{name} has no objects with keys in it.")
    names, notes = delimited.name_columns(keys)
    shape = Shape(",", tuple(names), header=False, null_values=tuple(options.null_values))
    chosen = choose(names, options.columns, name)
    may_be = dict(zip(names, allowed, strict=True))
    learned = learn(shape, target, scratch / "table.parquet", chosen, options.dates, may_be)
    return table_of(learned, shape, name, "JSON Lines", notes)


def open_delimited(path: Path, name: str, options: ReadingOptions, scratch: Path) -> Table:
    delimiter = options.delimiter or delimited.sniff(path, name)
    counts = raw.check_text(path, name, delimiter)
    shape, notes = delimited.lay_out(path, name, delimiter, options.header, options.null_values)
    chosen = choose(list(shape.names), options.columns, name)
    learned, target = None, scratch / "table.parquet"
    if counts.quotes % 2 == 0 and counts.newlines:
        with contextlib.suppress(pl.exceptions.PolarsError):
            learned = learn(shape, path, target, chosen, options.dates, {}, counts)
    if learned is None or not learned.whole:
        delimited.refuse_malformed(path, name, shape)
        delimited.write_anew(path, shape, scratch / "anew.csv")
        learned = learn(shape, scratch / "anew.csv", target, chosen, options.dates, {})
    if not learned.rows:
        raise wrong_format(f"{name} has a header and no rows.")
    return table_of(learned, shape, name, "TSV" if delimiter == "\t" else "CSV", notes)


def table_of(learned: Learned, shape: Shape, name: str, form: Format, notes: Sequence[str]) -> Table:
    found = learned.found
    frame = pl.scan_parquet(learned.path, glob=False)
    types = frame.collect_schema()
    return Table(
        filename=name,
        format=form,
        compressed=False,
        bytes=0,
        rows=learned.rows,
        columns=tuple(Column(one, types[one], what.misfits, what.almost) for one, what in found.items()),
        frame=frame,
        delimiter=None if form == "JSON Lines" else shape.delimiter,
        notes=(*notes, *(what.note for what in found.values() if what.note)),
    )


def choose(names: list[str], wanted: list[str] | None, name: str) -> list[str]:
    """The columns to read, in the file's order. Raises SchemaInvalid for one that is not there."""
    if wanted is None:
        return names
    if unknown := [column for column in wanted if column not in names]:
        there = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise wrong_format(f"parameters.json: reading.columns: {name} has no column {unknown[0]}; it has: {there}.")
    return [column for column in names if column in wanted]


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[0].rstrip(".")[:200]


def open_as_written(job: Job, table: Table, scratch: Path) -> pl.LazyFrame:
    """The rows of the job's primary file, which `open_table` has found to be in order, with every column as text.

    `open_table` gives typed values, without what was stray about them, such as space or a decimal comma. So the text is
    laid out a second time here, which costs a pass over the file. Parquet has types of its own: it has no text.
    """
    if table.format == "Parquet":
        return table.frame
    options = job.options(ReadingOptions, "reading")
    own = Path(tempfile.mkdtemp(dir=scratch))
    path, _ = raw.unpack(job.primary.path, table.filename, own)
    start = raw.head(path, delimited.sniffed_bytes)
    path = raw.as_utf8(path, table.filename, options.encoding or raw.marked_encoding(start) or "utf-8", own)
    scan = (
        lines_as_written(path, table, options, own)
        if table.delimiter is None
        else delimited_as_written(path, table, options, own)
    )
    return scan.select(cs.by_name(*table.names))


def lines_as_written(path: Path, table: Table, options: ReadingOptions, own: Path) -> pl.LazyFrame:
    keys, _, _ = lines.rewrite(path, table.filename, own / "rows.csv")
    names, _ = delimited.name_columns(keys)
    return Shape(",", tuple(names), header=False, null_values=options.null_values).scan(own / "rows.csv")


def delimited_as_written(path: Path, table: Table, options: ReadingOptions, own: Path) -> pl.LazyFrame:
    delimiter = table.delimiter or ","
    shape, _ = delimited.lay_out(path, table.filename, delimiter, options.header, options.null_values)
    if not reads_as_it_is(path, table, shape):
        delimited.write_anew(path, shape, own / "anew.csv")
        path = own / "anew.csv"
    return shape.scan(path)


def reads_as_it_is(path: Path, table: Table, shape: Shape) -> bool:
    """Whether Polars sees whole rows in the file, as `open_table` asks too."""
    counts = raw.check_text(path, table.filename, shape.delimiter)
    if counts.quotes % 2 or not counts.newlines:
        return False
    with contextlib.suppress(pl.exceptions.PolarsError):
        asked = [pl.len().alias("rows"), delimited.delimiters_inside(shape, counts).alias("inside")]
        rows, inside = shape.scan(path).select(asked).collect(engine="streaming").row(0)
        return rows == table.rows and delimited.is_whole(shape, counts, rows, inside)
    return False
