"""Submitting, never twice: intended first, then asked, then kept; what is left in doubt is looked for.

What a provider does not show may have been begun a moment ago. So it counts as absent only if it is still not shown
some time after somebody has looked for it. Nobody else begins it meanwhile, but for a process that was frozen in the
middle of its call and has not heard that its lease is gone: `ask` leaves no room for that before the call, only in it.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from holdfast.engine.task import Checkpoint
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid
from holdfast.lifecycles.batch.batches import JobRow
from holdfast.lifecycles.batch.calling import Slow
from holdfast.lifecycles.batch.provider import CannotTell, Input
from holdfast.lifecycles.batch.telling import Telling

first_look = timedelta(seconds=10)
refused_at_most = timedelta(days=1)
repeats_at_most = 3
frozen_most_seconds = 1.0


class Submitting(Telling):
    """That part of a turn."""

    async def submit(self) -> None:
        """One job after the other: what is accepted is kept before the next one is begun."""
        for job in self.due("PLANNED", "INTENDED"):
            try:
                await self.caller.spend(1)
                await self.begin(job)
            except Slow as slow:
                self.left_alone = slow.until
                return
            except RateLimited as error:
                self.left_alone = await self.slow_down(error)
                waiting = job.waiting_since and self.now - job.waiting_since
                if job.status == "INTENDED":
                    await self.tell(self.waits(job, self.left_alone, error.message))
                elif waiting and waiting > refused_at_most:
                    await self.tell(self.failed(job, error))
                else:
                    await self.tell({**self.waits(job, self.left_alone, error.message), "refused": True})
                return

    async def begin(self, job: JobRow) -> None:
        """Submit a job, unless the provider has it already. Raises RateLimited."""
        in_doubt = job.status == "INTENDED"
        if in_doubt and job.account != self.provider.account:
            said = f"It may have been begun with {job.account}, and now the account is {self.provider.account}."
            await self.tell(self.parked(job, said))
            return
        if in_doubt and not (self.provider.repeats_submit and job.transient_failures < repeats_at_most):
            found = await self.look_for(job)
            if found is None or found.status != "PLANNED":
                return
            job, in_doubt = found, False
        inputs = await self.caller.files.inputs(job.inputs_key)
        try:
            external_id = await self.ask(job, inputs)
        except RateLimited:
            raise
        except (SchemaInvalid, Fatal) as error:
            if not in_doubt:
                await self.tell(self.failed(job, error))
            elif (found := await self.look_for(job)) and found.status == "PLANNED":
                await self.tell(self.failed(found, error))  # what was tried before never arrived
            return
        except Failure as error:
            await self.tell(self.stumbled(self.jobs[job.number], error, min(first_look, self.provider.listed_within)))
            return
        await self.accept(job, external_id)

    async def ask(self, job: JobRow, inputs: Sequence[Input]) -> str:
        """Say what is intended, and ask the provider at once, while the lease is certainly ours. Raises Failure."""
        async with self.caller.places:
            memo = {"job": job.number, "verb": "remember", "memo": job.memo}
            told = {"job": job.number, "verb": "intend"} if job.status == "PLANNED" else memo
            job = (await self.tell(told)).get(job.number, job)
            heard = time.monotonic()
            self.check_wanted()
            if time.monotonic() - heard > frozen_most_seconds:  # who was stopped here may have lost it
                await self.tell(memo)
            return await self.caller.ask(lambda: self.provider.submit(self.caller.job(job), inputs))

    async def look_for(self, job: JobRow) -> JobRow | None:
        """A job that may have been begun: adopted if the provider has it, else free to be submitted; None: not yet."""
        try:
            found = await self.caller.call(lambda: self.provider.find(self.caller.job(job)))
        except CannotTell as error:
            said = f"{self.provider.name} cannot tell whether it has it. {error}".strip()
            await self.tell(self.parked(job, said))
            return None
        except RateLimited as error:
            await self.tell(self.waits(job, await self.slow_down(error), error.message))
            return None
        except Failure as error:
            await self.tell(self.stumbled(self.jobs[job.number], error, self.pause(job)))
            return None
        if found is not None:
            await self.accept(job, found)
            return None
        within = self.provider.listed_within
        if within and (job.missed_at is None or self.now < job.missed_at + within):
            left = within if job.missed_at is None else job.missed_at + within - self.now
            await self.tell({"job": job.number, "verb": "missed", "seconds": left.total_seconds()})
            return None
        return (await self.tell({"job": job.number, "verb": "absent"})).get(job.number)

    async def accept(self, job: JobRow, external_id: str) -> None:
        told = {"job": job.number, "verb": "accept", "external_id": external_id, "seconds": self.every()}
        await self.tell(told)
        await self.be_in_progress()

    async def be_in_progress(self) -> None:
        """From when a provider has a job, or may have one for all that a person can tell."""
        known = any(job.external_id or job.status == "PARKED" for job in self.jobs.values())
        if self.attempt.state == "PENDING" and known:
            await self.attempt.checkpoint(Checkpoint(self.attempt.lease, to="IN_PROGRESS"))
            self.attempt.state = "IN_PROGRESS"
