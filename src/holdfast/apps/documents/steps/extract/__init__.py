"""Extraction: the text of a document, whatever it is written in.

The bytes are read in another process, which is given so much time and memory and no more: a file that was made to
hang its reader, or to fill the machine, costs one process and is refused.
"""

import contextlib
import math
import os
from datetime import timedelta
from pathlib import Path

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process

from holdfast.apps.documents.steps.extract.apart import Answer, Limits, be_ready, read_apart
from holdfast.apps.documents.steps.extract.document import Extracted as Extracted
from holdfast.apps.documents.steps.extract.document import Unreadable
from holdfast.apps.documents.steps.extract.kinds import kind_of
from holdfast.apps.documents.steps.extract.reading import read
from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread

within = timedelta(minutes=3)  # by the wall: on a busy machine a good document takes its time too
memory_bytes = 1024 * 1024 * 1024
harmless_bytes = 1024 * 1024


async def extract(
    path: Path,
    name: str,
    content_type: str | None = None,
    *,
    within: timedelta = within,
    memory_bytes: int = memory_bytes,
) -> Extracted:
    """The text of a file. Its kind is what its bytes are, then what its name and type say.

    Raises SchemaInvalid with a code that says what is wrong with the file, Transient if the process that read it died,
    Fatal where this worker lacks what it takes.
    """
    seconds = within.total_seconds()
    try:
        if await in_thread(is_harmless, path, name, content_type):
            answer = await in_thread(read_here, path, name, content_type)
        else:
            limits = Limits(memory_bytes, abandoned_seconds=math.ceil(seconds) + 10)
            answer = await read_elsewhere(path, name, content_type, seconds, limits)
    except TimeoutError:
        raise SchemaInvalid(f"It takes longer than {seconds:g} seconds to read it.", code="bomb") from None
    except MemoryError:
        raise SchemaInvalid("It takes too much memory to read it.", code="bomb") from None
    except BrokenWorkerProcess:
        raise Transient("The process that read it died.", code="reader-died") from None
    except ModuleNotFoundError as error:
        message = f"This worker has no {error.name}. Install what it needs: pip install 'holdfast[ingest]'"
        raise Fatal(message, code="not-installed") from None
    except OSError as error:
        raise Transient(f"The file cannot be read now: {error.strerror or error}.", code="unreadable") from None
    if isinstance(answer.read, Unreadable):
        raise SchemaInvalid(answer.read.message, code=answer.read.code)
    return answer.read


def is_harmless(path: Path, name: str, content_type: str | None) -> bool:
    """A short text: there is nothing to unpack or to parse in it, and no need for a process."""
    try:
        short = path.is_file() and path.stat().st_size <= harmless_bytes
        return short and kind_of(path, name, content_type) in ("markdown", "text")
    except Unreadable:
        return False


def read_here(path: Path, name: str, content_type: str | None) -> Answer:
    try:
        return Answer(read(path, name, content_type), grown=False)
    except Unreadable as unreadable:
        return Answer(unreadable.bare(), grown=False)


async def read_elsewhere(path: Path, name: str, content_type: str | None, seconds: float, limits: Limits) -> Answer:
    """Read it in a process that is used again, or a new one. The time does not count until there is one to be had."""
    async with to_process.current_default_process_limiter():
        here = CapacityLimiter(1)
        await have_process(here)
        with fail_after(seconds):
            answer = await to_process.run_sync(
                read_apart, path, name, content_type, limits, cancellable=True, limiter=here
            )
        if answer.grown:
            with contextlib.suppress(BrokenWorkerProcess):
                await to_process.run_sync(os._exit, 0, cancellable=True, limiter=here)
        return answer


async def have_process(limiter: CapacityLimiter) -> None:
    """Make sure of a process that lives: one that was killed while it waited is noticed only when it is asked."""
    for _ in range(2):
        with contextlib.suppress(BrokenWorkerProcess):
            return await to_process.run_sync(be_ready, cancellable=True, limiter=limiter)
    return await to_process.run_sync(be_ready, cancellable=True, limiter=limiter)
