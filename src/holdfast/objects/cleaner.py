"""Deletes files when their time has come. Every process that serves does so; there is no leader to lose.

A due cleanup is a row that one process takes for five minutes. A store that fails delays nothing but that row, which is
due again later; deleting twice does no harm.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.errors import HoldfastError
from holdfast.objects import Objects

log = logging.getLogger("holdfast.cleaner")

clean_every = timedelta(seconds=10)


@dataclass(frozen=True)
class Cleanup:
    """Files to delete: everything below this prefix."""

    id: UUID
    task_id: UUID
    prefix: str


class Cleanups(Calls):
    """The functions of cleanup.sql."""

    async def take(self, n: int = 20) -> list[Cleanup]:
        """Files that are due to be deleted; this process has five minutes for them."""
        return await self._records(Cleanup, "take_cleanups", n, repeatable=False)

    async def end(self, cleanup: Cleanup, objects: int, error: str | None) -> None:
        """Record how it went; a failed cleanup is due again later."""
        message = None if error is None else encode.readable(error)
        await self._call("end_cleanup", cleanup.id, objects, message)


async def clean(cleanups: Cleanups, objects: Objects) -> int:
    """Delete what is due; answers how many folders it tried."""
    taken = await cleanups.take()
    for one in taken:
        number, message = 0, None
        try:
            number = await objects.delete(one.prefix)
        except Exception as error:  # whatever it was: this one comes back, and the others are next
            message = error.detail if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            log.warning("files not deleted", extra={"task_id": str(one.task_id), "error": message})
        await cleanups.end(one, number, message)
    return len(taken)
