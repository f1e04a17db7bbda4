"""The runner: the process in which user code runs.

    wait for the supervisor's start; then, until it says leave: claim, run, settle.

It is started by the supervisor and never by hand. It may be killed at any moment: whatever it had started, it has
reported to the supervisor before.
"""

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop

from holdfast.engine import values
from holdfast.engine.logs import configure_logs
from holdfast.engine.store import encode
from holdfast.engine.task import Checkpoint, Checkpointed, Json, Lease, Outcome
from holdfast.errors import AppInvalid, PayloadInvalid
from holdfast.execution.attempt import Attempt
from holdfast.execution.suspend import CANCELLED, RELEASED
from holdfast.execution.tracing import export_traces, flush_traces, is_tracing
from holdfast.sdk.client import Holdfast
from holdfast.sdk.task import Task
from holdfast.worker.app import load_app
from holdfast.worker.backend import open_backend
from holdfast.worker.batched_calls import BatchedCalls
from holdfast.worker.claim_loop import ClaimLoop
from holdfast.worker.config import WorkerConfig
from holdfast.worker.ipc import Channel, SharedHeartbeat

log = logging.getLogger("holdfast.worker")

fence_every_seconds = 0.2
fence_margin = 0.1
progress_every_seconds = 0.25
leave_within_seconds = 10.0


@dataclass(slots=True)
class Running:
    """An attempt under way: when it began, and until when its lease held then."""

    attempt: Attempt
    began: float
    first_until: float
    task: asyncio.Task[None] | None = None


class Runner:
    """One process's worth of running tasks."""

    def __init__(
        self, app: Holdfast, config: WorkerConfig, worker: str, channel: Channel, heartbeat: SharedHeartbeat
    ) -> None:
        self.app = app
        self.config = config
        self.worker = worker
        self.channel = channel
        self.heartbeat = heartbeat
        self._running: dict[UUID, Running] = {}
        self._progress: dict[UUID, Json] = {}
        self._isolated: set[UUID] = set()
        """Tasks that we hold, and that run in a process of their own."""
        self._unsettled: set[UUID] = set()
        self._started = asyncio.Event()
        self._leaving = asyncio.Event()
        self._leaving_now = asyncio.Event()

    async def run(self, isolated: Lease | None) -> None:
        """Until it is to leave, or until the one lease that it was given has ended."""
        listening = asyncio.create_task(self._listen())
        await self._started.wait()
        async with open_backend(self.app.settings, connections=self.config.calls + 1, migrated=True) as opened:
            self.backend = opened.backend
            self._checkpoints = BatchedCalls[Checkpoint, Checkpointed](self._send_checkpoints, most=self.config.batch)
            wakeups = opened.wakeups(self.worker)
            self.claim_loop = ClaimLoop(
                opened.backend, self.config, self.worker, list(self.app.tasks), wakeups,
                start=self.start, on_ended=lambda ids: self._report("ended", ids),
                stop=lambda task_id: self.interrupt(task_id, None),
                is_kept=lambda: self.heartbeat.is_alive(time.monotonic()),
            )  # fmt: skip
            chores = [asyncio.create_task(chore) for chore in (self._stop_expired(), self._report_progress())]
            if isolated:
                self.claim_loop.leave()
                if not self._leaving.is_set() and self.heartbeat.is_alive(time.monotonic()):  # else it is not kept
                    self.claim_loop.held[isolated.task_id] = isolated
                    self.start([isolated], self.heartbeat.until() - self.config.lease_seconds, isolated=True)
            claiming = asyncio.create_task(self.claim_loop.run())
            leaving = asyncio.create_task(self._leave(claiming))
            await asyncio.wait([claiming, leaving], return_when=asyncio.FIRST_COMPLETED)
            for chore in (*chores, listening, leaving):
                chore.cancel()
            claiming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await claiming
            await wakeups.close()

    # Running

    def start(self, leases: Sequence[Lease], claimed: float, *, isolated: bool = False) -> None:
        """Run these. They are reported first: if they bring this process down, the supervisor knows which they were."""
        # Workers were lost with it before, or it cannot be stopped as code of ours can: it must not take others along.
        apart = [] if isolated else [one for one in leases if one.last_chance or self.app.tasks[one.name].isolated]
        apart_ids = {lease.task_id for lease in apart}
        self._isolated |= apart_ids
        for lease in apart:
            self.channel.send("isolate", encode.dump_lease(lease))
        now = time.monotonic()
        mine = [lease for lease in leases if lease.task_id not in apart_ids]
        if mine:
            self._report_started(mine)
        loop, traced, first_until = asyncio.get_running_loop(), is_tracing(), claimed + self.config.lease_seconds
        for lease in mine:
            attempt = Attempt(
                lease, self.app.tasks[lease.name], self.backend,
                send_checkpoint=self._checkpoints.call, on_progress=self.note_progress,
            )  # fmt: skip
            running = self._running[lease.task_id] = Running(attempt, now, first_until)
            running.task = loop.create_task(self._run(attempt, traced))

    def _report(self, kind: str, ids: Sequence[UUID]) -> None:
        self.channel.send(kind, [one.hex for one in ids])

    def _report_started(self, leases: Sequence[Lease]) -> None:
        """Which tasks, by the rest of what the supervisor needs of them: in one claim it is mostly the same for all."""
        alike: dict[tuple[UUID, int, str], list[str]] = {}
        for lease in leases:
            alike.setdefault((lease.token, lease.attempt, lease.name), []).append(lease.task_id.hex)
        started: list[Any] = []
        for (token, attempt, name), ids in alike.items():
            limit = self.app.tasks[name].timeout
            started.append([token.hex, attempt, limit.total_seconds() if limit else None, ids])
        self.channel.send("started", started)

    async def _run(self, attempt: Attempt, traced: bool) -> None:
        lease, outcome = attempt.lease, await attempt.run(traced=traced)
        del self._running[lease.task_id]
        self._progress.pop(lease.task_id, None)
        if outcome is None:
            self.claim_loop.forget([lease])
        else:
            self.claim_loop.settle(lease, outcome)

    async def _send_checkpoints(self, batch: Sequence[Checkpoint]) -> Sequence[Checkpointed]:
        answers = {(one.task_id, one.step): one for one in await self.backend.checkpoint(*batch)}
        return [answers[one.lease.task_id, one.step] for one in batch]

    def note_progress(self, lease: Lease, progress: Json) -> None:
        try:
            dumped = values.dump(progress)
            encode.dump(dumped)
            self._progress[lease.task_id] = dumped
        except PayloadInvalid as error:  # no task fails for its progress
            log.warning("progress not reported", extra={"task_id": str(lease.task_id), "error": str(error)})

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(progress_every_seconds)
            if self._progress:
                progress, self._progress = self._progress, {}
                self.channel.send("progress", {task_id.hex: one for task_id, one in progress.items()})

    # Stopping

    async def _stop_expired(self) -> None:
        """Stop what the supervisor could not keep, before its lease ends and another worker begins."""
        margin = self.config.lease_seconds * fence_margin
        is_alive = True
        while True:
            await asyncio.sleep(fence_every_seconds)
            now = time.monotonic()
            was_alive, is_alive = is_alive, self.heartbeat.is_alive(now)
            if is_alive and not was_alive:
                self.claim_loop.wake()
            self._report_unsettled()
            for task_id, one in list(self._running.items()):
                if now > self.heartbeat.lease_until(one.began, one.first_until) - margin:
                    log.warning("lease about to end; stopped", extra={"task_id": str(task_id)})
                    one.attempt.interrupt(None)

    def interrupt(self, task_id: UUID, outcome: Outcome | None) -> None:
        """Stop this one, if it runs here."""
        if task_id in self._running:
            self._running[task_id].attempt.interrupt(outcome)

    def _report_unsettled(self) -> None:
        """What has ended and is not settled yet is no longer the handler's doing."""
        unsettled = {task_id for task_id in self.claim_loop.held if task_id not in self._running} - self._isolated
        if new := unsettled - self._unsettled:
            self._report("unsettled", list(new))
        self._unsettled = unsettled

    async def _listen(self) -> None:
        """What the supervisor sends. When it is gone, leave at once: our leases are no longer kept."""
        async for kind, value in self.channel.messages():
            match kind:
                case "start":
                    self._started.set()
                case "cancel":
                    for one in value:
                        self.interrupt(UUID(one), CANCELLED)
                case "lost":
                    for one in value:
                        self.interrupt(UUID(one), None)
                case "isolated_ended":
                    for one in value:
                        self._isolated.discard(UUID(one))
                        self.claim_loop.held.pop(UUID(one), None)
                        self.claim_loop.wake()
                case "leave":
                    self.leave()
        self._leaving_now.set()
        self._leaving.set()
        if not self._started.is_set():
            os._exit(0)
        # Nothing is left that could end this process if a thread of it never ends.
        end = threading.Timer(self.config.cancel_seconds + leave_within_seconds, os._exit, (1,))
        end.daemon = True
        end.start()

    def leave(self) -> None:
        """Leave when what runs has ended; called twice, leave now."""
        if self._leaving.is_set():
            self._leaving_now.set()
        self._leaving.set()

    async def _leave(self, claiming: asyncio.Task[None]) -> None:
        """Claim nothing more; let what runs end; after the grace, stop it and give it back."""
        await self._leaving.wait()
        self.claim_loop.leave()
        now = asyncio.create_task(self._leaving_now.wait())
        await asyncio.wait(
            [claiming, now], timeout=self.config.grace_seconds, return_when=asyncio.FIRST_COMPLETED
        )  # fmt: skip
        for one in list(self._running.values()):
            one.attempt.interrupt(RELEASED)
        await asyncio.wait([claiming], timeout=self.config.cancel_seconds)


def describe_task(task: Task[..., Any]) -> dict[str, Any]:
    """What it takes to start a task as its own application would."""
    attempts = None if task.retries is None else task.retries + 1
    return {"queue": task.queue, "max_attempts": attempts, "priority": task.priority}


def reset_signals() -> None:
    """In a forked child: its signals are its own. Through the inherited wake-up pipe they would reach the runner."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """`python -m holdfast.worker.runner_process READ WRITE HEARTBEAT`, with config, id and perhaps a lease on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the supervisor, which lets us leave
    os.register_at_fork(after_in_child=reset_signals)
    configure_logs()
    read_fd, write_fd, heartbeat_fd = map(int, sys.argv[1:4])
    given = json.loads(sys.stdin.read())
    config, channel = WorkerConfig(**given["config"]), Channel(read_fd, write_fd)
    # If memory runs out, this process goes, and not the one that keeps the leases.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    export_traces("holdfast-worker")
    try:
        app = load_app(config.app)
        own = app.published()
    except AppInvalid as error:
        channel.send("refused", [error.detail, error.fix])
        sys.exit(2)
    settings = app.settings
    channel.send(
        "loaded",
        {
            "tasks": {task.name: describe_task(task) for task in app.tasks.values()},
            "queues": app.queues,
            "lifecycles": [lifecycle.definition() for lifecycle in app.lifecycles.values()],
            "published": own,
            "settings": {
                "url": settings.url,
                "home": str(settings.home),
                "api": settings.api,
                "key": settings.key,
            },
        },
    )
    gc.collect()
    gc.freeze()  # what was loaded stays: no need to look through it again and again
    config = config if config.queues else replace(config, queues=app.queues)
    isolated = encode.from_json(Lease, given["isolated"]) if given.get("isolated") else None
    heartbeat = SharedHeartbeat(heartbeat_fd)

    async def run() -> None:
        runner = Runner(app, config, given["worker"], channel, heartbeat)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.leave)
        await runner.run(isolated)

    uvloop.run(run())
    flush_traces()
    channel.send("left")
    channel.close()


if __name__ == "__main__":
    main()
