"""What a turn at a batch knows of its jobs, and how it tells what happened to them."""

from datetime import datetime, timedelta

from holdfast.backoff import doubled, jitter
from holdfast.engine.task import Cancelled, Later, Outcome
from holdfast.errors import Failure, RateLimited
from holdfast.execution.attempt import Attempt
from holdfast.execution.suspend import Suspend
from holdfast.lifecycles.batch.batches import JobRow, OpenBatch, Told
from holdfast.lifecycles.batch.calling import Caller, seconds_of
from holdfast.lifecycles.batch.provider import Ended

OPEN = ("PLANNED", "INTENDED", "PARKED", "SUBMITTED", "ENDED")
told_at_once = 200
parked_again = timedelta(days=1)
longest_pause = timedelta(minutes=15)
shortest_pause = timedelta(milliseconds=100)


class Telling:
    """The jobs of a batch as they stand, under one lease."""

    def __init__(self, attempt: Attempt, caller: Caller, batch: OpenBatch) -> None:
        self.attempt = attempt
        self.caller = caller
        self.provider = caller.provider
        self.now = batch.now
        self.jobs = {job.number: job for job in batch.jobs}
        self.left_alone: datetime | None = None
        """Until when the account is not called, if it is spent or wants to be left alone."""

    @property
    def timed_out(self) -> bool:
        return self.attempt.lease.timed_out

    def due(self, *statuses: str) -> list[JobRow]:
        """Those in one of these, whose time has come, in their order; at a limit it has come for all."""
        return [
            job for job in sorted(self.jobs.values(), key=lambda job: job.number)
            if job.status in statuses and (self.timed_out or self.is_due(job))
        ]  # fmt: skip

    def is_due(self, job: JobRow) -> bool:
        return job.due_at is None or job.due_at <= self.now

    async def tell(self, *told: Told) -> dict[int, JobRow]:
        rows: dict[int, JobRow] = {}
        for start in range(0, len(told), told_at_once):
            rows |= await self.caller.tell(*told[start : start + told_at_once])
        self.jobs |= rows
        return rows

    def check_wanted(self) -> None:
        """Raises Suspend if somebody wants the batch to stop."""
        if self.caller.wants_stop:
            raise Suspend(Cancelled())

    async def slow_down(self, error: RateLimited) -> datetime:
        """Until when the provider wants to be left alone, by all who call this account."""
        until = self.left_alone_until(error)
        await self.caller.block_budget(until)
        return until

    def left_alone_until(self, error: RateLimited) -> datetime:
        return error.retry_at or self.now + timedelta(seconds=seconds_of(error, self.provider.poll_every))

    # The words

    def waits(self, job: JobRow, until: datetime, error: str | None) -> Told:
        seconds = max((until - self.now).total_seconds(), 0)
        return {"job": job.number, "verb": "wait", "seconds": seconds, "error": error}

    def stumbled(self, job: JobRow, error: Failure, pause: timedelta) -> Told:
        seconds = seconds_of(error, pause)
        failures = job.transient_failures
        return {"job": job.number, "verb": "stumble", "error": error.message, "seconds": seconds, "failures": failures}

    def failed(self, job: JobRow, error: Failure) -> Told:
        """It was refused for good, and certainly not begun."""
        said = {"error": error.message, "category": error.category}
        return {"job": job.number, "verb": "fail", **said, "running": False}

    def parked(self, job: JobRow, error: str) -> Told:
        """A person must look; when time is up, none comes any more."""
        return self.over(job, error) if self.timed_out else {"job": job.number, "verb": "park", "error": error}

    def over(self, job: JobRow, error: str | None = None) -> Told:
        before = error or job.error
        told = f"The time limit of the batch has passed.{f' Before: {before}' if before else ''}"
        return {"job": job.number, "verb": "fail", "error": told, "category": "Transient"}

    def ended(self, job: JobRow, answer: Ended) -> Told:
        told = {name: value for name, value in vars(answer).items() if value is not None}
        return {**told, "job": job.number, "verb": "end"}

    def pause(self, job: JobRow) -> timedelta:
        """Longer with each failure in a row."""
        first, longest = self.provider.poll_every.total_seconds(), longest_pause.total_seconds()
        return timedelta(seconds=doubled(first, job.transient_failures, longest))

    def every(self) -> float:
        """How long until a job is asked about again: a little different for each, so that they spread."""
        return jitter(self.provider.poll_every.total_seconds(), 0.05)

    def later(self) -> Outcome:
        """When the first of the open jobs is due, and what is waited for until then."""
        jobs = [job for job in self.jobs.values() if job.status in OPEN]
        times = [self.next_time(job) for job in jobs if job.status != "PARKED"]
        at = max(min(times, default=self.now + parked_again), self.now + shortest_pause)
        kind, message = self.waits_for(jobs)
        return Later(at=at, kind=kind, message=message)

    def waits_for(self, jobs: list[JobRow]) -> tuple[str, str | None]:
        """What is waited for, and what there is to say of it."""
        parked = [job for job in jobs if job.status == "PARKED"]
        if parked:
            others = f" and {len(parked) - 1} more wait" if len(parked) > 1 else " waits"
            show = f"holdfast batch show {self.caller.task}"
            said = f"Job {parked[0].number}{others} for a person, who finds what to say with: {show}."
            return "person" if len(parked) == len(jobs) else "provider_poll", said
        if any(job.status == "SUBMITTED" for job in jobs):
            return "provider_poll", None
        if ended := next((job for job in jobs if job.status == "ENDED"), None):
            return (
                "results_away",
                f"The provider is done with job {ended.number}; its results are not here yet: {ended.error}.",
            )
        if self.left_alone or any(job.category == "RateLimited" for job in jobs):
            return "rate_budget", None
        first = jobs[0]
        return "provider_submit", f"Job {first.number} is not with the provider yet: {first.error or 'it is next'}."

    def next_time(self, job: JobRow) -> datetime:
        if self.left_alone and self.is_due(job) and job.status != "ENDED":
            return self.left_alone
        return job.due_at or self.now
