"""The keeper's last heartbeat, in memory that it shares with its runner.

A message would wait in a pipe while the runner is held up; this is there the moment the runner looks. Two numbers on
the machine's own monotonic clock: when the last heartbeat was sent, and until when it holds.
"""

import mmap
import os
import struct

PULSE = struct.Struct("dd")

margin_seconds = 0.5
"""What the runner began this shortly before a heartbeat, the keeper may not have heard of by then."""


class Pulse:
    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, PULSE.size)

    @staticmethod
    def make(fd: int) -> "Pulse":
        """A new one in an empty file."""
        os.ftruncate(fd, PULSE.size)
        return Pulse(fd)

    def beat(self, sent: float, until: float) -> None:
        if not self._memory.closed:
            PULSE.pack_into(self._memory, 0, sent, until)

    def close(self) -> None:
        self._memory.close()

    def until(self) -> float:
        """Until when the last heartbeat holds."""
        return float(PULSE.unpack_from(self._memory, 0)[1])

    def is_felt(self, now: float) -> bool:
        """Whether the keeper has been there within the time of a lease."""
        return now < self.until()

    def holds(self, begun: float, first_until: float) -> float:
        """Until when a lease holds that was begun then, and held until `first_until` by its claim."""
        sent, until = PULSE.unpack_from(self._memory, 0)
        return max(first_until, until) if begun < sent - margin_seconds else first_until
