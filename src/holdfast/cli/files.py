"""Files: those that a person names, sent to the server by the links that it gives, and brought back into a folder.

A folder stands for the files in it and below, by name. What is hidden or does not fit is left out and counted, so that
a folder can be named as it is.
"""

import contextlib
import hashlib
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import typer

from holdfast.cli.printing import clean, count, format_size, print_line
from holdfast.errors import RequestInvalid, ServerUnreachable, UrlRefused

if TYPE_CHECKING:
    from holdfast.remote.server import Server

WEB = ("http://", "https://")
ADDRESSES = (*WEB, "s3://", "gs://", "az://", "file://", "object:")
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
documents_at_most = 10_000
document_most_bytes = 100 * 1024**2
names_listed = 5
name_width = 28
links_at_once = 100
sent_at_once = 4


@dataclass(frozen=True)
class Document:
    """One of them, with the name by which it will be known: a file of this machine, or an address."""

    name: str
    path: Path | None = None


@dataclass(frozen=True)
class Sources:
    """The documents, each once, and the files that were left out, each with the reason."""

    documents: list[Document] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def describe_left_out(self) -> str:
        """A line about what was left out; empty if nothing was."""
        if not self.left_out:
            return ""
        reasons = Counter(reason for _, reason in self.left_out)
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        named = ", ".join(name for name, _ in self.left_out[:names_listed])
        return f"Left out: {counted} ({named}{', ...' if len(self.left_out) > names_listed else ''})."

    def print_left_out(self) -> None:
        if line := self.describe_left_out():
            print_line((line, "dim"), err=True)


def find_sources(
    given: Iterable[str],
    *,
    addresses: tuple[str, ...],
    why_not: Callable[[Path], str | None] = lambda path: None,
    prefix: str = "",
) -> Sources:
    """All that was named; of folders what `why_not` has no reason against. Raises BadParameter, or RequestInvalid."""
    sources, names = Sources(), set()
    for one in walk_sources(given, addresses, why_not, sources.left_out):
        if one.name not in names:
            names.add(one.name)
            sources.documents.append(Document(prefix + one.name, one.path))
    if len(sources.documents) > documents_at_most:
        raise RequestInvalid(
            f"These are {len(sources.documents):,} files; {documents_at_most:,} are the most at once.",
            fix="Nothing was sent. Send one folder after the other.",
        )
    return sources


def walk_sources(
    given: Iterable[str],
    addresses: tuple[str, ...],
    why_not: Callable[[Path], str | None],
    left_out: list[tuple[str, str]],
) -> Iterator[Document]:
    for one in given:
        path = Path(one)
        if one.startswith(addresses):
            yield Document(one)
        elif not path.exists():
            such = "with http(s)://" if addresses is WEB else "such as s3://bucket/key"
            raise typer.BadParameter(f"There is no {one}. Name files, folders, or addresses {such}.")
        elif not path.is_dir():
            yield Document(name_of(path), check_file(path))
        else:
            for file in walk_folder(path, left_out):
                if reason := why_not(file):
                    left_out.append((name_of(file), reason))
                else:
                    yield Document(name_of(file), check_file(file))


def walk_folder(folder: Path, left_out: list[tuple[str, str]]) -> Iterator[Path]:
    """The files in a folder and in those below, by name."""
    for place, folders, files in os.walk(folder):
        left_out += [(name_of(Path(place, one)), "hidden") for one in (*folders, *files) if one.startswith(".")]
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        yield from (Path(place, one) for one in sorted(files) if not one.startswith("."))


def check_file(path: Path) -> Path:
    """A file that can be sent. Raises BadParameter."""
    if not path.is_file():  # a pipe or a device: it cannot be read twice, or has no end
        raise typer.BadParameter(f"{path} is not a regular file. Save it first.")
    if path.stat().st_size > document_most_bytes:
        raise typer.BadParameter(f"{path} is larger than 100 MiB, which is the most that is taken. Cut it into parts.")
    return path


def name_of(path: Path) -> str:
    """The path as it was given, as text: a name that is not UTF-8 stays different from every other."""
    return os.fsencode(path).decode(errors="backslashreplace")


def basename(name: str) -> str:
    """The last part of a path or an address."""
    path = urlsplit(name).path if name.startswith(ADDRESSES) else name
    return PurePosixPath(unquote(path)).name or name


# To the server


def measure(path: Path) -> dict[str, Any]:
    """What there is to promise of a file, read once from its start to its end. Raises BadParameter."""
    if not path.is_file():
        raise typer.BadParameter(f"{path} is not a regular file. Save it first.")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        size = stream.tell()
    kind = TYPES.get(path.suffix.lower(), "application/octet-stream")
    return {"content_type": kind, "size": size, "sha256": digest}


async def send_file(
    server: "Server", link: Mapping[str, Any], path: Path, size: int, advance: Callable[[int], None]
) -> None:
    """Send one file by its link, piece by piece. Raises UrlRefused, ServerUnreachable, or what is wrong with it."""
    import asyncio

    with path.open("rb") as stream:

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await asyncio.to_thread(stream.read, piece_bytes):
                yield piece
                advance(len(piece))

        await server.send(link, pieces(), size)


async def upload_sources(server: "Server", sources: Sources, *, noun: str = "file", quiet: bool) -> dict[str, str]:
    """Upload the files; the name of each document by its address, in the order in which they were named.

    Raises what stands in the way.
    """
    files = [one for one in sources.documents if one.path]
    found: dict[str, str] = {}
    if files:
        total = sum(one.path.stat().st_size for one in files if one.path)
        with show_sending(count(len(files), noun), total, quiet=quiet) as advance:
            for first in range(0, len(files), links_at_once):
                found |= await upload_some(server, files[first : first + links_at_once], advance)
    return {found.get(one.name, one.name): one.name for one in sources.documents}


async def upload_some(server: "Server", files: Sequence[Document], advance: Callable[[int], None]) -> dict[str, str]:
    """Upload these. What did not get through, as its link ran out or the line broke, is sent once more by a new one."""
    import asyncio

    found: dict[str, str] = {}
    slots = asyncio.Semaphore(sent_at_once)

    async def upload_one(path: Path, about: dict[str, Any], link: dict[str, Any]) -> None:
        sent = 0

        def add(number: int) -> None:
            nonlocal sent
            sent += number
            advance(number)

        async with slots:
            try:
                await send_file(server, link, path, about["size"], add)
            except BaseException:
                advance(-sent)
                raise
        found[link["name"]] = link["uri"]

    for round_ in range(rounds_at_most):
        left = [(one.name, one.path) for one in files if one.path and one.name not in found]
        abouts = [await asyncio.to_thread(measure, path) for _, path in left]
        body = {"files": [{"name": name, **about} for (name, _), about in zip(left, abouts, strict=True)]}
        links = (await server.ask("POST", "/ingest/uploads", body))["uploads"]
        sends = [upload_one(path, about, link) for (_, path), about, link in zip(left, abouts, links, strict=True)]
        failures = [one for one in await asyncio.gather(*sends, return_exceptions=True) if one]
        grave = [one for one in failures if not isinstance(one, (UrlRefused, ServerUnreachable))]
        if grave or (failures and round_ == rounds_at_most - 1):
            raise (grave or failures)[0]
        if not failures:
            break
    return found


@contextlib.contextmanager
def show_sending(name: str, size: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar for a file or several, or a line once they are sent; call what it gives with the bytes that were sent."""
    with progress_bar(name, size, in_bytes=True, quiet=quiet) as advance:
        yield advance
    if not sys.stderr.isatty():
        print_sent(name, size, quiet=quiet)


def print_sent(name: str, size: int, *, quiet: bool) -> None:
    if not quiet:
        print_line(f"uploaded {name} ({format_size(size)})", err=True)


@contextlib.contextmanager
def progress_bar(
    name: str, total: float | None, *, in_bytes: bool = False, quiet: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal; call what it gives with how much more is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    counts = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(), TimeRemainingColumn())
    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(30), *counts, console=Console(stderr=True)) as progress:
        title = Text(clean(name))
        title.truncate(name_width, overflow="ellipsis", pad=True)
        task = progress.add_task(title.plain, total=total)
        yield lambda number: progress.advance(task, number)


# From the server


def make_folder(folder: Path) -> None:
    """Make it before anything begins: a job whose files cannot be saved would be for nothing. Raises BadParameter."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{folder} cannot be made: {error.strerror}.") from None


async def save_file(server: "Server", url: str, name: str, folder: Path) -> str:
    """Download one file, whole or not at all, replacing what was there; its path. Raises RequestInvalid."""
    target = path_within(folder, name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        try:
            async with server.fetch(url) as pieces:
                with part.open("wb") as stream:
                    async for piece in pieces:
                        stream.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RequestInvalid(f"{target} cannot be written: {error.strerror or error}.") from error
    return str(target)


def path_within(folder: Path, name: str) -> Path:
    """The path of that name in the folder. Raises RequestInvalid for a name that leads out of it."""
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise RequestInvalid(f"The server names a file {name!r}, which is outside of {folder}.")
    return target


async def read_url(server: "Server", url: str) -> bytes:
    async with server.fetch(url) as pieces:
        return b"".join([piece async for piece in pieces])


def print_paths(paths: Iterable[str]) -> None:
    for path in paths:
        typer.echo(clean(path))
