"""A runner, as its supervisor sees it: a process, what it has started, and what it was asked to stop."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.engine.task import Json, Proof, Settlement
from holdfast.worker.config import WorkerConfig
from holdfast.worker.ipc import Channel, SharedHeartbeat

end_within_seconds = 5.0


@dataclass(slots=True)
class StartedTask:
    """A task that the runner runs. Ids as they came, in hex: most tasks end before their proof is needed."""

    task: str
    attempt: int
    token: str
    until: float
    limit: float | None
    """When its own time limit has passed, with what it takes to stop added."""
    stop_asked_at: float | None = None
    """Since when it has been asked to stop."""
    reason: str = ""
    is_unsettled: bool = False
    """It has ended, and its result waits for the database."""

    @property
    def proof(self) -> Proof:
        return Proof(UUID(self.task), self.attempt, UUID(self.token))


class RunnerHandle:
    """One runner process."""

    def __init__(self, config: WorkerConfig, worker: str, *, isolated: Json = None) -> None:
        self.config = config
        self.worker = worker
        self.isolated = isolated
        self.started: dict[str, StartedTask] = {}
        self.progress: dict[str, Json] = {}
        self.loaded: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.leaving = False
        self.has_started = False
        self.settlements: list[Settlement] = []
        """How the tasks are settled for which it was killed."""
        self.stopped_since: float | None = None
        self.on_isolate: Callable[[RunnerHandle, Json], None] = lambda runner, lease: None
        self._heartbeat: SharedHeartbeat | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.exited: asyncio.Task[int]
        """Its exit code, once it is gone."""
        if isolated:
            self._note_started([[isolated["token"], isolated["attempt"], None, [isolated["task_id"]]]])

    async def start(self) -> None:
        """Start the process. Raises OSError where there is no room for another."""
        to_runner, from_runner = os.pipe(), os.pipe()
        memory = tempfile.TemporaryFile()  # noqa: SIM115 - both map it, and then it may go
        self._heartbeat = SharedHeartbeat(memory.fileno())
        ends = (to_runner[0], from_runner[1], memory.fileno())
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "holdfast.worker.runner_process", *map(str, ends),
                stdin=asyncio.subprocess.PIPE, pass_fds=ends,
                start_new_session=True,  # what it starts goes with it, and Ctrl-C goes to the supervisor only
            )  # fmt: skip
        except OSError:
            os.close(to_runner[1])
            os.close(from_runner[0])
            raise
        finally:
            os.close(to_runner[0])
            os.close(from_runner[1])
            memory.close()
        os.set_blocking(to_runner[1], False)  # a runner that does not read must not hold us up
        self._channel = Channel(from_runner[0], to_runner[1])
        assert self.process.stdin is not None  # noqa: S101
        given = {"config": asdict(self.config), "worker": self.worker, "isolated": self.isolated}
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(json.dumps(given).encode())
            await self.process.stdin.drain()
        self.process.stdin.close()
        self.exited = asyncio.create_task(self.listen())

    def send(self, kind: str, value: Json = None) -> None:
        if self.process:
            self._channel.send(kind, value)

    def begin(self) -> None:
        """Let the process claim and run."""
        now = time.monotonic()
        until = min((one.until for one in self.started.values()), default=now + self.config.lease_seconds)
        self.pass_heartbeat(now, until)  # the next one comes with the first heartbeat
        self.send("start")

    def pass_heartbeat(self, sent: float, until: float) -> None:
        """Let the process know of a heartbeat, if it was started."""
        if self._heartbeat:
            self._heartbeat.write(sent, until)

    async def listen(self) -> int:
        """Take in what it sends, until it is gone; its exit code. Everything it sent before its end is taken in."""
        assert self.process is not None  # noqa: S101 - it was started
        receiving, dying = asyncio.create_task(self._receive()), asyncio.create_task(self.process.wait())
        await asyncio.wait([receiving, dying], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([dying], timeout=end_within_seconds)
        self._kill_group()  # a process it started may hold its end of the pipe, and must not outlive it
        code = await dying
        await asyncio.wait([receiving], timeout=end_within_seconds)
        receiving.cancel()
        self._channel.close()
        self.close()
        if not self.loaded.done():
            self.loaded.set_result({"refused": [f"The process ended with {code} before it was ready.", ""]})
        return code

    async def _receive(self) -> None:
        async for kind, value in self._channel.messages():
            match kind:
                case "loaded":
                    self.loaded.set_result(value)
                case "refused":
                    self.loaded.set_result({"refused": value})
                case "started":
                    self.has_started = True
                    self._note_started(value)
                case "unsettled":
                    for one in value:
                        if one in self.started:
                            self.started[one].is_unsettled = True
                case "left":
                    self.leaving = True
                case "ended":
                    for one in value:
                        self.started.pop(one, None)
                        self.progress.pop(one, None)
                case "progress":
                    self.progress.update(value)
                case "isolate":
                    self.on_isolate(self, value)

    def close(self) -> None:
        if self._heartbeat:
            self._heartbeat.close()

    def _note_started(self, alike: list[list[Any]]) -> None:
        now = time.monotonic()
        until = now + self.config.lease_seconds
        for token, attempt, limit, tasks in alike:
            stop_by = None if limit is None else now + limit + self.config.cancel_seconds
            for task in tasks:
                self.started[task] = StartedTask(task, attempt, token, until, stop_by)

    def ask_to_stop(self, kind: str, ids: list[str]) -> None:
        """Ask it to stop these, since they are cancelled or lost; each once."""
        new = [one for one in ids if one in self.started and self.started[one].stop_asked_at is None]
        for one in new:
            self.started[one].stop_asked_at, self.started[one].reason = time.monotonic(), kind
        if new:
            self.send(kind, new)

    def overdue(self) -> list[StartedTask]:
        """The tasks that did not stop in time, though they were asked to, or their time or lease had passed."""
        now = time.monotonic()
        found: list[StartedTask] = []
        if self.process is None:
            return found
        for one in self.started.values():
            if one.is_unsettled:
                continue
            if one.limit is not None and now > one.limit:
                one.reason = one.reason or "timeout"
                found.append(one)
            elif now > one.until or (one.stop_asked_at and now > one.stop_asked_at + self.config.cancel_seconds):
                one.reason = one.reason or "lost"
                found.append(one)
        return found

    def is_stopped(self) -> bool:
        """Whether the process was stopped (SIGSTOP): then it does not work, and holds nothing."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text() if self.process else ""
        except OSError:
            stat = ""
        stopped = stat.rpartition(")")[2].split()[:1] == ["T"]
        self.stopped_since = (self.stopped_since or time.monotonic()) if stopped else None
        return stopped

    def leave(self) -> None:
        self.leaving = True
        self.send("leave")

    def kill(self) -> None:
        """End it and everything it started, now."""
        if self.process and self.process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        assert self.process is not None  # noqa: S101
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
