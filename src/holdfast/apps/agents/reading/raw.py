"""The bytes of an upload, before anyone takes them for a table: unpacked, recognized by content, and checked.

Everything is read in pieces of a mebibyte, so that no file is ever whole in memory, and gzip is refused once it unpacks
to more than an honest table would. Nothing here knows what a column is.
"""

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import SchemaInvalid
from holdfast.lifecycles.analysis.tools import cannot_read, wrong_format

MIB = 1024 * 1024
piece_bytes = MIB
unpacked_most_bytes = 20 * 1024 * MIB
ratio_counts_from_bytes = 100 * MIB
ratio_most = 1000
line_most_bytes = 16 * MIB

SEND = "send CSV, TSV, Parquet or JSON Lines, each also compressed with gzip"

OTHERS = (
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document of the old kind (.xls, .doc)"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"ARROW1", "an Arrow file"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
)
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
markup = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)


@dataclass
class Counts:
    """What was counted in a text while it was checked."""

    delimiters: int = 0
    quotes: int = 0
    newlines: int = 0


def unpack(path: Path, name: str, scratch: Path) -> tuple[Path, bool]:
    """The file without its gzip, and whether it had one. Raises SchemaInvalid for bombs and for files cut off."""
    if head(path, 2) != b"\x1f\x8b":
        return path, False
    target = scratch / "unpacked"
    written = 0
    try:
        with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as source, target.open("wb") as sink:
            while piece := source.read(piece_bytes):
                written += len(piece)
                refuse_bomb(name, packed.tell(), written)
                sink.write(piece)
    except EOFError:
        raise cannot_read(f"{name} is cut off: its gzip has no end. Upload it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise cannot_read(f"{name} cannot be unpacked: its gzip is damaged ({error}). Upload it again.") from None
    if head(target, 2) == b"\x1f\x8b":
        raise wrong_format(f"{name} is compressed twice: compress the table once.")
    return target, True


def refuse_bomb(name: str, packed_bytes: int, unpacked_bytes: int) -> None:
    """Raises SchemaInvalid once something unpacks to more than any table we take, or by more than any table would."""
    if unpacked_bytes > unpacked_most_bytes:
        raise wrong_format(f"{name} unpacks to more than {unpacked_most_bytes // (1024 * MIB)} GiB: split it.")
    if unpacked_bytes > ratio_counts_from_bytes and unpacked_bytes > ratio_most * packed_bytes:
        raise wrong_format(
            f"{name} unpacks to more than {ratio_most:,} times its size, as no table does: it is refused as a bomb."
        )


def head(path: Path, size_bytes: int) -> bytes:
    """The first bytes. Raises SchemaInvalid if they cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size_bytes)
    except OSError as error:
        raise cannot_read(f"The file cannot be read: {error.strerror}.") from None


def refuse_others(start: bytes, name: str) -> None:
    """Raises SchemaInvalid, naming what the file is, if its first bytes are not those of a table."""
    if not start:
        raise wrong_format(f"{name} is empty: {SEND}.")
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        workbook = b"xl/" in start or b"[Content_Types].xml" in start
        what = "an Excel workbook" if workbook else "a zip archive"
        raise wrong_format(f"{name} is {what}, whatever its name says: {SEND}.")
    for magic, what in OTHERS:
        if start.startswith(magic):
            raise wrong_format(f"{name} is {what}, whatever its name says: {SEND}.")
    if markup.match(start):
        raise wrong_format(f"{name} is a web page or an XML document: {SEND}.")


def marked_encoding(start: bytes) -> str | None:
    """The encoding that a byte order mark names."""
    return next((encoding for mark, encoding in MARKS if start.startswith(mark)), None)


def as_utf8(path: Path, name: str, encoding: str, scratch: Path) -> Path:
    """The text in UTF-8. Raises SchemaInvalid, naming the line, if it is not in the encoding it is said to be in."""
    if encoding == "utf-8":
        return path
    target = scratch / "utf8"
    decoder = codecs.getincrementaldecoder(byte_order(path) if encoding == "utf-16" else encoding)()
    lines = 0
    with path.open("rb") as source, target.open("wb") as sink:
        for piece, last in pieces(source):
            try:
                text = decoder.decode(piece, final=last)
            except UnicodeDecodeError as error:
                raise wrong_format(
                    f"{name} is not in {encoding}: decoding fails near line {lines + 1} ({error.reason}). "
                    'Say its encoding in parameters.json: {"reading": {"encoding": "..."}}.'
                ) from None
            lines += text.count("\n")
            sink.write(text.encode("utf-8", "replace"))
            if sink.tell() > unpacked_most_bytes:
                raise wrong_format(f"{name} has more than {unpacked_most_bytes // (1024 * MIB)} GiB of text: split it.")
    return target


def byte_order(path: Path) -> str:
    """Which UTF-16 it is. Without a mark, the first character of a table tells: it has an empty half."""
    with path.open("rb") as file:
        start = file.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    return "utf-16-be" if start[:1] == b"\0" else "utf-16-le"


def check_text(path: Path, name: str, delimiter: str = ",") -> Counts:
    """See that a file is text, in one quick pass, and count what tells whether its rows are whole.

    Raises SchemaInvalid, naming the line, for bytes that are not UTF-8, for NUL, and for a line without end.
    """
    counts, since_newline = Counts(), 0
    separator = delimiter.encode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        for piece, last in pieces(file):
            if (at := piece.find(b"\0")) >= 0:
                raise wrong_format(
                    f"{name}: line {counts.newlines + piece.count(10, 0, at) + 1} holds a NUL byte, as no text does. "
                    'If it is UTF-16, say so in parameters.json: {"reading": {"encoding": "utf-16"}}.'
                )
            try:
                decoder.decode(piece, final=last)
            except UnicodeDecodeError as error:
                left_over = len(error.object) - len(piece)  # of a character that the piece before has begun
                raise not_utf8(error, counts.newlines, since_newline - left_over, name) from None
            first = piece.find(b"\n")
            since_newline += len(piece) if first < 0 else first
            if since_newline > line_most_bytes:
                raise wrong_format(
                    f"{name}: line {counts.newlines + 1} is longer than {line_most_bytes // MIB} MiB. "
                    "Are its line ends missing?"
                )
            if first >= 0:
                since_newline = len(piece) - piece.rfind(b"\n") - 1
            counts.newlines += piece.count(b"\n")
            counts.delimiters += piece.count(separator)
            counts.quotes += piece.count(b'"')
    return counts


def not_utf8(error: UnicodeDecodeError, lines: int, before: int, name: str) -> SchemaInvalid:
    """The failure of a text in which something else stands after so many lines of UTF-8, and bytes of the next one."""
    seen, at = error.object, error.start
    newline = seen.rfind(b"\n", 0, at)
    line, in_line = lines + seen.count(b"\n", 0, at) + 1, at - newline + (before if newline < 0 else 0)
    return wrong_format(
        f"{name} is not UTF-8: line {line} holds the byte 0x{seen[at]:02X} at its byte {in_line:,}. Save "
        'it as UTF-8, or say what it is in parameters.json: {"reading": {"encoding": "latin-1"}}.'
    )


def pieces(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """A file piece by piece, each with whether it is the last."""
    left_bytes = os.fstat(file.fileno()).st_size
    while piece := file.read(piece_bytes):
        left_bytes -= len(piece)
        yield piece, left_bytes <= 0
