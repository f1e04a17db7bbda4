"""Fetching: the bytes of a document, from where its address says, into a file of ours.

Known are `file:///folder/name`, `object:key` and `http(s)://`. Who may name files is decided before; which servers may
be asked is decided by the guard. Whatever fails, no half of a document stays behind.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Fatal, ObjectMissing, ObjectsUnreachable, RequestInvalid, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.objects import Objects
from holdfast.remote.fetch.counted import Counted, piece_bytes
from holdfast.remote.fetch.counted import Fetched as Fetched
from holdfast.remote.fetch.files import read_file
from holdfast.remote.fetch.guard import Guard

SUPPORTED = "file:///folder/name, object:key, http://host/path or https://host/path"


async def fetch(
    uri: str, target: Path, *, objects: Objects, guard: Guard, most_bytes: int = 100 * 1024 * 1024
) -> Fetched:
    """Write what `uri` names into `target`; its size, checksum and type.

    Raises SchemaInvalid, Fatal, Transient or RateLimited, and then there is no `target`.
    """
    scheme, _, rest = uri.partition(":")
    with whole(target):
        match scheme.lower():
            case "file":
                return await in_thread(read_file, uri, target, Counted(most_bytes))
            case "object":
                return await read_object(rest, target, objects, Counted(most_bytes))
            case "http" | "https":
                from holdfast.remote.fetch.web import read_web  # httpx2 takes its time to import

                return await read_web(uri, target, guard, Counted(most_bytes))
        raise SchemaInvalid(f"{uri[:100]!r} is no address of a document. Write {SUPPORTED}.", code="uri")


@contextlib.contextmanager
def whole(target: Path) -> Iterator[None]:
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
    return counted.fetched()
