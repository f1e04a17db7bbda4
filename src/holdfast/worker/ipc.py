"""The two pipes between keeper and runner: lines of JSON, each a dictionary with one key, the kind of message.

What is sent is with the kernel when `send` returns. So a runner that dies in the next moment has still said what it was
about to begin.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

longest_line_bytes = 8 * 1024 * 1024


class Link:
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
        """What the other end says, until it is gone."""
        reader = asyncio.StreamReader(limit=longest_line_bytes)
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(self._read_fd, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while line := await reader.readline():
                if not line.endswith(b"\n"):
                    return  # cut off in the middle of a word
                ((kind, value),) = json.loads(line).items()
                yield kind, value
        finally:
            transport.close()

    def close(self) -> None:
        """Say no more: the other end sees that we are gone."""
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1  # the number may soon be somebody else's
