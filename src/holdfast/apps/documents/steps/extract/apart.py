"""What runs in the process that reads: within a limit of memory, and not for ever, whatever becomes of who asked."""

import contextlib
import functools
import gc
import logging
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.apps.documents.steps.extract.document import Extracted, Unreadable
from holdfast.apps.documents.steps.extract.reading import read


@dataclass(frozen=True)
class Limits:
    """What the process keeps to by itself; its time is kept by who asked."""

    memory_bytes: int
    """For one document, besides what the process has already."""

    abandoned_seconds: int
    """After which it ends itself: nobody waits any more."""

    grown_bytes: int = 256 * 1024 * 1024
    """Of memory that documents left behind, after which it is replaced."""


@dataclass(frozen=True)
class Answer:
    """What became of a document; and whether the process is to be replaced, as it did not give its memory back."""

    read: Extracted | Unreadable
    grown: bool


def be_ready() -> None:
    """Answer, and so show that there is a process."""
    logging.disable()  # what a parser has to say about a document goes nowhere
    memory_at_start()


def read_apart(path: Path, name: str, content_type: str | None, limits: Limits) -> Answer:
    """Read a document here. Raises OSError, ModuleNotFoundError, or MemoryError where there is none for anything."""
    with ending_after(limits.abandoned_seconds), memory_limited(limits.memory_bytes):
        try:
            found: Extracted | Unreadable = read(path, name, content_type)
        except Unreadable as unreadable:
            found = unreadable.bare()
        except MemoryError:
            found = Unreadable(
                "bomb", f"It takes more than {limits.memory_bytes / 2**20:,.0f} MiB of memory to read it."
            )
    return Answer(found, has_grown(limits.grown_bytes))


def has_grown(grown_bytes: int) -> bool:
    if memory_bytes() > memory_at_start() + grown_bytes:
        gc.collect()
    return memory_bytes() > memory_at_start() + grown_bytes


@contextlib.contextmanager
def ending_after(seconds: int) -> Iterator[None]:
    """End this process if it is still at it when nobody waits any more: who asked may have been killed."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@contextlib.contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Let allocations fail beyond this much more than there is now, where the platform tells how much that is."""
    used = memory_bytes()
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
def memory_at_start() -> int:
    return memory_bytes()


def memory_bytes() -> int:
    """The address space of this process; 0 where nobody says."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0
