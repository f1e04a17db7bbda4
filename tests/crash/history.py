"""What a process says of itself: one JSON line per word, in a file of its own.

A line is with the kernel when `say` returns, so a kill in the next moment loses nothing that was said. All processes of
a storm, the database among them, read the same clock.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class History:
    """The words of one process; a forked child gets a file of its own."""

    def __init__(self, folder: Path, who: str) -> None:
        self._folder = folder
        self._who = who
        self._calls = 0
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self.name = f"{self._who}-{self._pid}-{time.time_ns() % 10**9}"
        path = self._folder / f"{self.name}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def say(self, op: str, kind: str, **more: Any) -> None:
        if os.getpid() != self._pid:
            self._open()
        line = json.dumps({"t": time.time(), "who": self.name, "op": op, "kind": kind, **more}, default=str)
        os.write(self._file, line.encode() + b"\n")

    def invoke(self, op: str, **more: Any) -> str:
        """Say what is about to be asked; the call's name, which goes with its answer."""
        self._calls += 1
        call = f"{self.name}/{self._calls}"
        self.say(op, "invoke", call=call, **more)
        return call


def read_histories(folder: Path) -> Iterator[Line]:
    """Every whole line of every file, in no order."""
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                continue  # cut off: the disk was full or the machine gone; never so by a kill
