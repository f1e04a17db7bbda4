"""Fan-out: a job that we do ourselves, one request after the other, where a server takes no jobs.

Each result is kept before the next poll counts it. A crash repeats at most the requests that were under way.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.apps.providers.kept_jobs import KeptJob, Standing
from holdfast.errors import Failure, SchemaInvalid, Transient
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Result, Running

tries_most = 3


@dataclass(frozen=True)
class Fanout:
    """Does the inputs of a job with `do`, which returns the result of one or raises a Failure."""

    do: Callable[[Job, Input], Awaitable[Result]]
    at_once: int = 4
    spell: timedelta = timedelta(seconds=5)
    """How long a poll begins new requests; it waits for those that it has begun."""

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        """Keep the inputs; that is the job."""
        await KeptJob(job).begin(inputs)
        return name_of(job)

    async def find(self, job: Job) -> str | None:
        return name_of(job) if await KeptJob(job).exists() else None

    async def poll(self, job: Job) -> Running | Ended:
        """Do some of what is left. Raises RateLimited or Fatal; Transient only if nothing at all was done."""
        kept = KeptJob(job)
        inputs, standing = await kept.inputs(), await kept.compute_standing()
        left = standing.left(inputs)
        if left:
            work = Work(self, job, kept, standing, left)
            await work.run()
            left = [one for one in left if one.key not in work.done]
            if work.failure and (not isinstance(work.failure, Transient) or not work.done):
                raise work.failure
        if left:
            return Running("in progress here", again_in=timedelta(seconds=1), done=len(inputs) - len(left))
        return Ended("done here", "succeeded")

    def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncGenerator[Result, None]:
        return KeptJob(job).results(inputs)


class Work:
    """One poll's share of a job."""

    def __init__(self, fanout: Fanout, job: Job, kept: KeptJob, standing: Standing, left: Sequence[Input]) -> None:
        self.fanout = fanout
        self.job = job
        self.kept = kept
        self.standing = standing
        self.left = iter(left)
        self.done: set[str] = set()
        self.failure: Failure | None = None

    async def run(self) -> None:
        until = asyncio.get_running_loop().time() + self.fanout.spell.total_seconds()
        async with asyncio.TaskGroup() as group:
            for _ in range(self.fanout.at_once):
                group.create_task(self._do_until(until))

    async def _do_until(self, until: float) -> None:
        begun = False  # at least one each time, however slow it all is
        while self.failure is None and not (begun and asyncio.get_running_loop().time() >= until):
            one = next(self.left, None)
            if one is None:
                return
            begun = True
            try:
                if result := await self._result(one):
                    await self.kept.keep(result)
                    self.done.add(result.key)
            except Failure as failure:  # our own objects cannot be reached
                self.failure = failure

    async def _result(self, one: Input) -> Result | None:
        """What became of it. A trouble of the whole server ends the poll; an input in trouble each time has failed."""
        try:
            return await self.fanout.do(self.job, one)
        except SchemaInvalid as failure:
            return Result(one.key, error=failure.message, category="SchemaInvalid")
        except Failure as failure:
            if self.failure is None or isinstance(self.failure, Transient):
                self.failure = failure
            if not isinstance(failure, Transient):
                return None
            tries = self.standing.times(one.key) + 1
            if tries >= tries_most:
                return Result(one.key, error=failure.message, category="Transient")
            await self.kept.note(one.key, "failure", tries, failure.message)
            return None


def name_of(job: Job) -> str:
    return f"here-{job.token}"


def is_here(job: Job) -> bool:
    """Whether this is a job that we do ourselves."""
    return job.external_id == name_of(job)
