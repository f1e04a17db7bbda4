"""Wake-ups: how a worker learns that there may be work. A wake-up is a hint: the row in Postgres is enough.

It may be lost, doubled or late. A worker that waits here looks for itself after some time, whether it was woken or not.
"""

from collections.abc import Container
from typing import Protocol
from uuid import UUID


class Wakeups(Protocol):
    """The wake-ups of one worker."""

    def watch_held(self, held: Container[UUID]) -> None:
        """Know which tasks the worker holds; they come and go in what is given. Called once, before the first wait."""

    async def wait(self, seconds: float) -> bool:
        """Return when there may be work, and True; or after so many seconds, and False."""

    async def close(self) -> None:
        """Stop listening."""
