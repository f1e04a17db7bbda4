"""Where the line of waiting tasks begins, as a worker has last seen it.

What was taken leaves its entries in the index until a vacuum may remove them, and while anybody holds an old snapshot
none may: each claim would read past everything that was taken before it. So a worker that found as much as it asked for
says where that began, and the next claim begins there. Something older may come back meanwhile (given back, admitted,
committed late), so it looks at the whole line ten times a second, and before it believes that there is nothing.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from holdfast.engine.task import Lease

look_again_seconds = 0.1


class ClaimCursor:
    """What one worker knows of the lines it takes from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: tuple[datetime, UUID] | None = None
        self._looked = 0.0

    def since(self) -> tuple[datetime, UUID] | None:
        """The due time and the id to begin at; None for the whole line."""
        now = self._clock()
        if self._since is None or now - self._looked >= look_again_seconds:
            self._looked = now
            return None
        return self._since

    def saw(self, leases: Sequence[Lease], asked: int) -> None:
        """So many were asked for, and these were there."""
        if asked:
            self._since = min((lease.due_at, lease.task_id) for lease in leases) if len(leases) == asked else None
