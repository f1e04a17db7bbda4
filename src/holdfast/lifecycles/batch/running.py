"""One turn at a batch: find what was left in doubt, submit what is to be, ask about what runs, fetch what has ended.

Everything that happens to a job is told to the database before the next call is made, and the database knows how a job
may go on; a turn that is cut off anywhere is made up for by the next one, on any machine. Whatever fails at our own
storage is tried again for as long as it takes: what a provider has done is not thrown away for that.
"""

import functools
from collections.abc import Callable
from datetime import timedelta

from holdfast.engine.store.calls import patiently
from holdfast.engine.task import Later, Outcome
from holdfast.errors import Failure, ObjectsUnreachable, RateLimited, SchemaInvalid, Transient
from holdfast.execution.attempt import ATTEMPT, Attempt
from holdfast.execution.context import current, get_service
from holdfast.lifecycles.batch.batches import Batches, JobRow, OpenBatch, Told
from holdfast.lifecycles.batch.calling import Caller, Slow
from holdfast.lifecycles.batch.fetching import fetch_job
from holdfast.lifecycles.batch.merging import merge
from holdfast.lifecycles.batch.planning import Planning
from holdfast.lifecycles.batch.provider import CannotCancel, Ended, Provider, Running
from holdfast.lifecycles.batch.submitting import Submitting
from holdfast.lifecycles.batch.telling import OPEN, told_at_once
from holdfast.objects import Objects
from holdfast.settings import Settings

cancelling_at_most = timedelta(minutes=10)
cancelling_every = timedelta(seconds=5)
storage_again = timedelta(minutes=1)
fetched_late_at_most = 3
OUTCOMES = ("succeeded", "failed", "cancelled", "expired")


async def run_batch(provider: Provider, objects: Objects, settings: Callable[[], Settings]) -> Outcome:
    """Bring the batch on that this worker holds. Raises Suspend, for whoever is stopped."""
    current()
    attempt = ATTEMPT.get()
    assert attempt is not None  # noqa: S101 - there is a current lease
    batches = get_service(Batches)
    lease = attempt.lease
    batch = await patiently(lambda: batches.open(lease.task_id))
    if batch is None:
        raise SchemaInvalid("This batch was made without inputs.", code="no-inputs")
    if not batch.planned:
        await Planning(provider, batches, objects, settings, lease)(batch)
        batch = await reopened(batches, attempt)
    caller = Caller(provider, batches, attempt.backend, objects, lease, lease.task_id, batch.task_type)
    try:
        return await Turn(attempt, caller, batch)()
    except (ObjectsUnreachable, Transient):
        return Later(storage_again, kind="storage_away")


async def reopened(batches: Batches, attempt: Attempt) -> OpenBatch:
    batch = await patiently(lambda: batches.open(attempt.lease.task_id))
    assert batch is not None  # noqa: S101 - it was there
    return batch


class Turn(Submitting):
    """One turn at a batch, under one lease."""

    async def __call__(self) -> Outcome:
        await self.be_in_progress()
        if self.timed_out:
            await self.wind_up()
        else:
            await self.submit()
        await self.poll()
        await self.fetch()
        self.check_wanted()
        if any(
            job.status == "PARKED" for job in self.jobs.values()
        ):  # somebody may have said something of it meanwhile
            again = await reopened(self.caller.batches, self.attempt)
            self.jobs |= {job.number: job for job in again.jobs}
        if any(job.status in OPEN for job in self.jobs.values()):
            await self.be_in_progress()
            return self.later()
        return await merge(self.caller, self.attempt.lease)

    # What runs

    async def poll(self) -> None:
        """Ask about all that are due, a few at the same time."""
        due = self.due("SUBMITTED")
        while due and not self.left_alone:
            try:
                granted = await self.caller.spend(min(len(due), told_at_once))
            except Slow as slow:
                self.left_alone = slow.until
                return
            part, due = due[:granted], due[granted:]
            await self.tell(*await self.caller.all([self.poll_one(job) for job in part]))

    async def poll_one(self, job: JobRow) -> Told:
        async def ask() -> Running | Ended:
            if self.left_alone:  # while this one waited for its place
                raise Slow(self.left_alone)
            try:
                return await self.provider.poll(self.caller.job(job))
            except RateLimited as error:
                self.left_alone = self.left_alone_until(error)
                raise

        try:
            answer = await self.caller.call(ask)
        except Slow as slow:
            return self.waits(job, slow.until, "The provider asks to slow down.")
        except RateLimited as error:
            return self.waits(job, await self.slow_down(error), error.message)
        except Transient as error:
            return self.stumbled(job, error, self.provider.poll_every)
        except Failure as error:
            return self.parked(job, error.message)
        if isinstance(answer, Ended) and answer.outcome in OUTCOMES:
            return self.ended(job, answer)
        if not isinstance(answer, Running):
            said = Transient(f"The provider answered what is no answer: {answer!r:.200}.", code="answer")
            return self.stumbled(job, said, self.provider.poll_every)
        seconds = answer.again_in.total_seconds() if answer.again_in else self.every()
        if job.cancelled_at:
            seconds = min(seconds, cancelling_every.total_seconds())
        return {"job": job.number, "verb": "poll", "status": answer.status, "done": answer.done, "seconds": seconds}

    # What has ended

    async def fetch(self) -> None:
        """Bring what came of the inputs. The provider has done its work: that is not lost because we stumble here."""
        for job in self.due("ENDED"):
            try:
                told = await self.caller.ask(functools.partial(fetch_job, self.caller, job))
            except RateLimited as error:
                told = self.waits(job, await self.slow_down(error), error.message)
            except Transient as error:
                told = self.stumbled(job, error, self.pause(job))
                if self.timed_out and job.transient_failures >= fetched_late_at_most:
                    told = self.over(job, error.message)
            except Failure as error:
                told = self.parked(job, error.message)
            await self.tell(told)
            done = sum(one.inputs if one.status not in OPEN else one.done or 0 for one in self.jobs.values())
            self.attempt.report_progress(done=done, total=sum(one.inputs for one in self.jobs.values()))

    # When time is up

    async def wind_up(self) -> None:
        """The limit has passed: nothing is begun any more, what runs is stopped, what has ended is kept."""
        for job in list(self.jobs.values()):
            if job.status == "INTENDED":
                await self.look_for(job)
            if self.jobs[job.number].status in ("PLANNED", "INTENDED", "PARKED"):
                await self.tell(self.over(job))
        for job in [job for job in self.jobs.values() if job.status == "SUBMITTED"]:
            await self.stop(job)

    async def stop(self, job: JobRow) -> None:
        """Ask the provider to stop a job; if it does not within some minutes, the batch goes on without it."""
        if job.cancelled_at and self.now - job.cancelled_at > cancelling_at_most:
            await self.tell(self.over(job))
            return
        try:
            ended = await self.caller.call(lambda: self.provider.cancel(self.caller.job(job)))
        except CannotCancel:
            answer = await self.poll_one(job)
            await self.tell(answer if answer["verb"] == "end" else self.over(job))
            return
        except Failure as error:
            await self.tell({**self.cancelling(job), "error": error.message})
            return
        await self.tell(self.ended(job, ended) if ended else {**self.cancelling(job), "seconds": 0})

    def cancelling(self, job: JobRow) -> Told:
        return {"job": job.number, "verb": "cancel", "seconds": cancelling_every.total_seconds()}
