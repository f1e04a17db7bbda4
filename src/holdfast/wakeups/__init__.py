"""The door through which a worker learns of work. What comes through it is a hint: the row in Postgres is enough.

A hint may be lost, doubled or late. Whoever waits here looks for itself after some time, whatever it heard.
"""

from collections.abc import Container
from typing import Protocol
from uuid import UUID


class Wakeups(Protocol):
    """One worker's ear."""

    def follow(self, held: Container[UUID]) -> None:
        """Know which tasks the worker holds; they come and go in what is given. Said once, before the first wait."""

    async def wait(self, seconds: float) -> bool:
        """Return when there may be work, and True; or after so many seconds, and False."""

    @property
    def hears(self) -> bool:
        """Whether hints arrive, as far as is known."""

    async def close(self) -> None:
        """Stop listening."""
