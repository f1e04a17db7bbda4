"""The door through which a worker learns of work. What comes through it is a hint: the row in Postgres is enough.

A hint may be lost, doubled or late. Whoever waits here looks for itself after some time, whatever it heard.
"""

from typing import Protocol


class Wakeups(Protocol):
    """One worker's ear."""

    async def wait(self, seconds: float) -> bool:
        """Return when there may be work, and True; or after so many seconds, and False."""

    @property
    def hears(self) -> bool:
        """Whether hints arrive, as far as is known."""

    async def close(self) -> None:
        """Stop listening."""
