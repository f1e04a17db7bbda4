"""A crash, played: at a step that a test has named, the process dies as far as the database can tell.

Nothing is settled or kept any more, and the lease runs out. In the handler CancelledError arises where it stands. A
real crash would run no line after that; here `finally` and `except BaseException` still do. Whatever they try to keep,
is not kept.
"""

import asyncio
from dataclasses import dataclass

from holdfast.errors import RequestInvalid
from holdfast.kernel.attempt import Attempt
from holdfast.kernel.task import Json, Lease
from holdfast.sdk.desk import StoreDesk


@dataclass
class Doom:
    """Where a task is to crash, and how many times it still will."""

    after: str | None
    before: str | None
    left: int

    @staticmethod
    def of(after: str | None, before: str | None, crashes: int) -> "Doom | None":
        """The plan for these arguments. Raises RequestInvalid."""
        if after is None and before is None:
            return None
        if crashes < 1 or (after and before):
            raise RequestInvalid(
                f"crash_after={after!r}, crash_before={before!r}, crashes={crashes}.",
                fix="Name one step, and how many times to crash there: at least once.",
            )
        return Doom(after, before, crashes)

    @property
    def step(self) -> str:
        return self.after or self.before or ""


class DoomedAttempt(Attempt):
    """An attempt that may crash at a step."""

    def __init__(self, lease: Lease, desk: StoreDesk, loop: asyncio.AbstractEventLoop, doom: Doom) -> None:
        super().__init__(lease, desk, loop)
        self._doom = doom
        self._stop = desk.interrupt
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
        result = await super().keep(name, value, spent, to)
        self._reach(self._doom.after, name)
        return result

    def _reach(self, doomed: str | None, name: str) -> None:
        if name == doomed and self._doom.left:
            self._doom.left -= 1
            self.dead = True
            self._be_dead()

    def _be_dead(self) -> None:
        if self.dead:
            self._stop(self.lease.task_id, None)
            raise asyncio.CancelledError("the process has crashed here")
