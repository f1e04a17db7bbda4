"""What is left running at a provider when a batch is over: found, stopped, or told to a person.

The database makes this task in the transaction that ends a batch, whatever ended it, if a provider may be at work.
"""

from dataclasses import replace
from datetime import timedelta

from holdfast.engine.store.calls import patiently
from holdfast.engine.task import Done, Failed, Json, Later, Outcome
from holdfast.errors import Failure, RateLimited, SchemaInvalid
from holdfast.execution.attempt import ATTEMPT
from holdfast.execution.context import current, get_service
from holdfast.lifecycles.batch.batches import Batches, JobRow, OpenBatch
from holdfast.lifecycles.batch.calling import Caller, Slow, seconds_of
from holdfast.lifecycles.batch.fetching import received, spent
from holdfast.lifecycles.batch.provider import CannotCancel, CannotTell, Ended, Job, Provider, Running
from holdfast.objects import Objects

again = timedelta(seconds=10)
stopping_at_most = timedelta(hours=24)
counting_at_most = 3


async def run_stop(provider: Provider, objects: Objects) -> Outcome:
    """Stop what a batch has left running."""
    lease = current()
    attempt = ATTEMPT.get()
    assert attempt is not None  # noqa: S101
    batches = get_service(Batches)
    task = await patiently(lambda: batches.stopped_by(lease.task_id))
    if task is None:
        raise SchemaInvalid("Only a batch that is over makes such a task.", code="no-batch")
    batch = await patiently(lambda: batches.open(task))
    assert batch is not None  # noqa: S101 - what it stops is there
    caller = Caller(provider, batches, attempt.backend, objects, lease, task, batch.task_type)
    return await Stopping(caller, batch)()


class Stopping:
    """One turn at it."""

    def __init__(self, caller: Caller, batch: OpenBatch) -> None:
        self.caller = caller
        self.provider = caller.provider
        self.batch = batch
        self.left: list[str] = []
        self.open: list[str] = []
        self.troubled: list[str] = []
        self.stopped: list[str] = []
        self.uncounted: list[str] = []

    async def __call__(self) -> Outcome:
        for job in self.batch.jobs:
            if not job.running:
                continue
            try:
                await self.caller.spend(1)
                await self.stop(job)
            except Slow as slow:
                return Later(at=slow.until, kind="rate_budget")
            except RateLimited as error:
                return Later(seconds_of(error, again), kind="rate_budget")
            except Failure as error:  # also if it refuses: a key may be mended
                self.troubled.append(f"Job {job.number}: {error.message}")
        if self.troubled:
            return Failed("Transient", " ".join(self.troubled), code="cannot-stop-now")
        if self.open:
            return Later(again, kind="provider_poll")
        if self.left:
            return Failed(
                "Fatal", f"{self.provider.name} may still be at work. {' '.join(self.left)}", code="left-running"
            )
        return Done({"stopped": self.stopped, **({"cost_unknown": self.uncounted} if self.uncounted else {})})

    async def stop(self, job: JobRow) -> None:
        """Bring one to its end. Raises Failure."""
        external_id = job.external_id or await self.find(job)
        if external_id is None:
            return None
        known = replace(self.caller.job(job), external_id=external_id)
        can_stop = True
        ended: Running | Ended | None = None
        try:
            ended = await self.caller.call(lambda: self.provider.cancel(known))
        except CannotCancel:
            can_stop = False
        ended = ended or await self.caller.call(lambda: self.provider.poll(known))
        if isinstance(ended, Ended):
            return await self.over(job, external_id, await self.spent(job, known, ended))
        if not can_stop:
            return await self.leave(job, f"{self.provider.name} cannot stop it.", external_id)
        if self.batch.over_at and self.batch.now - self.batch.over_at > stopping_at_most:
            return await self.leave(job, "It was told to stop, and has not stopped.", external_id)
        self.open.append(external_id)
        return None

    async def find(self, job: JobRow) -> str | None:
        """The provider's name for a job that may have been begun; None if it was not, or nobody knows."""
        try:
            found = await self.caller.call(lambda: self.provider.find(self.caller.job(job)))
        except CannotTell as error:
            await self.leave(job, f"{self.provider.name} cannot tell whether it was begun. {error}".strip())
            return None
        within = self.provider.listed_within
        if found is None and within and (job.missed_at is None or self.batch.now < job.missed_at + within):
            left = within if job.missed_at is None else job.missed_at + within - self.batch.now
            await self.caller.tell({"job": job.number, "verb": "missed", "seconds": left.total_seconds()})
            self.open.append(job.token)
        elif found is None:
            await self.over(job, job.token, [])
        return found

    async def spent(self, row: JobRow, job: Job, ended: Ended) -> list[dict[str, Json]]:
        """What it has cost by its end: it is paid for, whether anybody wants it or not. Raises Failure."""
        if not ended.has_results:
            return []
        job = job if ended.memo is None else replace(job, memo=ended.memo)
        try:
            inputs = await self.caller.ask(lambda: self.caller.files.inputs(row.inputs_key))
            return spent((await received(self.caller, job, inputs)).values())
        except Failure as error:
            if self.caller.lease.attempt < counting_at_most:
                raise
            self.uncounted.append(f"Job {row.number}: {error.message}")
            return []

    async def over(self, job: JobRow, name: str, usage: list[dict[str, Json]]) -> None:
        await self.caller.tell({"job": job.number, "verb": "stop", "running": False, "usage": usage})
        self.stopped.append(name)

    async def leave(self, job: JobRow, why: str, external_id: str | None = None) -> None:
        """It cannot be stopped: kept with the job, and told to a person."""
        told = {"job": job.number, "verb": "stop", "running": True, "error": why, "external_id": external_id}
        await self.caller.tell(told)
        self.left.append(f"Job {job.number} ({external_id or job.external_id or job.token}): {why}")
