"""Uploaded tables as lazy frames, in bounded memory.

`open_table` takes CSV, TSV (also with `;` and `|`), JSON Lines and Parquet, each also compressed with gzip, and goes by
the content first and by the name where the content leaves it open. What it cannot take it refuses with the line that is
wrong. Text is written as Parquet into the scratch folder, its columns typed by all their values; an agent then reads
single columns of the frame, as often as it likes, and meets no surprise halfway.

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
    """An uploaded file as a table. Its frames read from the scratch folder: use them while that is there.

    `frame` has typed values; `texts` has every value as it was written, with what is stray about it, such as space or a
    decimal comma (of Parquet, which has types of its own, it is the same frame). `rows` is exact, `bytes` the size of
    the upload. `notes` are sentences for the owner of the file, such as that a column was renamed.
    """

    filename: str
    format: Format
    compressed: bool
    bytes: int
    rows: int
    columns: tuple[Column, ...]
    frame: pl.LazyFrame
    texts: pl.LazyFrame
    delimiter: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def only(self, names: Sequence[str]) -> "Table":
        """The same table with these of its columns, in the table's order."""
        kept = tuple(column for column in self.columns if column.name in names)
        frame, texts = (one.select(column.name for column in kept) for one in (self.frame, self.texts))
        return replace(self, columns=kept, frame=frame, texts=texts)


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
    return Table(name, "Parquet", False, 0, rows, columns, frame, frame, notes=tuple(notes))


def open_text(path: Path, name: str, start: bytes, options: ReadingOptions, scratch: Path) -> Table:
    if name.lower().removesuffix(".gz").endswith((".parquet", ".pq")):
        raise wrong_format(f"{name} is called Parquet, but it does not begin with PAR1: {raw.SEND}.")
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
    return table_of(learned, shape, target, name, "JSON Lines", notes)


def open_delimited(path: Path, name: str, options: ReadingOptions, scratch: Path) -> Table:
    delimiter = options.delimiter or delimited.sniff(path, name)
    counts = raw.check_text(path, name, delimiter)
    shape, notes = delimited.lay_out(path, name, delimiter, options.header, options.null_values)
    chosen = choose(list(shape.names), options.columns, name)
    learned, target, source = None, scratch / "table.parquet", path
    if counts.quotes % 2 == 0 and counts.newlines:
        with contextlib.suppress(pl.exceptions.PolarsError):
            learned = learn(shape, path, target, chosen, options.dates, {}, counts)
    if learned is None or not learned.whole:
        source = scratch / "rewritten.csv"
        delimited.rewrite(path, name, shape, source)
        learned = learn(shape, source, target, chosen, options.dates, {})
    if not learned.rows:
        raise wrong_format(f"{name} has a header and no rows.")
    return table_of(learned, shape, source, name, "TSV" if delimiter == "\t" else "CSV", notes)


def table_of(learned: Learned, shape: Shape, source: Path, name: str, form: Format, notes: Sequence[str]) -> Table:
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
        texts=shape.scan(source).select(cs.by_name(*found)),
        delimiter=None if form == "JSON Lines" else shape.delimiter,
        notes=(*notes, *(what.note for what in found.values() if what.note)),
    )


def choose(names: list[str], wanted: list[str] | None, name: str) -> list[str]:
    """The columns to read, in the file's order. Raises SchemaInvalid for one that is not there."""
    if wanted is None:
        return names
    if unknown := [column for column in wanted if column not in names]:
        raise wrong_format(
            f"parameters.json: reading.columns: {name} has no column {unknown[0]}; it has: {first_names(names)}."
        )
    return [column for column in names if column in wanted]


def first_names(names: Sequence[str]) -> str:
    """The names of columns for a message, at most twenty of them."""
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[0].rstrip(".")[:200]
