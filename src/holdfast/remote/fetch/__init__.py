"""Fetching: the bytes of a document, from where its address says, into a file of ours.

Known are `file:///folder/name`, `object:key` and `http(s)://`. Which callers may name files is decided before; which
servers may be asked is decided by the guard. Whatever fails, no half of a document stays behind.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from holdfast.errors import Fatal, ObjectMissing, ObjectsUnreachable, RequestInvalid, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.objects import Objects
from holdfast.remote.fetch.guard import Guard

SUPPORTED = "file:///folder/name, object:key, http://host/path or https://host/path"
piece_bytes = 1024 * 1024
FILE = re.compile(r"file:(//(localhost)?)?(?P<path>/(?!/).*)", re.IGNORECASE | re.DOTALL)
NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


@dataclass(frozen=True)
class Fetched:
    """What was fetched. The type is what a server said, if one was asked."""

    bytes: int
    sha256: str
    content_type: str | None


class Counted:
    """Counts and hashes the pieces of a document."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._digest = hashlib.sha256()

    def expect(self, size: int) -> None:
        """Raise SchemaInvalid if a document of this size is too large."""
        if size > self.most_bytes:
            message = f"The document is larger than {self.most_bytes:,} bytes, and no larger one is taken."
            raise SchemaInvalid(message, code="too-large")

    def add(self, piece: bytes) -> bytes:
        """The piece itself. Raises SchemaInvalid once it is too much."""
        self.bytes += len(piece)
        self.expect(self.bytes)
        self._digest.update(piece)
        return piece

    def finish(self, content_type: str | None = None) -> Fetched:
        """All of it. Raises SchemaInvalid if that is nothing."""
        if not self.bytes:
            raise SchemaInvalid("The document is empty: it has no bytes at all.", code="empty")
        return Fetched(self.bytes, self._digest.hexdigest(), content_type)


async def fetch(
    uri: str, target: Path, *, objects: Objects, guard: Guard, most_bytes: int = 100 * 1024 * 1024
) -> Fetched:
    """Write what `uri` names into `target`; its size, checksum and type.

    Raises SchemaInvalid, Fatal, Transient or RateLimited, and then there is no `target`.
    """
    scheme, _, rest = uri.partition(":")
    with no_half_file(target):
        match scheme.lower():
            case "file":
                return await in_thread(read_file, uri, target, Counted(most_bytes))
            case "object":
                return await read_object(rest, target, objects, Counted(most_bytes))
            case "http" | "https":
                from holdfast.remote.fetch.web import read_web  # httpx2 takes its time to import

                return await read_web(uri, target, guard, Counted(most_bytes))
        raise SchemaInvalid(f"{uri[:100]!r} is not the address of a document. Write {SUPPORTED}.", code="uri")


@contextlib.contextmanager
def no_half_file(target: Path) -> Iterator[None]:
    """Remove the file if the block fails. Raises Transient where it cannot be written."""
    try:
        yield
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            message = f"The document cannot be kept on this worker: {error.strerror or error}."
            raise Transient(message, code="disk") from None
        raise


async def read_object(key: str, target: Path, objects: Objects, counted: Counted) -> Fetched:
    """Raises what the store of objects says, as the category that it is."""
    try:
        if found := await objects.find(key):
            counted.expect(found.bytes)
        await objects.fetch(key, target)
    except ObjectMissing:
        raise Fatal(f"There is no object {key}.", code="missing") from None
    except ObjectsUnreachable as error:
        raise Transient(f"The object {key} cannot be fetched now. {error.detail}", code="unreachable") from None
    except RequestInvalid as error:
        raise SchemaInvalid(error.detail, code="uri") from None
    return await in_thread(measure, target, counted)


def measure(path: Path, counted: Counted) -> Fetched:
    """What somebody else wrote there."""
    with path.open("rb") as file:
        while piece := file.read(piece_bytes):
            counted.add(piece)
    return counted.finish()


# Files of this machine


def read_file(uri: str, target: Path, counted: Counted) -> Fetched:
    """Copy the file of this machine that `uri` names. Raises SchemaInvalid, Fatal or Transient."""
    with open_file(uri) as source:
        counted.expect(os.fstat(source).st_size)
        with target.open("wb") as file:
            while piece := os.read(source, piece_bytes):
                file.write(counted.add(piece))
    return counted.finish()


@contextlib.contextmanager
def open_file(uri: str) -> Iterator[int]:
    """The file, open to be read. Only a regular one: a device or a pipe may have no end.

    It is checked before it is opened, as to open a device may do something, and after.
    """
    named = FILE.fullmatch(uri)
    path = os.fsdecode(unquote_to_bytes(named["path"])) if named else "\0"
    if "\0" in path:
        raise SchemaInvalid(f"{uri[:200]!r} names no file. Write file:///folder/name.", code="uri")
    try:
        check_regular(uri, Path(path).stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise Fatal(f"This worker may not read {uri}.", code="forbidden") from None
    except OSError as error:
        if error.errno in NOT_THERE:
            raise Fatal(f"There is no {uri}.", code="missing") from None
        raise Transient(f"{uri} cannot be opened: {error.strerror}.", code="unreachable") from None
    try:
        check_regular(uri, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def check_regular(uri: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise SchemaInvalid(f"{uri} is {kind}. Name a file.", code="not-a-file")
