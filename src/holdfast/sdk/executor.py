"""The executor of attempts: it brings them their steps, keeps what they have done, and stops them.

Shared by all who run tasks in their own process: workers, and tests.
"""

import asyncio
import logging
from typing import Any
from uuid import UUID

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import Checkpoint, Checkpointed, Failed, Json, Lease, Outcome
from holdfast.errors import DatabaseError, HoldfastError, LeaseLost
from holdfast.execution.attempt import Attempt
from holdfast.execution.tracing import attempting, told
from holdfast.sdk.attempt import CANCELLED, Run
from holdfast.sdk.task import Task

log = logging.getLogger("holdfast.worker")

steps_again_seconds = 0.2


class BackendExecutor:
    """An executor over a backend. A subclass says where `show` sends progress."""

    store: WorkerBackend
    traced = True

    def __init__(self) -> None:
        self.runs: dict[UUID, Run] = {}

    async def run_attempt(
        self, task: Task[..., object], attempt: Attempt, at: asyncio.Task[Any] | None = None
    ) -> Outcome | None:
        """The outcome of one attempt, to be settled; None if its lease is lost. `at` is the asyncio task that calls."""
        at = at or asyncio.current_task()
        assert at is not None  # noqa: S101
        lease = attempt.lease
        run = self.runs[lease.task_id] = Run(task, attempt)
        try:
            if self.traced or lease.trace:
                with attempting(lease) as span:
                    outcome = await run(at)
                    told(span, outcome)
            else:
                outcome = await run(at)
            return await self._settled_up(attempt, outcome)
        except Exception as error:  # a fault of ours: the task must end all the same
            log.exception("an attempt broke", extra={"task_id": str(lease.task_id)})
            return Failed(None, f"{type(error).__name__}: {error}")
        finally:
            del self.runs[lease.task_id]

    async def _settled_up(self, attempt: Attempt, outcome: Outcome | None) -> Outcome | None:
        """What was spent outside of steps, or in steps that failed, is written down before the end."""
        if outcome is None or not attempt.spent:
            return outcome
        try:
            await self.record(attempt.lease, "usage", None, attempt.spent)
        except LeaseLost:
            return None
        except HoldfastError as error:
            log.warning("usage not kept", extra={"task_id": str(attempt.lease.task_id), "error": str(error)})
        return outcome

    def interrupt(self, task_id: UUID, outcome: Outcome | None) -> None:
        """Stop this one, if it runs here."""
        if task_id in self.runs:
            self.runs[task_id].interrupt(outcome)

    async def steps(self, lease: Lease) -> dict[str, Json]:
        while True:
            try:
                return {one.name: one.result for one in await self.store.held_steps(lease) if one.done}
            except DatabaseError:
                await asyncio.sleep(steps_again_seconds)

    async def checkpoint(self, done: Checkpoint) -> Checkpointed:
        kept = await self._keep(done)
        assert isinstance(done.lease, Lease)  # noqa: S101
        refuse(kept.status, done.lease, "a checkpoint")
        if kept.cancel_requested:
            self.interrupt(kept.task_id, CANCELLED)
        return kept

    async def _keep(self, done: Checkpoint) -> Checkpointed:
        return (await self.store.checkpoint(done))[0]

    async def record(self, lease: Lease, kind: str, step: str | None, data: Json) -> None:
        await self.store.record(lease, kind, step, data)

    def show(self, lease: Lease, progress: Json) -> None:
        """Let others see how far it is."""
