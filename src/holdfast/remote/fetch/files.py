"""Documents that are files of this machine. Only regular ones: a device or a pipe may have no end."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.remote.fetch.counted import Counted, Fetched, piece_bytes

FILE = re.compile(r"file:(//(localhost)?)?(?P<path>/(?!/).*)", re.IGNORECASE | re.DOTALL)
NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


def read_file(uri: str, target: Path, counted: Counted) -> Fetched:
    """Copy the file that `uri` names. Raises SchemaInvalid, Fatal or Transient."""
    with opened(uri) as source:
        counted.expect(os.fstat(source).st_size)
        with target.open("wb") as file:
            while piece := os.read(source, piece_bytes):
                file.write(counted.add(piece))
    return counted.fetched()


@contextlib.contextmanager
def opened(uri: str) -> Iterator[int]:
    """The file, open to be read. It is looked at before, as to open a device may do something, and after."""
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
