"""Workers beside the server: processes of `holdfast worker`, started again if they end, and anew when code changes.

One that cannot even start would not start the next time either: then they all leave, or wait for the code to change.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from watchfiles import PythonFilter, awatch

from holdfast.backoff import backoff
from holdfast.settings import read_settings

log = logging.getLogger("holdfast.up")

CANNOT_START = 2
PR_SET_PDEATHSIG = 1

restart_seconds = 0.2, 10.0
leave_within_seconds = 20.0


class Fleet:
    """So many workers of one application."""

    def __init__(self, app: list[str], workers: int, *, reload: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "holdfast", "worker", "--app", *app]
        self._workers = workers
        self._reload = reload
        self._leaving = False
        self._running: set[asyncio.subprocess.Process] = set()
        self._told: set[asyncio.subprocess.Process] = set()
        self._changed = asyncio.Event()
        self.refused = False
        """Whether the workers cannot start as the code is."""
        self.on_refused: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Keep them going until cancelled; then let them leave."""
        minds = [asyncio.create_task(self._mind()) for _ in range(self._workers)]
        try:
            if self._reload:
                await self._watch(self._reload)
            await asyncio.gather(*minds)
        finally:
            if not self._leaving:
                self.leave()
            _, late = await asyncio.wait(minds, timeout=leave_within_seconds)
            self._tell(signal.SIGKILL)
            for mind in late:
                mind.cancel()

    def leave(self) -> None:
        """Let them end what they run. Told twice, they give it back and leave at once."""
        self._leaving = True
        self._changed.set()
        self._tell(signal.SIGTERM)

    async def _mind(self) -> None:
        pauses, longest = backoff(*restart_seconds), restart_seconds[1]
        loop = asyncio.get_running_loop()
        first = True
        while not self._leaving:
            begun = loop.time()
            self._changed.clear()
            code, was_told = await self._run_one()
            if self._leaving:
                return
            if code == CANNOT_START and not was_told:
                if self._reload:
                    log.info("the worker cannot start; it waits for the next save")
                    await self._changed.wait()
                    continue
                if first:
                    self.refused = True
                    self.on_refused()
                    return
            first = False
            if code == 0 or was_told or loop.time() - begun > longest:
                pauses = backoff(*restart_seconds)
            if code and not was_told:
                log.warning("a worker ended; it is started again", extra={"exit_code": code})
            await asyncio.sleep(next(pauses))

    async def _run_one(self) -> tuple[int, bool]:
        """Run one process to its end: its exit code, and whether it was told to end."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "HOLDFAST_API": ""},  # beside the server is the database
            start_new_session=True,
            preexec_fn=leave_with_parent,
        )
        self._running.add(process)
        try:
            code = await process.wait()
            return code, process in self._told
        finally:
            self._running.discard(process)
            self._told.discard(process)

    async def _watch(self, folder: Path) -> None:
        """Start the workers anew whenever code in this folder changes."""
        home = read_settings().home.absolute()  # what tasks write there is no code of yours
        async for changes in awatch(folder, watch_filter=PythonFilter(ignore_paths=[home])):
            names = sorted({Path(path).name for _, path in changes})
            log.info("code changed; workers start anew", extra={"files": names})
            self._changed.set()
            self._tell(signal.SIGTERM)

    def _tell(self, number: signal.Signals) -> None:
        for process in list(self._running):
            self._told.add(process)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


def leave_with_parent() -> None:
    """In a worker about to begin: when the server is killed, leave as if told to. Elsewhere than on Linux it stays."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
