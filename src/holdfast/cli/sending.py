"""Bringing files to the server, by the links that it gives."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".parquet": "application/vnd.apache.parquet",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".gz": "application/gzip",
    ".md": "text/markdown",
    ".html": "text/html",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
rounds_at_most = 4
piece_bytes = 256 * 1024


def measured(path: Path) -> dict[str, Any]:
    """What there is to promise of a file, read once from its start to its end. Raises BadParameter."""
    if not path.is_file():  # a pipe or a device: it cannot be read twice, or has no end
        raise typer.BadParameter(f"{path} is no regular file. Save it first.")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        size = stream.tell()
    kind = TYPES.get(path.suffix.lower(), "application/octet-stream")
    return {"content_type": kind, "size": size, "sha256": digest}


async def send(
    server: "Server", link: Mapping[str, Any], path: Path, size: int, advance: Callable[[int], None]
) -> None:
    """Bring one file by its link, piece by piece. Raises UrlRefused, ServerUnreachable, or what is wrong with it."""
    with path.open("rb") as stream:

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await asyncio.to_thread(stream.read, piece_bytes):
                yield piece
                advance(len(piece))

        await server.send(link, pieces(), size)
