"""A model in a process of its own, seen from the worker.

A crash in native code takes that process and no other; a request that takes too long ends it; the next request starts
it anew. It does one thing at a time. Nobody waits for it in a thread: one thread per process reads what it says, so
that any event loop can ask.
"""

import asyncio
import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast.engine.task import Category

KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "VIRTUAL_ENV")
KEPT_BEGINNINGS = ("PYTHON", "LC_", "OMP_", "ORT_")

loading_most = timedelta(seconds=90)
left_to_itself = timedelta(seconds=2)
ending_most = timedelta(seconds=2)


class Refused(Exception):
    """The model refuses this input; the category says why."""

    def __init__(self, message: str, category: Category) -> None:
        super().__init__(message)
        self.message = message
        self.category = category


class Crashed(Exception):
    """The process ended in the middle of an input, or had to be ended."""


class NotLoaded(Exception):
    """The process ended before it had loaded its model; no input is to blame."""


@dataclass
class Asked:
    """A request that is under way, and who waits for it."""

    number: int
    loop: asyncio.AbstractEventLoop
    said: "asyncio.Queue[dict[str, Any] | None]" = field(default_factory=asyncio.Queue)


class Model:
    """A model of this worker: started when it is first asked, and whenever its process is gone."""

    def __init__(self, module: str, *, silence_most: timedelta) -> None:
        self.module = module
        self.silence_most = silence_most
        """How long an input may take; one that is done in parts, how long each part."""
        self.process: Process | None = None
        self._taken = False

    def take(self) -> bool:
        """Have it for oneself; False if somebody else has, or if it still does what nobody waits for any more."""
        if self._taken or (self.process and self.process.asked):
            return False
        self._taken = True
        return True

    def give(self) -> None:
        self._taken = False

    async def ask(self, request: Mapping[str, Any]) -> Any:
        """What it answers. Raises Refused, Crashed or NotLoaded.

        Cancelled, it leaves the process a moment to get done, then ends it.
        """
        if self.process is None or self.process.ending:
            self.process = Process(self.module)
        process = self.process
        asked = process.ask(request)
        try:
            return await self._answer(process, asked)
        except TimeoutError:
            process.kill()
            if not process.loaded:
                raise NotLoaded(f"It took more than {loading_most.total_seconds():.0f} s to load.") from None
            raise Crashed(f"There was no answer for {self.silence_most.total_seconds():.0f} s.") from None
        except asyncio.CancelledError:
            process.kill_unless_done(asked)
            raise

    async def _answer(self, process: "Process", asked: Asked) -> Any:
        while True:
            most = self.silence_most if process.loaded else loading_most
            async with asyncio.timeout(most.total_seconds()):
                said = await asked.said.get()
            if said is None:
                raise Crashed(process.last_words) if process.loaded else NotLoaded(process.last_words)
            if "result" in said:
                return said["result"]
            if "error" in said:
                raise Refused(said["error"], said["category"])

    async def end(self) -> None:
        """End its process, and wait until it is gone."""
        if process := self.process:
            self.process = None
            process.hang_up()
            deadline = asyncio.get_running_loop().time() + ending_most.total_seconds()
            while not process.gone:
                if asyncio.get_running_loop().time() > deadline:
                    process.kill()
                await asyncio.sleep(0.01)


class Process:
    """One run of a model's process."""

    def __init__(self, module: str) -> None:
        with tempfile.TemporaryFile(buffering=0) as complaints:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=environment(), bufsize=0,
                start_new_session=True,  # so that what it starts can be ended with it
            )  # fmt: skip
            self._complaints = os.dup(complaints.fileno())
        self.loaded = False
        self.ending = False
        """Nothing more is asked of it, so that no input is blamed for another's crash; it may not be gone yet."""
        self.gone = False
        self.asked: Asked | None = None
        self.last_words = ""
        """Why it is gone."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True, name=module).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ask(self, request: Mapping[str, Any]) -> Asked:
        """Send a request, which must be short: what is long goes by file."""
        asked = Asked(next(self._numbers), asyncio.get_running_loop())
        with self._lock:
            if self.gone:
                asked.said.put_nowait(None)
                return asked
            self.asked = asked
        assert self._popen.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError, ValueError):  # it is about to be gone, which the other thread tells
            self._popen.stdin.write(json.dumps({**request, "number": asked.number}).encode() + b"\n")
        return asked

    def kill(self) -> None:
        """End it with all that it has started."""
        self.ending = True
        if self._popen.returncode is None:  # else its number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def kill_unless_done(self, asked: Asked) -> None:
        def look() -> None:
            with self._lock:  # so that it is not done, and asked the next thing, in between
                if self.asked is asked:
                    self.kill()

        timer = threading.Timer(left_to_itself.total_seconds(), look)
        timer.daemon = True
        timer.start()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._popen.stdin:
                self._popen.stdin.close()

    def _listen(self) -> None:
        """Runs in a thread of its own, as long as the process does."""
        assert isinstance(self._popen.stdout, io.FileIO)  # noqa: S101
        with contextlib.suppress(ValueError), io.BufferedReader(self._popen.stdout) as said:
            for line in said:  # the last may be half a line, if it was killed in it
                self._hear(json.loads(line))
        self.kill()
        code = self._popen.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        lines = self._complained().splitlines()
        self.last_words = self.last_words or f"Its process ended {how}.{f' It said: {lines[-1]}' if lines else ''}"
        with self._lock:
            self.gone = True
        self.hang_up()
        self._tell(None)

    def _complained(self) -> str:
        """The end of what it said to nobody."""
        size = os.fstat(self._complaints).st_size
        text = os.pread(self._complaints, 300, max(size - 300, 0)).decode("utf-8", "replace").strip()
        os.close(self._complaints)
        return text

    def _hear(self, said: dict[str, Any]) -> None:
        if "loaded" in said:
            self.loaded = True
        self.last_words = said.get("not_loaded", self.last_words)
        self._tell(said)

    def _tell(self, said: dict[str, Any] | None) -> None:
        with self._lock:
            asked = self.asked
            if said is None or "result" in said or "error" in said:
                self.asked = None
        if asked:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits
                asked.loop.call_soon_threadsafe(asked.said.put_nowait, said)


def environment() -> dict[str, str]:
    """What a model may know of this process's variables: no keys, no passwords."""
    return {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
