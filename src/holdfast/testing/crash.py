"""A crash, played: at the steps that a test has named, the process dies as far as the database can tell.

Nothing is settled or kept any more, and the lease runs out. In the handler CancelledError arises where it stands. A
real crash would run no line after that; here `finally` and `except BaseException` still do. Whatever they try to keep,
is not kept.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.task import Json, Lease, Outcome
from holdfast.errors import RequestInvalid
from holdfast.execution.attempt import Attempt, Handler

held_at_most_seconds = 10.0


@dataclass
class Crash:
    """Where a task is to crash, and how many times it still will: once all of `after` are kept, and all of `before`
    have run and are about to be."""

    after: frozenset[str]
    before: frozenset[str]
    left: int

    @staticmethod
    def of(after: str | Iterable[str] | None, before: str | Iterable[str] | None, crashes: int) -> "Crash | None":
        """The plan for these arguments. Raises RequestInvalid."""
        crash = Crash(names(after), names(before), crashes)
        if crashes < 1 or crash.after & crash.before:
            raise RequestInvalid(
                f"crash_after={after!r}, crash_before={before!r}, crashes={crashes}.",
                fix="Name a step in one of them, and how many times to crash there: at least once.",
            )
        return crash if crash.steps else None

    @property
    def steps(self) -> frozenset[str]:
        return self.after | self.before


def names(given: str | Iterable[str] | None) -> frozenset[str]:
    return frozenset([given] if isinstance(given, str) else given or ())


class CrashingAttempt(Attempt):
    """An attempt that may crash at a step, or between several that run at the same time."""

    def __init__(self, lease: Lease, handler: Handler, backend: WorkerBackend, crash: Crash) -> None:
        super().__init__(lease, handler, backend)
        self._crash = crash
        self._reached: set[str] = set()
        self._is_dead = False

    async def find_step(self, name: str) -> tuple[bool, Json]:
        self._check_alive()
        known, result = await super().find_step(name)
        if known:
            self._reach(self._crash.after, name)
        return known, result

    async def save_step(self, name: str, value: Json, usage: list[Json], to: str | None = None) -> Json:
        self._check_alive()
        self._reach(self._crash.before, name)
        if name in self._reached & self._crash.before:
            await self._hold(name)
        result = await super().save_step(name, value, usage, to)
        self._reach(self._crash.after, name)
        return result

    async def _hold(self, name: str) -> None:
        """Wait for the crash; not for ever, since the others may be waiting for this one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(held_at_most_seconds):
                await asyncio.Event().wait()
        self._reached.discard(name)

    def _reach(self, steps: frozenset[str], name: str) -> None:
        if name in steps and self._crash.left:
            self._reached.add(name)
            if self._reached == self._crash.steps:
                self._crash.left -= 1
                self._is_dead = True
                self._check_alive()

    def _check_alive(self) -> None:
        if self._is_dead:
            self.interrupt(None)
            raise asyncio.CancelledError("the process has crashed here")

    async def _record_usage(self, outcome: Outcome | None) -> Outcome | None:
        """A handler that goes on after its crash, and even comes to an end, has no outcome."""
        return None if self._is_dead else await super()._record_usage(outcome)
