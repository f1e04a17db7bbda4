"""The runner: the process in which user code runs.

    wait for the keeper's go; then, until it says leave: claim, run, settle.

It is started by the keeper and never by hand. It may be killed at any moment: whatever it had begun, it has told the
keeper before it began.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop

from holdfast.engine import values
from holdfast.engine.codec import dump_lease, load_lease
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
from holdfast.worker.backend import open_line
from holdfast.worker.batches import Batches
from holdfast.worker.claim_loop import ClaimLoop
from holdfast.worker.config import Plan
from holdfast.worker.heartbeat import Pulse
from holdfast.worker.ipc import Link

log = logging.getLogger("holdfast.worker")

fence_every_seconds = 0.2
fence_margin = 0.1
show_every_seconds = 0.25
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

    def __init__(self, app: Holdfast, plan: Plan, worker: str, link: Link, pulse: Pulse) -> None:
        self.app = app
        self.plan = plan
        self.worker = worker
        self.link = link
        self.pulse = pulse
        self._running: dict[UUID, Running] = {}
        self._shown: dict[UUID, Json] = {}
        self._apart: set[UUID] = set()
        self._waiting: set[UUID] = set()
        self._go = asyncio.Event()
        self._left = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self, alone: Lease | None) -> None:
        """Until told to leave, or until the one lease that it was given has ended."""
        listening = asyncio.create_task(self._listen())
        await self._go.wait()
        async with open_line(self.app.settings, connections=self.plan.calls + 1, migrated=True) as line:
            self.store = line.words
            self._checkpoints = Batches[Checkpoint, Checkpointed](self._checkpoint, most=self.plan.batch)
            wakeups = line.wakeups(self.worker)
            self.turns = ClaimLoop(
                line.words, self.plan, self.worker, list(self.app.tasks), wakeups,
                begin=self.begin, ended=lambda ids: self._say("ended", ids),
                stop=lambda task_id: self.interrupt(task_id, None),
                is_kept=lambda: self.pulse.is_felt(time.monotonic()),
            )  # fmt: skip
            chores = [asyncio.create_task(chore) for chore in (self._fence(), self._show())]
            if alone:
                self.turns.leave()
                if not self._left.is_set() and self.pulse.is_felt(time.monotonic()):  # else nobody keeps it any more
                    self.turns.held[alone.task_id] = alone
                    self.begin([alone], self.pulse.until() - self.plan.lease_seconds, apart=True)
            turning = asyncio.create_task(self.turns.run())
            leaving = asyncio.create_task(self._leave(turning))
            await asyncio.wait([turning, leaving], return_when=asyncio.FIRST_COMPLETED)
            for chore in (*chores, listening, leaving):
                chore.cancel()
            turning.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turning
            await wakeups.close()

    # Running

    def begin(self, leases: Sequence[Lease], claimed: float, *, apart: bool = False) -> None:
        """Run these. The keeper hears of it first: if they bring this process down, it knows which they were."""
        # Workers were lost with it before, or it cannot be stopped as code of ours can: it must not take others along.
        alone = [] if apart else [one for one in leases if one.last_chance or self.app.tasks[one.name].apart]
        apart_ids = {lease.task_id for lease in alone}
        self._apart |= apart_ids
        for lease in alone:
            self.link.send("alone", dump_lease(lease))
        now = time.monotonic()
        mine = [lease for lease in leases if lease.task_id not in apart_ids]
        if mine:
            self._tell_begun(mine)
        loop, traced, first_until = asyncio.get_running_loop(), is_tracing(), claimed + self.plan.lease_seconds
        for lease in mine:
            attempt = Attempt(
                lease, self.app.tasks[lease.name], self.store,
                send_checkpoint=self._checkpoints.put, on_progress=self.show,
            )  # fmt: skip
            running = self._running[lease.task_id] = Running(attempt, now, first_until)
            running.task = loop.create_task(self._run(attempt, traced))

    def _say(self, kind: str, ids: Sequence[UUID]) -> None:
        self.link.send(kind, [one.hex for one in ids])

    def _tell_begun(self, leases: Sequence[Lease]) -> None:
        """Which tasks, by the rest of what the keeper must know of them: in one claim it is mostly the same for all."""
        alike: dict[tuple[UUID, int, str], list[str]] = {}
        for lease in leases:
            alike.setdefault((lease.token, lease.attempt, lease.name), []).append(lease.task_id.hex)
        begun: list[Any] = []
        for (token, attempt, name), ids in alike.items():
            limit = self.app.tasks[name].timeout
            begun.append([token.hex, attempt, limit.total_seconds() if limit else None, ids])
        self.link.send("begun", begun)

    async def _run(self, attempt: Attempt, traced: bool) -> None:
        lease, outcome = attempt.lease, await attempt.run(traced=traced)
        del self._running[lease.task_id]
        self._shown.pop(lease.task_id, None)
        if outcome is None:
            self.turns.drop(lease)
        else:
            self.turns.settle(lease, outcome)

    async def _checkpoint(self, batch: Sequence[Checkpoint]) -> Sequence[Checkpointed]:
        answers = {(one.task_id, one.step): one for one in await self.store.checkpoint(*batch)}
        return [answers[one.lease.task_id, one.step] for one in batch]

    def show(self, lease: Lease, progress: Json) -> None:
        try:
            shown = values.dump(progress)
            encode.dump(shown)
            self._shown[lease.task_id] = shown
        except PayloadInvalid as error:  # nothing that a task stands or falls with
            log.warning("progress not shown", extra={"task_id": str(lease.task_id), "error": str(error)})

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(show_every_seconds)
            if self._shown:
                shown, self._shown = self._shown, {}
                self.link.send("shown", {task_id.hex: one for task_id, one in shown.items()})

    # Stopping

    async def _fence(self) -> None:
        """Stop what the keeper could not keep, before its lease ends and somebody else begins."""
        margin = self.plan.lease_seconds * fence_margin
        felt = True
        while True:
            await asyncio.sleep(fence_every_seconds)
            now = time.monotonic()
            was_felt, felt = felt, self.pulse.is_felt(now)
            if felt and not was_felt:
                self.turns.nudge()
            self._tell_waiting()
            for task_id, one in list(self._running.items()):
                if now > self.pulse.holds(one.began, one.first_until) - margin:
                    log.warning("lease about to end; stopped", extra={"task_id": str(task_id)})
                    one.attempt.interrupt(None)

    def interrupt(self, task_id: UUID, outcome: Outcome | None) -> None:
        """Stop this one, if it runs here."""
        if task_id in self._running:
            self._running[task_id].attempt.interrupt(outcome)

    def _tell_waiting(self) -> None:
        """What has ended and is not settled yet is no longer the handler's doing."""
        waiting = {task_id for task_id in self.turns.held if task_id not in self._running} - self._apart
        if new := waiting - self._waiting:
            self._say("waiting", list(new))
        self._waiting = waiting

    async def _listen(self) -> None:
        """What the keeper says. When it is gone, leave at once: nobody keeps our leases any more."""
        async for kind, value in self.link.messages():
            match kind:
                case "go":
                    self._go.set()
                case "cancel":
                    for one in value:
                        self.interrupt(UUID(one), CANCELLED)
                case "lost":
                    for one in value:
                        self.interrupt(UUID(one), None)
                case "over":
                    for one in value:  # it ran alone, in another process, and has ended there
                        self._apart.discard(UUID(one))
                        self.turns.held.pop(UUID(one), None)
                        self.turns.nudge()
                case "leave":
                    self.leave()
        self._hurry.set()
        self._left.set()
        if not self._go.is_set():
            os._exit(0)
        # Nobody is left to end this process if a thread of it never does.
        end = threading.Timer(self.plan.cancel_seconds + leave_within_seconds, os._exit, (1,))
        end.daemon = True
        end.start()

    def leave(self) -> None:
        """Leave when what runs has ended; told twice, leave now."""
        if self._left.is_set():
            self._hurry.set()
        self._left.set()

    async def _leave(self, turning: asyncio.Task[None]) -> None:
        """Claim nothing more; let what runs end; after the grace, stop it and give it back."""
        await self._left.wait()
        self.turns.leave()
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait(
            [turning, hurry], timeout=self.plan.grace_seconds, return_when=asyncio.FIRST_COMPLETED
        )  # fmt: skip
        for one in list(self._running.values()):
            one.attempt.interrupt(RELEASED)
        await asyncio.wait([turning], timeout=self.plan.cancel_seconds)


def published(task: Task[..., Any]) -> dict[str, Any]:
    """What others must know to start a task as its own application would."""
    attempts = None if task.retries is None else task.retries + 1
    return {"queue": task.queue, "max_attempts": attempts, "priority": task.priority}


def be_nobody() -> None:
    """In a forked child: its signals are its own. Through the inherited wake-up pipe they would reach the runner."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """`python -m holdfast.worker.runner_process READ WRITE HEARTBEAT`, with config, id and perhaps a lease on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the keeper, which tells us to leave
    os.register_at_fork(after_in_child=be_nobody)
    configure_logs()
    read_fd, write_fd, pulse_fd = map(int, sys.argv[1:4])
    given = json.loads(sys.stdin.read())
    plan, link = Plan.load(given["plan"]), Link(read_fd, write_fd)
    # If memory runs out, this process goes, and not the one that keeps the leases.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    export_traces("holdfast-worker")
    try:
        app = load_app(plan.app)
        own = app.published()
    except AppInvalid as error:
        link.send("refused", [error.detail, error.fix])
        sys.exit(2)
    settings = app.settings
    link.send(
        "loaded",
        {
            "tasks": {task.name: published(task) for task in app.tasks.values()},
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
    plan = plan if plan.queues else Plan(**{**vars(plan), "queues": tuple(app.queues)})
    alone = load_lease(given["alone"]) if given.get("alone") else None
    pulse = Pulse(pulse_fd)

    async def run() -> None:
        runner = Runner(app, plan, given["worker"], link, pulse)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.leave)
        await runner.run(alone)

    uvloop.run(run())
    flush_traces()
    link.send("left")
    link.close()


if __name__ == "__main__":
    main()
