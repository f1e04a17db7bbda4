"""Parquet: what a file says of itself is looked at before anything is decoded.

The footer is read here (it is in Thrift's compact protocol), because a file of some kilobytes may declare more rows, or
larger columns, than any machine holds. What a page says of itself is left to Polars.
"""

import os
import struct
from pathlib import Path
from typing import Any

import polars as pl

from holdfast.apps.agents.reading.delimited import columns_most
from holdfast.apps.agents.reading.raw import MIB, refuse_bomb
from holdfast.lifecycles.analysis.tools import cannot_read, wrong_format

MAGIC = b"PAR1"
footer_most_bytes = 64 * MIB
chunk_most_bytes = 2 * 1024 * MIB
cells_count_from = 100_000_000
cells_most_per_byte = 1_000
nesting_most = 32

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)


class Compact:
    """Thrift's compact protocol, as far as a footer needs it: structs as dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number without end")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int, depth: int) -> Any:
        if depth > nesting_most:
            raise ValueError("nested too deeply")
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.byte()
        if kind in (I16, I32, I64):
            return self.integer()
        if kind == DOUBLE:
            self.at += 8
            return None
        if kind == BINARY:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind in (LIST, SET):
            return self.items(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"a field of the unknown kind {kind}")

    def items(self, depth: int) -> list[Any]:
        start = self.byte()
        size = start >> 4 if start >> 4 < 15 else self.varint()
        kind = start & 0x0F
        if size > len(self.data):
            raise ValueError("a list longer than the footer")
        if kind in (TRUE, FALSE):
            return [self.byte() == TRUE for _ in range(size)]
        return [self.value(kind, depth + 1) for _ in range(size)]

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (start := self.byte()) != STOP:
            number = number + (start >> 4) if start >> 4 else self.integer()
            fields[number] = self.value(start & 0x0F, depth)
        return fields


def footer(path: Path, name: str) -> dict[int, Any]:
    """The metadata at the end of the file. Raises SchemaInvalid if it is cut off or makes no sense."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        end = file.read(8)
        if size < 12 or end[4:] != MAGIC:
            raise cannot_read(f"{name} is a Parquet file that is cut off: its end is missing. Upload it again.")
        length = struct.unpack("<I", end[:4])[0]
        if length > min(footer_most_bytes, size - 12):
            raise wrong_format(f"{name} says that its footer has {length:,} bytes, which cannot be.")
        file.seek(size - 8 - length)
        data = file.read(length)
    try:
        return Compact(data).struct(0)
    except (ValueError, IndexError, RecursionError) as error:
        raise wrong_format(f"{name} has a Parquet footer that makes no sense: {error}.") from None


def refuse_unreasonable(path: Path, name: str) -> int:
    """The number of rows. Raises SchemaInvalid if the file declares more than its size can honestly hold."""
    size = path.stat().st_size
    metadata = footer(path, name)
    try:
        rows, groups = int(metadata[3]), metadata.get(4, [])
        columns = sum(1 for element in metadata[2][1:] if not element.get(5))
        chunks = [chunk[3] for group in groups for chunk in group[1]]
        unpacked = sum(chunk[6] for chunk in chunks)
        largest = max((chunk[6] for chunk in chunks), default=0)
        in_groups = sum(group[3] for group in groups)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise wrong_format(f"{name} has a Parquet footer that lacks what every one has.") from None
    if rows < 0 or rows != in_groups:
        raise wrong_format(f"{name} says that it has {rows:,} rows, but its parts have {in_groups:,}.")
    if not rows:
        raise wrong_format(f"{name} has columns and no rows.")
    if columns > columns_most:
        raise wrong_format(f"{name} has {columns:,} columns; at most {columns_most:,} can be read.")
    refuse_bomb(name, size, unpacked)
    if largest > chunk_most_bytes:
        raise wrong_format(f"{name} has a column of {largest // MIB:,} MiB in one row group: write smaller row groups.")
    cells = rows * columns
    if cells > cells_count_from and cells > cells_most_per_byte * size:
        raise wrong_format(f"{name} says that {size:,} bytes hold {cells:,} values: it is refused as a bomb.")
    return rows


def simple(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column as one of the six types that a table has."""
    column = pl.col(name)
    if dtype == pl.Boolean or dtype == pl.String or dtype == pl.Date:
        return column
    if isinstance(dtype, pl.Datetime):
        utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if dtype.time_zone else column
        return utc.cast(pl.Datetime("us"))
    if dtype in (pl.UInt64, pl.Int128, pl.UInt128) or dtype.is_float() or dtype.is_decimal():
        return column.cast(pl.Float64)
    if dtype.is_integer():
        return column.cast(pl.Int64)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if dtype.is_nested() or dtype == pl.Object:
        return pl.when(column.is_not_null()).then(pl.struct(column).struct.json_encode()).alias(name)
    return column.cast(pl.String)
