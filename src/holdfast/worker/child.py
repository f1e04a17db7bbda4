"""A runner, as its keeper sees it: a process, what it has begun, and what it was told."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.engine.task import Json, Proof, Settlement
from holdfast.worker.config import Plan
from holdfast.worker.heartbeat import Pulse
from holdfast.worker.ipc import Link

end_within_seconds = 5.0


@dataclass(slots=True)
class Begun:
    """A task that the runner is at. Ids as they came, in hex: most tasks end before anybody asks for their proof."""

    task: str
    attempt: int
    token: str
    until: float
    limit: float | None
    """When its own time limit has passed, with what it takes to stop added."""
    told: float | None = None
    """Since when it has been asked to stop."""
    reason: str = ""
    is_waiting: bool = False
    """It has ended, and its result waits for the database."""

    @property
    def proof(self) -> Proof:
        return Proof(UUID(self.task), self.attempt, UUID(self.token))


class Child:
    """One runner process."""

    def __init__(self, plan: Plan, worker: str, *, alone: Json = None) -> None:
        self.plan = plan
        self.worker = worker
        self.alone = alone
        self.begun: dict[str, Begun] = {}
        self.shown: dict[str, Json] = {}
        self.loaded: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.leaving = False
        self.has_begun = False
        self.verdicts: list[Settlement] = []
        """What is to become of the tasks for which it was killed."""
        self.stopped_since: float | None = None
        self.on_alone: Callable[[Child, Json], None] = lambda child, lease: None
        self._pulse: Pulse | None = None
        self.process: asyncio.subprocess.Process | None = None
        if alone:
            self._begin([[alone["token"], alone["attempt"], None, [alone["task_id"]]]])

    async def start(self) -> None:
        """Start the process. Raises OSError where there is no room for another."""
        to_runner, from_runner = os.pipe(), os.pipe()
        memory = tempfile.TemporaryFile()  # noqa: SIM115 - both map it, and then it may go
        self._pulse = Pulse.make(memory.fileno())
        ends = (to_runner[0], from_runner[1], memory.fileno())
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "holdfast.worker.runner_process", *map(str, ends),
                stdin=asyncio.subprocess.PIPE, pass_fds=ends,
                start_new_session=True,  # what it starts goes with it, and Ctrl-C is the keeper's to hear
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
        self._link = Link(from_runner[0], to_runner[1])
        assert self.process.stdin is not None  # noqa: S101
        given = {"plan": self.plan.dump(), "worker": self.worker, "alone": self.alone}
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(json.dumps(given).encode())
            await self.process.stdin.drain()
        self.process.stdin.close()

    def tell(self, kind: str, value: Json = None) -> None:
        if self.process:
            self._link.send(kind, value)

    def go(self) -> None:
        now = time.monotonic()
        until = min((one.until for one in self.begun.values()), default=now + self.plan.lease_seconds)
        self.feel(now, until)  # the next one comes with the first heartbeat
        self.tell("go")

    def feel(self, sent: float, until: float) -> None:
        """Let it feel a heartbeat, if it has begun."""
        if self._pulse:
            self._pulse.beat(sent, until)

    async def listen(self) -> int:
        """Take in what it says, until it is gone; its exit code. Everything it said before its end is taken in."""
        assert self.process is not None  # noqa: S101 - it was started
        hearing, dying = asyncio.create_task(self._hear()), asyncio.create_task(self.process.wait())
        await asyncio.wait([hearing, dying], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([dying], timeout=end_within_seconds)
        self._kill_group()  # whoever it started may hold its end of the pipe, and must not outlive it
        code = await dying
        await asyncio.wait([hearing], timeout=end_within_seconds)
        hearing.cancel()
        self._link.close()
        self.close()
        if not self.loaded.done():
            self.loaded.set_result({"refused": [f"The process ended with {code} before it was ready.", ""]})
        return code

    async def _hear(self) -> None:
        async for kind, value in self._link.messages():
            match kind:
                case "loaded":
                    self.loaded.set_result(value)
                case "refused":
                    self.loaded.set_result({"refused": value})
                case "begun":
                    self.has_begun = True
                    self._begin(value)
                case "waiting":
                    for one in value:
                        if one in self.begun:
                            self.begun[one].is_waiting = True
                case "left":
                    self.leaving = True
                case "ended":
                    for one in value:
                        self.begun.pop(one, None)
                        self.shown.pop(one, None)
                case "shown":
                    self.shown.update(value)
                case "alone":
                    self.on_alone(self, value)

    def close(self) -> None:
        if self._pulse:
            self._pulse.close()

    def _begin(self, alike: list[list[Any]]) -> None:
        now = time.monotonic()
        until = now + self.plan.lease_seconds
        for token, attempt, limit, tasks in alike:
            stop_by = None if limit is None else now + limit + self.plan.cancel_seconds
            for task in tasks:
                self.begun[task] = Begun(task, attempt, token, until, stop_by)

    def ask_to_stop(self, kind: str, ids: list[str]) -> None:
        """Tell it that these are to be cancelled, or are lost; each once."""
        new = [one for one in ids if one in self.begun and self.begun[one].told is None]
        for one in new:
            self.begun[one].told, self.begun[one].reason = time.monotonic(), kind
        if new:
            self.tell(kind, new)

    def deaf(self) -> list[Begun]:
        """The tasks that did not stop in time, though they were told, or their time or lease had passed."""
        now = time.monotonic()
        found: list[Begun] = []
        if self.process is None:
            return found
        for one in self.begun.values():
            if one.is_waiting:
                continue
            if one.limit is not None and now > one.limit:
                one.reason = one.reason or "timeout"
                found.append(one)
            elif (one.told is not None and now > one.told + self.plan.cancel_seconds) or now > one.until:
                one.reason = one.reason or "lost"
                found.append(one)
        return found

    def is_stopped(self) -> bool:
        """Whether somebody has stopped the process (SIGSTOP): then it does not work, and holds nothing."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text() if self.process else ""
        except OSError:
            stat = ""
        stopped = stat.rpartition(")")[2].split()[:1] == ["T"]
        self.stopped_since = (self.stopped_since or time.monotonic()) if stopped else None
        return stopped

    def leave(self) -> None:
        self.leaving = True
        self.tell("leave")

    def kill(self) -> None:
        """End it and everything it started, now."""
        if self.process and self.process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        assert self.process is not None  # noqa: S101
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
