"""A model in a process of its own: seen from the worker (`Model`), and from inside (`serve`).

A request is a line of JSON, and so is each answer. A crash in native code ends that process and no other; a request
that takes too long ends it; the next request starts it again. It does one thing at a time. One thread for each process
reads its answers, so that any event loop can ask.

The process ends when its worker ends, however that happens: its input closes, or it gets another parent. A thread sees
to that, also while the model is at work.
"""

import asyncio
import contextlib
import io
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from holdfast.errors import Failure, Fatal, SchemaInvalid

KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "VIRTUAL_ENV")
KEPT_BEGINNINGS = ("PYTHON", "LC_", "OMP_", "ORT_")

loading_most = timedelta(seconds=90)
left_to_itself = timedelta(seconds=2)
ending_most = timedelta(seconds=2)
parent_checked_seconds = 1.0
nicer = 5  # a model takes all cores it gets; the worker's own heartbeats come first


class Crashed(Exception):
    """The process ended in the middle of an input, or had to be ended."""


class NotLoaded(Exception):
    """The process ended before it had loaded its model; no input is to blame."""


@dataclass
class Request:
    """A request that is under way, and the loop in which its answers are awaited. None: the process has ended."""

    loop: asyncio.AbstractEventLoop
    answers: "asyncio.Queue[dict[str, Any] | None]" = field(default_factory=asyncio.Queue)


class Model:
    """A model of this worker: started when it is first asked, and whenever its process is gone."""

    def __init__(self, module: str, *, answer_most: timedelta) -> None:
        self.module = module
        self.answer_most = answer_most
        """How long an input may take; one that is done in parts, how long each part."""
        self.process: Process | None = None
        self._taken = False

    def take(self) -> bool:
        """Reserve it; False if it is taken, or still works on a request that was given up."""
        if self._taken or (self.process and self.process.request):
            return False
        self._taken = True
        return True

    def give(self) -> None:
        self._taken = False

    async def ask(self, content: Mapping[str, Any]) -> Any:
        """What it answers. Raises SchemaInvalid or Fatal for what it refuses, and Crashed or NotLoaded.

        Cancelled, it leaves the process a moment to get done, then ends it.
        """
        if self.process is None or self.process.ending:
            self.process = Process(self.module)
        process = self.process
        request = process.send(content)
        try:
            while True:
                most = self.answer_most if process.loaded else loading_most
                async with asyncio.timeout(most.total_seconds()):
                    answer = await request.answers.get()
                if answer is None:
                    raise (Crashed if process.loaded else NotLoaded)(process.reason)
                if "result" in answer:
                    return answer["result"]
                if "error" in answer:
                    raise (Fatal if answer["category"] == "Fatal" else SchemaInvalid)(answer["error"])
        except TimeoutError:
            process.kill()
            if not process.loaded:
                raise NotLoaded(f"It took more than {loading_most.total_seconds():.0f} s to load.") from None
            raise Crashed(f"There was no answer for {self.answer_most.total_seconds():.0f} s.") from None
        except asyncio.CancelledError:
            process.kill_unless_done(request)
            raise

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
        self._stderr = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed when the process is gone
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env=environment(), bufsize=0,
            start_new_session=True,  # so that what it starts can be ended with it
        )  # fmt: skip
        self.loaded = False
        self.ending = False
        """Nothing more is asked of it, so that no input is blamed for another's crash; it may not be gone yet."""
        self.gone = False
        self.reason = ""
        """Why it is gone."""
        self.request: Request | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._read_answers, daemon=True, name=module).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, content: Mapping[str, Any]) -> Request:
        """Send a request, which must be short: what is long goes by file."""
        request = Request(asyncio.get_running_loop())
        with self._lock:
            if self.gone:
                request.answers.put_nowait(None)
                return request
            self.request = request
        assert self._popen.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError, ValueError):  # it is about to be gone, which the other thread reports
            self._popen.stdin.write(json.dumps(content).encode() + b"\n")
        return request

    def kill(self) -> None:
        """End it with all that it has started."""
        self.ending = True
        if self._popen.returncode is None:  # else its number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def kill_unless_done(self, request: Request) -> None:
        def check() -> None:
            with self._lock:  # so that it is not done, and asked the next thing, in between
                if self.request is request:
                    self.kill()

        timer = threading.Timer(left_to_itself.total_seconds(), check)
        timer.daemon = True
        timer.start()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._popen.stdin:
                self._popen.stdin.close()

    def _read_answers(self) -> None:
        """Runs in a thread of its own, as long as the process does."""
        assert isinstance(self._popen.stdout, io.FileIO)  # noqa: S101
        with contextlib.suppress(ValueError), io.BufferedReader(self._popen.stdout) as lines:
            for line in lines:  # the last may be half a line, if it was killed in it
                answer = json.loads(line)
                self.loaded = self.loaded or "loaded" in answer
                self.reason = answer.get("not_loaded", self.reason)
                self._deliver(answer)
        self.kill()
        code = self._popen.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        errors = self._read_errors().splitlines()
        self.reason = self.reason or f"Its process ended {how}.{f' Its last line: {errors[-1]}' if errors else ''}"
        with self._lock:
            self.gone = True
        self.hang_up()
        self._deliver(None)

    def _read_errors(self) -> str:
        """The end of what it wrote to its standard error."""
        with self._stderr as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), 300, max(size - 300, 0)).decode("utf-8", "replace").strip()

    def _deliver(self, answer: dict[str, Any] | None) -> None:
        with self._lock:
            request = self.request
            if answer is None or "result" in answer or "error" in answer:
                self.request = None
        if request:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and nothing waits there
                request.loop.call_soon_threadsafe(request.answers.put_nowait, answer)


def environment() -> dict[str, str]:
    """What a model may know of this process's variables: no keys, no passwords."""
    return {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}


# Inside the process

Alive = Callable[[], None]
"""Called after each part of an input, so that the worker waits for the next one."""
Answer = Callable[[dict[str, Any], Alive], Any]


def serve(load: Callable[[], Answer]) -> NoReturn:
    """Load the model, then answer one request after the other until the worker is gone."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=receive, args=(requests, os.getppid()), daemon=True).start()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print do not answer for us
    os.nice(nicer)

    def send(value: dict[str, Any]) -> None:
        output.write(json.dumps(value) + "\n")
        output.flush()

    try:
        answer = load()
    except Exception as error:
        send({"not_loaded": f"{type(error).__name__}: {error}"[:500]})
        sys.exit(1)
    send({"loaded": True})
    while True:
        try:
            send({"result": answer(requests.get(), lambda: send({"alive": True}))})
        except Failure as failure:
            send({"error": failure.message, "category": failure.category})
        except Exception as error:
            text = f"The model failed: {type(error).__name__}: {error}"[:500]
            send({"error": text, "category": "SchemaInvalid"})


def receive(requests: "queue.SimpleQueue[dict[str, Any]]", parent: int) -> None:
    """Pass requests on, and end everything when no more can come."""
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    held = b""
    while os.getppid() == parent:
        if not poll.poll(parent_checked_seconds * 1000):
            continue
        if not (read := os.read(0, 1 << 16)):
            break
        *lines, held = (held + read).split(b"\n")
        for line in lines:
            requests.put(json.loads(line))
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)  # with all that a library has started
    os._exit(0)
