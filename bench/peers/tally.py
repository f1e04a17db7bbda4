"""What handlers leave behind: how often they ran, when the first one began, when task n began.

Written into mapped files, so that nothing of it passes through the database and a kill -9 loses nothing. A call costs
well under a microsecond. Only the standard library is used: this is imported in every peer's environment.
"""

import mmap
import os
import struct
import threading
import time
from pathlib import Path

SLOTS = 1000
COUNT, MOMENT = struct.Struct("<q"), struct.Struct("<d")
FIRST, ENDED = COUNT.size, COUNT.size + MOMENT.size
BEGAN = ENDED + COUNT.size
SIZE = BEGAN + MOMENT.size * SLOTS


class Tally:
    """One process's own page."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        path = folder / f"{os.getpid()}.tally"
        part = path.with_suffix(".new")
        part.write_bytes(bytes(SIZE))
        part.rename(path)  # a reader finds it whole
        self._page = mapped(path)
        self._count = 0

    def ran(self, number: int) -> None:
        """A handler began with task `number`."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                MOMENT.pack_into(self._page, FIRST, time.time())
            COUNT.pack_into(self._page, 0, self._count)
        if 0 <= number < SLOTS:
            MOMENT.pack_into(self._page, BEGAN + MOMENT.size * number, time.time())

    def ended(self) -> None:
        """A handler came to its end; counted only where the peer's own tables cannot be asked."""
        with self._lock:
            COUNT.pack_into(self._page, ENDED, COUNT.unpack_from(self._page, ENDED)[0] + 1)


class Tallies:
    """All pages of a folder, as the frame and the submitting process read them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pages: dict[Path, mmap.mmap] = {}

    def _read(self) -> list[mmap.mmap]:
        for path in self._folder.glob("*.tally"):
            if path not in self._pages:
                self._pages[path] = mapped(path)
        return list(self._pages.values())

    def processes(self) -> list[int]:
        """Which processes have a page."""
        self._read()
        return [int(path.stem) for path in self._pages]

    def count(self) -> int:
        """How often handlers began."""
        return sum(int(COUNT.unpack_from(page, 0)[0]) for page in self._read())

    def ended(self) -> int:
        """How often handlers came to their end."""
        return sum(int(COUNT.unpack_from(page, ENDED)[0]) for page in self._read())

    def first(self) -> float:
        """When the first handler began; 0 if none has."""
        moments = [float(MOMENT.unpack_from(page, FIRST)[0]) for page in self._read()]
        return min((moment for moment in moments if moment), default=0.0)

    def began(self, number: int) -> float:
        """When task `number` began; 0 if it has not."""
        place = BEGAN + MOMENT.size * number
        return max((float(MOMENT.unpack_from(page, place)[0]) for page in self._read()), default=0.0)


def mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)
