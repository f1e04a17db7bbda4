"""Extraction: the text of a document, whatever it is written in.

The bytes are read in another process, which is given so much time and memory and no more: a file that was made to
hang its reader, or to fill the machine, costs one process and is refused.
"""

import contextlib
import errno
import functools
import gc
import logging
import math
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process

from holdfast.apps.documents.extract.document import Extracted as Extracted
from holdfast.apps.documents.extract.document import Unreadable, one_line, text_most, too_long
from holdfast.apps.documents.extract.kinds import kind_of
from holdfast.distribution import install_hint
from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread

abandoned_seconds = 10  # after its time a process ends itself: nothing waits for it any more
harmless_bytes = 1024 * 1024

READERS = {
    "pdf": ("pdf", "read"),
    "docx": ("word", "read"),
    "html": ("webpage", "read"),
    "markdown": ("plain", "read_markdown"),
    "text": ("plain", "read_text"),
}
"""Which module reads a kind. It is imported when it is first needed, with its parser."""


@dataclass(frozen=True)
class Limits:
    """What it may take to read one document."""

    seconds: float = 180
    """By the wall: on a busy machine a good document takes its time too."""

    memory_bytes: int = 1024 * 1024 * 1024
    """Besides what the process has already."""

    grown_bytes: int = 256 * 1024 * 1024
    """Of memory that documents left behind, after which the process is replaced."""


LIMITS = Limits()


async def extract(path: Path, name: str, content_type: str | None = None, limits: Limits = LIMITS) -> Extracted:
    """The text of a file. Its kind is what its bytes are, then what its name and type say.

    Raises SchemaInvalid with a code that says what is wrong with the file, Transient if the process that read it died,
    Fatal where this worker lacks what it takes.
    """
    try:
        if await in_thread(is_harmless, path, name, content_type):
            found = await in_thread(read_or_refuse, path, name, content_type)
        else:
            found = await read_elsewhere(path, name, content_type, limits)
    except TimeoutError:
        raise SchemaInvalid(f"It takes longer than {limits.seconds:g} seconds to read it.", code="bomb") from None
    except MemoryError:
        raise SchemaInvalid("It takes too much memory to read it.", code="bomb") from None
    except BrokenWorkerProcess:
        raise Transient("The process that read it died.", code="reader-died") from None
    except ModuleNotFoundError as error:
        message = f"This worker has no {error.name}. Install what it needs: {install_hint('ingest')}"
        raise Fatal(message, code="not-installed") from None
    except OSError as error:
        raise Transient(f"The file cannot be read now: {error.strerror or error}.", code="unreadable") from None
    if isinstance(found, Unreadable):
        raise SchemaInvalid(found.message, code=found.code)
    return found


def is_harmless(path: Path, name: str, content_type: str | None) -> bool:
    """A short text: there is nothing to unpack or to parse in it, and no need for a process."""
    try:
        short = path.is_file() and path.stat().st_size <= harmless_bytes
        return short and kind_of(path, name, content_type) in ("markdown", "text")
    except Unreadable:
        return False


async def read_elsewhere(path: Path, name: str, content_type: str | None, limits: Limits) -> Extracted | Unreadable:
    """Read it in a process that is used again, or a new one. The time does not count until there is one to be had."""
    async with to_process.current_default_process_limiter():
        here = CapacityLimiter(1)
        await have_process(here)
        with fail_after(limits.seconds):
            found, has_grown = await to_process.run_sync(
                read_within_limits, path, name, content_type, limits, cancellable=True, limiter=here
            )
        if has_grown:
            with contextlib.suppress(BrokenWorkerProcess):
                await to_process.run_sync(os._exit, 0, cancellable=True, limiter=here)
        return found


async def have_process(limiter: CapacityLimiter) -> None:
    """Make sure of a process that lives: one that was killed while it waited is noticed only when it is asked."""
    for _ in range(2):
        with contextlib.suppress(BrokenWorkerProcess):
            return await to_process.run_sync(be_ready, cancellable=True, limiter=limiter)
    return await to_process.run_sync(be_ready, cancellable=True, limiter=limiter)


# In the process that reads


def be_ready() -> None:
    """Answer, and so show that there is a process."""
    logging.disable()  # what a parser has to say about a document goes nowhere
    address_space_at_start()


def read_within_limits(
    path: Path, name: str, content_type: str | None, limits: Limits
) -> tuple[Extracted | Unreadable, bool]:
    """Read a document here; also, whether this process is to be replaced, as it did not give its memory back.

    Raises OSError, ModuleNotFoundError, or MemoryError where there is none for anything.
    """
    with ending_after(math.ceil(limits.seconds) + abandoned_seconds), memory_limited(limits.memory_bytes):
        try:
            found = read_or_refuse(path, name, content_type)
        except MemoryError:
            most = limits.memory_bytes / 2**20
            found = Unreadable("bomb", f"It takes more than {most:,.0f} MiB of memory to read it.")
    if address_space() > address_space_at_start() + limits.grown_bytes:
        gc.collect()
    return found, address_space() > address_space_at_start() + limits.grown_bytes


def read_or_refuse(path: Path, name: str, content_type: str | None) -> Extracted | Unreadable:
    try:
        return read(path, name, content_type)
    except Unreadable as unreadable:
        return Unreadable(unreadable.code, unreadable.message)  # without its frames, which hold on to the document


def read(path: Path, name: str, content_type: str | None) -> Extracted:
    """The text of the file. Raises Unreadable, OSError, MemoryError, or ModuleNotFoundError if there is no parser."""
    kind = kind_of(path, name, content_type)
    module, function = READERS[kind]
    reader = getattr(import_module(f"{__package__}.{module}"), function)
    try:
        title, text, pages = reader(path, content_type)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # parsers fail in many ways on a damaged file
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # as to seek before the start is
            raise
        raise Unreadable("corrupt", f"It is damaged and cannot be read as {kind}: {describe(error)}.") from error
    if len(text) > text_most:
        raise too_long()
    if not text.strip():
        raise Unreadable("empty", "There is no text in it.")
    return Extracted(kind, one_line(title) or one_line(PurePath(name).stem) or kind, text, pages)


def describe(error: Exception) -> str:
    message = one_line(str(error)).rstrip(".")
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__


@contextlib.contextmanager
def ending_after(seconds: int) -> Iterator[None]:
    """End this process if it still reads when nothing waits for it: the process that asks may have been killed."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@contextlib.contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Let allocations fail beyond this much more than there is now, where the platform says how much that is."""
    used = address_space()
    if not used:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@functools.cache
def address_space_at_start() -> int:
    return address_space()


def address_space() -> int:
    """The bytes of this process's address space; 0 where the platform does not say."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0
