"""Between supervisor and runner: two pipes with lines of JSON, and a heartbeat in memory that both map.

Each line is a dictionary with one key, the kind of message. What is sent is with the operating system when `send`
returns, so a runner that dies in the next moment has still reported what it was about to start. A heartbeat sent as a
message would wait in the pipe while the runner is held up; in memory it is there the moment the runner looks.
"""

import asyncio
import json
import mmap
import os
import struct
from collections.abc import AsyncIterator
from typing import Any

longest_line_bytes = 8 * 1024 * 1024
margin_seconds = 0.5
"""What the runner started this shortly before a heartbeat, the supervisor may not know of by then."""


class Channel:
    """One end: a pipe to read from, a pipe to write to."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._unsent = b""

    def send(self, kind: str, value: Any = None) -> None:
        """Send a message; drop it if the other end is gone. What a full pipe does not take goes before the next one."""
        self._unsent += json.dumps({kind: value}).encode() + b"\n"
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._write_fd, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""

    async def messages(self) -> AsyncIterator[tuple[str, Any]]:
        """What the other end sends, until it is gone."""
        reader = asyncio.StreamReader(limit=longest_line_bytes)
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(self._read_fd, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while line := await reader.readline():
                if not line.endswith(b"\n"):
                    return  # cut off in the middle
                ((kind, value),) = json.loads(line).items()
                yield kind, value
        finally:
            transport.close()

    def close(self) -> None:
        """Send nothing more: the other end sees that we are gone."""
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1  # the number may soon be that of another file


class SharedHeartbeat:
    """The supervisor's last heartbeat: when it was sent, and until when it holds, on the machine's monotonic clock."""

    layout = struct.Struct("dd")

    def __init__(self, fd: int) -> None:
        os.ftruncate(fd, self.layout.size)  # for the second to map it this changes nothing
        self._memory = mmap.mmap(fd, self.layout.size)

    def write(self, sent: float, until: float) -> None:
        if not self._memory.closed:
            self.layout.pack_into(self._memory, 0, sent, until)

    def close(self) -> None:
        self._memory.close()

    def until(self) -> float:
        """Until when the last heartbeat holds."""
        return float(self.layout.unpack_from(self._memory, 0)[1])

    def is_alive(self, now: float) -> bool:
        """Whether the supervisor has been there within the time of a lease."""
        return now < self.until()

    def lease_until(self, began: float, first_until: float) -> float:
        """Until when a lease holds whose task began then, and which held until `first_until` by its claim."""
        sent, until = self.layout.unpack_from(self._memory, 0)
        return max(first_until, until) if began < sent - margin_seconds else first_until
