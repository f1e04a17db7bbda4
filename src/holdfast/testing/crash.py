"""A crash, played: at the steps that a test has named, the process dies as far as the database can tell.

Nothing is settled or kept any more, and the lease runs out. In the handler CancelledError arises where it stands. A
real crash would run no line after that; here `finally` and `except BaseException` still do. Whatever they try to keep,
is not kept.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.engine.task import Json, Lease
from holdfast.errors import RequestInvalid
from holdfast.execution.attempt import Attempt
from holdfast.sdk.executor import BackendExecutor

held_at_most_seconds = 10.0


@dataclass
class Doom:
    """Where a task is to crash, and how many times it still will: once all of `after` are kept, and all of `before`
    have run and are about to be."""

    after: frozenset[str]
    before: frozenset[str]
    left: int

    @staticmethod
    def of(after: str | Iterable[str] | None, before: str | Iterable[str] | None, crashes: int) -> "Doom | None":
        """The plan for these arguments. Raises RequestInvalid."""
        doom = Doom(names(after), names(before), crashes)
        if crashes < 1 or doom.after & doom.before:
            raise RequestInvalid(
                f"crash_after={after!r}, crash_before={before!r}, crashes={crashes}.",
                fix="Name a step in one of them, and how many times to crash there: at least once.",
            )
        return doom if doom.steps else None

    @property
    def steps(self) -> frozenset[str]:
        return self.after | self.before


def names(given: str | Iterable[str] | None) -> frozenset[str]:
    return frozenset([given] if isinstance(given, str) else given or ())


class DoomedAttempt(Attempt):
    """An attempt that may crash at a step, or between several that run at the same time."""

    def __init__(self, lease: Lease, executor: BackendExecutor, loop: asyncio.AbstractEventLoop, doom: Doom) -> None:
        super().__init__(lease, executor, loop)
        self._doom = doom
        self._stop = executor.interrupt
        self._reached: set[str] = set()
        self.dead = False

    async def stored(self, name: str) -> tuple[bool, Json]:
        self._be_dead()
        known, result = await super().stored(name)
        if known:
            self._reach(self._doom.after, name)
        return known, result

    async def keep(self, name: str, value: Json, spent: list[Json], to: str | None = None) -> Json:
        self._be_dead()
        self._reach(self._doom.before, name)
        if name in self._reached & self._doom.before:
            await self._be_held(name)
        result = await super().keep(name, value, spent, to)
        self._reach(self._doom.after, name)
        return result

    async def _be_held(self, name: str) -> None:
        """Wait for the crash; not for ever, since the others may be waiting for this one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(held_at_most_seconds):
                await asyncio.Event().wait()
        self._reached.discard(name)

    def _reach(self, doomed: frozenset[str], name: str) -> None:
        if name in doomed and self._doom.left:
            self._reached.add(name)
            if self._reached == self._doom.steps:
                self._doom.left -= 1
                self.dead = True
                self._be_dead()

    def _be_dead(self) -> None:
        if self.dead:
            self._stop(self.lease.task_id, None)
            raise asyncio.CancelledError("the process has crashed here")
