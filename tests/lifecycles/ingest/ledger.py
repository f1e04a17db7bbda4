"""What the steps of documents tell of themselves, in a file: a line when one begins and a line when it ends.

It is the second witness beside the database: whoever runs a step twice cannot hide it here. Each step costs a cent, so
that what is counted twice is seen, too.
"""

import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdfast.apps.documents.ingestion import Documents
from holdfast.execution.context import current, usage

METHODS = {
    "FETCHED": "fetch", "CONTENT_EXTRACTED": "extract", "CHUNKED": "chunk", "EMBEDDED": "embed",
    "ENTITY_EXTRACTED": "find_entities", "PERSISTED": "persist", "INDEXED": "index",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A step of an item has begun, or has ended, under the lease with this token."""

    what: Literal["begin", "end"]
    step: str
    item: str
    token: str


class Ledger:
    """A file to which any number of processes add lines, each of them whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def say(self, what: str, step: str) -> None:
        lease = current()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, f"{what} {step} {lease.task_id} {lease.token}\n".encode())
        os.close(descriptor)

    def lines(self) -> list[Line]:
        return [Line(*line.split()) for line in self.path.read_text().splitlines()]  # type: ignore[arg-type]

    def begun(self, item: str) -> list[str]:
        """The steps of an item that have begun, in their order, as often as they have."""
        return [line.step for line in self.lines() if line.what == "begin" and line.item == item]


async def go_on(moment: str) -> None:
    """Nobody is held up."""


def watch(
    replace: Callable[[type, str, object], None], ledger: Ledger, halt: Callable[[str], Awaitable[None]] = go_on
) -> None:
    """From now on the steps of documents write into this ledger; at `begin STEP` and `end STEP` they may be held up."""
    for step, name in METHODS.items():
        replace(Documents, name, recorded(getattr(Documents, name), step, ledger, halt))


def recorded(
    method: Callable[..., Awaitable[Any]], step: str, ledger: Ledger, halt: Callable[[str], Awaitable[None]]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def run(*args: Any) -> Any:
        ledger.say("begin", step)
        await halt(f"begin {step}")
        result = await method(*args)
        usage("a cent", cost_cents=1)
        ledger.say("end", step)
        await halt(f"end {step}")
        return result

    return run
