"""The handlers of batches: one brings a batch from its inputs to its manifest, the other stops what was left running.

An attempt at a batch looks for what was left in doubt, submits what is planned, polls what runs, and fetches what has
ended; it merges when all jobs have ended, and is due again until then. Whatever happens to a job is reported to the
database before the next call is made, and the database knows how a job may go on. An attempt that is cut off anywhere
is made up for by the next one, on any machine.

No job is submitted twice. It is intended first, then submitted, then accepted. What is in doubt is looked for, and as a
job may be listed late, it counts as absent only if it is still missing some time after the first look. No other
process submits it meanwhile, but for one that was frozen in the middle of its call and does not know yet that its lease
is gone: `ask_to_begin` leaves that no time before the call, only in it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from holdfast.backoff import jitter, pause_after
from holdfast.durations import parse_duration
from holdfast.engine.store.calls import asked_again_seconds, patiently
from holdfast.engine.task import Cancelled, Category, Checkpoint, Done, Failed, Json, Later, Outcome, Partial
from holdfast.errors import (
    BudgetUnknown,
    DatabaseError,
    Failure,
    Fatal,
    HoldfastError,
    MoveRefused,
    ObjectsUnreachable,
    RateLimited,
    RequestInvalid,
    SchemaInvalid,
    Transient,
)
from holdfast.execution.attempt import ATTEMPT, Attempt
from holdfast.execution.context import current, get_service
from holdfast.execution.suspend import Suspend
from holdfast.lifecycles.batch.planning import plan_jobs
from holdfast.lifecycles.batch.provider import CannotCancel, CannotTell, Ended, Input, Job, Provider, Result, Running
from holdfast.lifecycles.batch.results import PLURAL, Files, preview, result_line, usage_of
from holdfast.lifecycles.batch.store import Batches, EndedBatch, JobEvent, JobRow, OpenBatch, storable
from holdfast.remote.places import objects_of

log = logging.getLogger("holdfast.batch")

T = TypeVar("T")

OPEN = ("PLANNED", "INTENDED", "PARKED", "SUBMITTED", "ENDED")
OUTCOMES = ("succeeded", "failed", "cancelled", "expired")

events_at_once = 200
first_look = timedelta(seconds=10)
refused_at_most = timedelta(days=1)
repeats_at_most = 3
frozen_most_seconds = 1.0
shortest_wait_seconds = 1.0
longest_pause = timedelta(minutes=15)
shortest_pause = timedelta(milliseconds=100)
parked_again = timedelta(days=1)
storage_again = timedelta(minutes=1)
cancelling_at_most = timedelta(minutes=10)
cancelling_every = timedelta(seconds=5)
fetched_late_at_most = 3
stopped_again = timedelta(seconds=10)
stopping_at_most = timedelta(hours=24)
counting_at_most = 3


async def run_batch(provider: Provider) -> Outcome:
    """Bring the batch on that this worker holds. Raises Suspend if it is to stop."""
    batch = await load_batch()
    if not batch.planned:
        await plan_jobs(batch, provider, running_attempt())
        batch = await load_batch()
    try:
        return await BatchAttempt(provider, batch).run()
    except (ObjectsUnreachable, Transient):
        return Later(storage_again, kind="storage_away")


async def run_stop(provider: Provider) -> Outcome:
    """Stop what a batch has left running.

    The database makes this task in the transaction that ends a batch, whatever ended it, if a provider may be at work.
    """
    batch = await load_batch("Only a batch that is over makes such a task.", code="no-batch")
    return await StopAttempt(provider, batch).run()


async def load_batch(missing: str = "This batch was made without inputs.", code: str = "no-inputs") -> OpenBatch:
    """The batch that this worker holds, or is to stop. Raises SchemaInvalid if there is none."""
    holder, batches = current().task_id, get_service(Batches)
    batch = await patiently(lambda: batches.load(holder))
    if batch is None:
        raise SchemaInvalid(missing, code=code)
    return batch


def running_attempt() -> Attempt:
    attempt = ATTEMPT.get()
    assert attempt is not None  # noqa: S101 - there is a current lease
    return attempt


# Calls to a provider


class BudgetSpent(Exception):
    """The budget of the account is spent for now."""

    def __init__(self, until: datetime) -> None:
        self.until = until


SLOTS: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Semaphore]]" = WeakKeyDictionary()


class ProviderCalls:
    """Calls to a provider for one batch within the budget of its account, and reports of what came of them."""

    def __init__(self, provider: Provider, batch: OpenBatch) -> None:
        """`batch`: the task of the lease itself, or the one that it stops."""
        self.provider = provider
        self.batch = batch
        self.jobs = {job.number: job for job in batch.jobs}
        self.now = batch.now
        self.attempt = running_attempt()
        self.lease = self.attempt.lease
        self.batches = get_service(Batches)
        self.objects = objects_of(self.attempt.settings)
        self.files = Files(self.objects, batch.task_id)
        self.is_cancelled = False

    @property
    def slots(self) -> asyncio.Semaphore:
        """So many calls at once to an account, by all tasks that this process works on."""
        here = SLOTS.setdefault(asyncio.get_running_loop(), {})
        key = (self.provider.name, self.provider.account)
        return here.setdefault(key, asyncio.Semaphore(self.provider.calls_at_once))

    @property
    def budget(self) -> str:
        return f"{self.provider.name} {self.provider.account}"[:200]

    async def spend(self, calls: int) -> int:
        """Take up to so many calls out of the budget of the account; how many. Raises BudgetSpent."""
        waited_until = self.lease.due_at if self.lease.resumed else None
        try:
            grant = await self.attempt.backend.spend(self.budget, calls, retry_at=waited_until)
        except BudgetUnknown:
            return calls
        except RequestInvalid:  # more than it ever holds
            if calls == 1:
                raise
            return await self.spend(calls // 2)
        if not grant.granted:
            if calls > 1:
                return await self.spend(1)
            assert grant.retry_at is not None  # noqa: S101
            raise BudgetSpent(grant.retry_at)
        return calls

    def job(self, row: JobRow) -> Job:
        """A job as its provider sees it."""

        async def remember(memo: Json) -> None:
            await self.report(event(row, "remember", memo=memo))

        return Job(
            row.token, self.batch.task_type, row.model, row.account, row.external_id, row.intended_at, row.memo,
            remember, self.objects, f"{self.files.place}/job-{row.number}",
        )  # fmt: skip

    async def report(self, *events: JobEvent) -> dict[int, JobRow]:
        """Keep what happened to jobs, however long the database is away; how they stand now. Raises LeaseLost.

        After a lost connection it may have been kept or not. Sent twice it is refused, and that is as good.
        """
        repeated = False
        while True:
            try:
                self.is_cancelled, rows = await self.batches.report(
                    self.lease, self.batch.task_id, *map(storable, events)
                )
                self.jobs |= rows
                return rows
            except MoveRefused:
                if not repeated:
                    raise
                return await self.load_jobs()
            except DatabaseError:
                repeated = True
                await asyncio.sleep(asked_again_seconds)

    async def load_jobs(self) -> dict[int, JobRow]:
        """The open jobs as they stand now."""
        rows = {job.number: job for job in (await load_batch()).jobs}
        self.jobs |= rows
        return rows

    async def call(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What a provider answers, when it is this call's turn. Raises a Failure."""
        async with self.slots:
            return await self.call_now(ask)

    async def call_now(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The same, with a slot taken already. An exception without a category is Transient, and logged."""
        try:
            return await ask()
        except (Failure, CannotCancel, CannotTell, BudgetSpent):
            raise
        except HoldfastError as error:
            raise Transient(str(error), code=type(error).__name__) from error
        except Exception as error:
            log.warning("a provider raised", exc_info=error)
            raise Transient(f"{type(error).__name__}: {error}", code=type(error).__name__) from error

    async def fetch_results(self, job: Job, inputs: Sequence[Input]) -> dict[str, Result]:
        """The provider's results for these inputs, by key; those for others do not count. Raises Failure."""
        keys = {one.key for one in inputs}

        async def receive() -> dict[str, Result]:
            results: dict[str, Result] = {}
            async for result in self.provider.fetch(job, inputs):
                if str(result.key) in keys:
                    results.setdefault(str(result.key), result)
            return results

        return await self.call(receive)

    def unlisted_for(self, job: JobRow) -> timedelta:
        """How much longer the job may be missing from listings and exist all the same."""
        within = self.provider.listed_within
        return within if job.missed_at is None else max(job.missed_at + within - self.now, timedelta(0))


def event(job: JobRow, verb: str, **more: Json) -> JobEvent:
    return {"job": job.number, "verb": verb, **more}


def wait_seconds(error: Failure, otherwise: timedelta) -> float:
    """How long to wait after a failure."""
    if error.retry_after is None:
        return otherwise.total_seconds()
    try:
        return max(parse_duration(error.retry_after).total_seconds(), shortest_wait_seconds)
    except HoldfastError:
        return otherwise.total_seconds()


# A batch


class BatchAttempt(ProviderCalls):
    """One attempt at a batch, under one lease."""

    blocked_until: datetime | None = None
    """Until when the account is not called: its budget is spent, or it asked to slow down."""

    async def run(self) -> Outcome:
        await self.mark_in_progress()
        if self.lease.timed_out:
            await self.wind_up()
        else:
            await self.submit()
        await self.poll()
        await self.fetch()
        self.check_not_cancelled()
        if any(job.status == "PARKED" for job in self.jobs.values()):  # an operator may have resolved it meanwhile
            await self.load_jobs()
        if any(job.status in OPEN for job in self.jobs.values()):
            await self.mark_in_progress()
            return self.later()
        return await self.merge()

    def due(self, *statuses: str) -> list[JobRow]:
        """The jobs in one of these whose time has come, in their order; at the time limit it has come for all."""
        jobs = sorted(self.jobs.values(), key=lambda job: job.number)
        return [job for job in jobs if job.status in statuses and (self.lease.timed_out or self.is_due(job))]

    def is_due(self, job: JobRow) -> bool:
        return job.due_at is None or job.due_at <= self.now

    def check_not_cancelled(self) -> None:
        """Raises Suspend."""
        if self.is_cancelled:
            raise Suspend(Cancelled())

    async def mark_in_progress(self) -> None:
        """From when a provider has a job, or may have one as far as a person can say."""
        known = any(job.external_id or job.status == "PARKED" for job in self.jobs.values())
        if self.attempt.state == "PENDING" and known:
            await self.attempt.checkpoint(Checkpoint(self.lease, to="IN_PROGRESS"))
            self.attempt.state = "IN_PROGRESS"

    # What is planned, or in doubt

    async def submit(self) -> None:
        """One job after the other: what is accepted is kept before the next one is begun."""
        for job in self.due("PLANNED", "INTENDED"):
            try:
                await self.spend(1)
                await self.begin(job)
            except BudgetSpent as spent:
                self.blocked_until = spent.until
                return
            except RateLimited as error:
                self.blocked_until = await self.slow_down(error)
                waiting = job.waiting_since and self.now - job.waiting_since
                if job.status == "INTENDED":
                    await self.report(self.wait_event(job, self.blocked_until, error.message))
                elif waiting and waiting > refused_at_most:
                    await self.report(refusal_event(job, error))
                else:
                    await self.report({**self.wait_event(job, self.blocked_until, error.message), "refused": True})
                return

    async def begin(self, job: JobRow) -> None:
        """Submit a job, unless the provider has it already. Raises RateLimited."""
        in_doubt = job.status == "INTENDED"
        if in_doubt and job.account != self.provider.account:
            reason = f"It may have been begun with {job.account}, and now the account is {self.provider.account}."
            await self.report(self.park_event(job, reason))
            return
        if in_doubt and not (self.provider.repeats_submit and job.transient_failures < repeats_at_most):
            found = await self.look_for(job)
            if found is None or found.status != "PLANNED":
                return
            job, in_doubt = found, False
        inputs = await self.files.inputs(job.inputs_key)
        try:
            external_id = await self.ask_to_begin(job, inputs)
        except RateLimited:
            raise
        except (SchemaInvalid, Fatal) as error:
            if not in_doubt:
                await self.report(refusal_event(job, error))
            elif (found := await self.look_for(job)) and found.status == "PLANNED":
                await self.report(refusal_event(found, error))  # what was tried before never arrived
        except Failure as error:
            pause = min(first_look, self.provider.listed_within)
            await self.report(stumble_event(self.jobs[job.number], error, pause))
        else:
            await self.accept(job, external_id)

    async def ask_to_begin(self, job: JobRow, inputs: Sequence[Input]) -> str:
        """Keep the intent, and ask the provider at once, while the lease is certainly ours. Raises Failure."""
        async with self.slots:
            memo = event(job, "remember", memo=job.memo)
            intent = event(job, "intend") if job.status == "PLANNED" else memo
            job = (await self.report(intent)).get(job.number, job)
            reported_at = time.monotonic()
            self.check_not_cancelled()
            if time.monotonic() - reported_at > frozen_most_seconds:  # frozen here, it may have lost the lease
                await self.report(memo)
            return await self.call_now(lambda: self.provider.submit(self.job(job), inputs))

    async def look_for(self, job: JobRow) -> JobRow | None:
        """A job that may have been begun: accepted if the provider has it, else free to be submitted; None: not yet."""
        try:
            found = await self.call(lambda: self.provider.find(self.job(job)))
        except CannotTell as error:
            reason = f"{self.provider.name} cannot tell whether it has it. {error}".strip()
            await self.report(self.park_event(job, reason))
            return None
        except Failure as error:
            await self.report(await self.failure_event(self.jobs[job.number], error, self.pause(job)))
            return None
        if found is not None:
            await self.accept(job, found)
            return None
        if left := self.unlisted_for(job):
            await self.report(event(job, "missed", seconds=left.total_seconds()))
            return None
        return (await self.report(event(job, "absent"))).get(job.number)

    async def accept(self, job: JobRow, external_id: str) -> None:
        await self.report(event(job, "accept", external_id=external_id, seconds=self.next_poll_seconds()))
        await self.mark_in_progress()

    # What runs

    async def poll(self) -> None:
        """Ask about all that are due, a few at the same time."""
        due = self.due("SUBMITTED")
        while due and not self.blocked_until:
            try:
                granted = await self.spend(min(len(due), events_at_once))
            except BudgetSpent as spent:
                self.blocked_until = spent.until
                return
            polls = [asyncio.ensure_future(self.poll_one(job)) for job in due[:granted]]
            try:
                await self.report(*await asyncio.gather(*polls))
            finally:
                for poll in polls:  # if one breaks, none is left behind
                    poll.cancel()
            due = due[granted:]

    async def poll_one(self, job: JobRow) -> JobEvent:
        async def ask() -> Running | Ended:
            if self.blocked_until:  # while this one waited for its slot
                raise BudgetSpent(self.blocked_until)
            try:
                return await self.provider.poll(self.job(job))
            except RateLimited as error:
                self.blocked_until = self.retry_at(error)
                raise

        try:
            answer = await self.call(ask)
        except BudgetSpent as spent:
            return self.wait_event(job, spent.until, "The provider asks to slow down.")
        except Failure as error:
            return await self.failure_event(job, error, self.provider.poll_every)
        if isinstance(answer, Ended) and answer.outcome in OUTCOMES:
            return end_event(job, answer)
        if not isinstance(answer, Running):
            unknown = Transient(f"The provider gave an answer of no known kind: {answer!r:.200}.", code="answer")
            return stumble_event(job, unknown, self.provider.poll_every)
        seconds = answer.again_in.total_seconds() if answer.again_in else self.next_poll_seconds()
        if job.cancelled_at:
            seconds = min(seconds, cancelling_every.total_seconds())
        return event(job, "poll", status=answer.status, done=answer.done, seconds=seconds)

    # What has ended

    async def fetch(self) -> None:
        """Fetch the results. The provider has done its work: that is not lost because we stumble here."""
        for job in self.due("ENDED"):
            try:
                report = await self.call_now(partial(self.fetch_one, job))
            except Failure as error:
                report = await self.failure_event(job, error, self.pause(job))
                is_last = self.lease.timed_out and job.transient_failures >= fetched_late_at_most
                if is_last and report["verb"] == "stumble":
                    report = self.give_up_event(job, error.message)
            await self.report(report)
            done = sum(one.inputs if one.status not in OPEN else one.done or 0 for one in self.jobs.values())
            self.attempt.report_progress(done=done, total=sum(one.inputs for one in self.jobs.values()))

    async def fetch_one(self, job: JobRow) -> JobEvent:
        """Bring the results of a job into our own storage, and count them. Raises Failure."""
        inputs = await self.files.inputs(job.inputs_key)
        results = await self.fetch_results(self.job(job), inputs) if job.has_results else {}
        lines = [result_line(one, results.get(one.key), job) for one in inputs]
        key = self.files.lines_key(self.lease.token, f"outputs-{job.number}")
        await self.files.write_lines(key, lines)
        failed = [line for line in lines if line["status"] != "ok"]
        report = event(
            job, "finish", ok=len(lines) - len(failed), output_key=key, result=preview(lines),
            usage=usage_of(results.values()),
        )  # fmt: skip
        if failed:
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            report["error"] = job.error or f"{failed[0]['input']}: {failed[0]['reason']}{more}"
            report["category"] = job.category or failed[0]["category"]
        return report

    async def merge(self) -> Outcome:
        """Write results and manifest, and end the batch as its jobs have ended. Raises Failure."""
        files, task, task_type = self.files, self.batch.task_id, self.batch.task_type
        batch = await patiently(lambda: self.batches.ended_jobs(task))
        if batch.verdict is None:
            raise Transient("A job of this batch is open again.", code="open")
        ok = sum(job.ok for job in batch.jobs)
        valid, invalid = sum(job.inputs for job in batch.jobs), len(batch.invalid)
        counts = {"inputs": valid + invalid, "ok": ok, "failed": valid - ok, "invalid": invalid}
        result_key = files.result_key if ok else None
        if result_key:
            by_model = self.provider.merges == "model" or task_type == "completion"
            name = PLURAL.get(task_type, "results")
            await self.call_now(lambda: files.write_result(batch.jobs, name, by_model=by_model))
        head = {
            "task_id": str(task), "task_type": task_type, "provider": self.provider.name,
            "status": batch.verdict, **counts,
        }  # fmt: skip
        await self.call_now(lambda: files.write_manifest(head, batch))
        await patiently(lambda: self.batches.keep_merged(self.lease, result_key, files.manifest_key))
        uris = {"result_uri": result_key and f"object:{result_key}", "manifest_uri": f"object:{files.manifest_key}"}
        match batch.verdict:
            case "COMPLETED":
                return Done({**uris, **counts})
            case "PARTIAL_COMPLETE":
                return Partial({**uris, **counts})
            case _:
                return batch_failure(batch)

    # When time is up

    async def wind_up(self) -> None:
        """The limit has passed: nothing is begun any more, what runs is stopped, what has ended is kept."""
        for job in list(self.jobs.values()):
            if job.status == "INTENDED":
                await self.look_for(job)
            if self.jobs[job.number].status in ("PLANNED", "INTENDED", "PARKED"):
                await self.report(self.give_up_event(job))
        for job in [job for job in self.jobs.values() if job.status == "SUBMITTED"]:
            await self.stop(job)

    async def stop(self, job: JobRow) -> None:
        """Ask the provider to stop a job; if it does not within some minutes, the batch goes on without it."""
        if job.cancelled_at and self.now - job.cancelled_at > cancelling_at_most:
            await self.report(self.give_up_event(job))
            return
        again = event(job, "cancel", seconds=cancelling_every.total_seconds())
        try:
            answer = await self.call(lambda: self.provider.cancel(self.job(job)))
        except CannotCancel:
            last = await self.poll_one(job)
            await self.report(last if last["verb"] == "end" else self.give_up_event(job))
        except Failure as error:
            await self.report({**again, "error": error.message})
        else:
            await self.report(end_event(job, answer) if answer else {**again, "seconds": 0})

    # What there is to report

    async def failure_event(self, job: JobRow, error: Failure, pause: timedelta) -> JobEvent:
        """A call about a job failed. Whether an intended one was begun stays in doubt, whatever the category."""
        if isinstance(error, RateLimited):
            return self.wait_event(job, await self.slow_down(error), error.message)
        if isinstance(error, Transient) or job.status == "INTENDED":
            return stumble_event(job, error, pause)
        return self.park_event(job, error.message)

    async def slow_down(self, error: RateLimited) -> datetime:
        """Until when the provider wants no calls, from all who call this account."""
        until = self.retry_at(error)
        await self.attempt.backend.block_budget(self.budget, until)
        return until

    def retry_at(self, error: RateLimited) -> datetime:
        return error.retry_at or self.now + timedelta(seconds=wait_seconds(error, self.provider.poll_every))

    def wait_event(self, job: JobRow, until: datetime, error: str | None) -> JobEvent:
        return event(job, "wait", seconds=max((until - self.now).total_seconds(), 0), error=error)

    def park_event(self, job: JobRow, error: str) -> JobEvent:
        """A person must look; after the time limit there is no time for that."""
        return self.give_up_event(job, error) if self.lease.timed_out else event(job, "park", error=error)

    def give_up_event(self, job: JobRow, error: str | None = None) -> JobEvent:
        before = error or job.error
        message = f"The time limit of the batch has passed.{f' Before: {before}' if before else ''}"
        return event(job, "fail", error=message, category="Transient")

    # When to go on

    def pause(self, job: JobRow) -> timedelta:
        """Longer with each failure in a row."""
        first, longest = self.provider.poll_every.total_seconds(), longest_pause.total_seconds()
        return timedelta(seconds=pause_after(first, job.transient_failures, longest))

    def next_poll_seconds(self) -> float:
        """A little different for each job, so that they spread."""
        return jitter(self.provider.poll_every.total_seconds(), 0.05)

    def later(self) -> Outcome:
        """When the first of the open jobs is due, and what is waited for until then."""
        jobs = [job for job in self.jobs.values() if job.status in OPEN]
        times = [self.next_time(job) for job in jobs if job.status != "PARKED"]
        at = max(min(times, default=self.now + parked_again), self.now + shortest_pause)
        kind, message = self.waits_for(jobs)
        return Later(at=at, kind=kind, message=message)

    def waits_for(self, jobs: list[JobRow]) -> tuple[str, str | None]:
        """The kind of a wait, and what there is to say of it."""
        parked = [job for job in jobs if job.status == "PARKED"]
        if parked:
            others = f" and {len(parked) - 1} more wait" if len(parked) > 1 else " waits"
            show = f"holdfast batch show {self.batch.task_id}"
            message = f"Job {parked[0].number}{others} for a person, who finds what to say with: {show}."
            return "person" if len(parked) == len(jobs) else "provider_poll", message
        if any(job.status == "SUBMITTED" for job in jobs):
            return "provider_poll", None
        if done := next((job for job in jobs if job.status == "ENDED"), None):
            message = f"The provider is done with job {done.number}; its results are not here yet: {done.error}."
            return "results_away", message
        if self.blocked_until or any(job.category == "RateLimited" for job in jobs):
            return "rate_budget", None
        first = jobs[0]
        return "provider_submit", f"Job {first.number} is not with the provider yet: {first.error or 'it is next'}."

    def next_time(self, job: JobRow) -> datetime:
        if self.blocked_until and self.is_due(job) and job.status != "ENDED":
            return self.blocked_until
        return job.due_at or self.now


def stumble_event(job: JobRow, error: Failure, pause: timedelta) -> JobEvent:
    """A call that may work later; the count makes it count once, however often it is reported."""
    seconds = wait_seconds(error, pause)
    return event(job, "stumble", error=error.message, seconds=seconds, failures=job.transient_failures)


def refusal_event(job: JobRow, error: Failure) -> JobEvent:
    """It was refused for good, and certainly not begun."""
    return event(job, "fail", error=error.message, category=error.category, running=False)


def end_event(job: JobRow, answer: Ended) -> JobEvent:
    return {**{name: value for name, value in vars(answer).items() if value is not None}, **event(job, "end")}


def batch_failure(batch: EndedBatch) -> Failed:
    """How a batch fails in which nothing was done. Whether to retry it is for a person to decide."""
    if not batch.jobs:
        first = f" {batch.invalid[0].input}: {batch.invalid[0].reason}" if batch.invalid else ""
        return Failed("SchemaInvalid", f"No input of this batch can be done.{first}", code="no-valid-input")
    job = next((job for job in batch.jobs if job.error), batch.jobs[0])
    category: Category = "SchemaInvalid" if job.category == "SchemaInvalid" else "Fatal"
    return Failed(category, f"No input was done. Job {job.number}: {job.error}", code="jobs-failed")


# What a batch has left running


class StopAttempt(ProviderCalls):
    """One attempt to stop the jobs of a batch that is over."""

    def __init__(self, provider: Provider, batch: OpenBatch) -> None:
        super().__init__(provider, batch)
        self.stopped: list[str] = []
        self.running: list[str] = []
        """Asked to stop, or too new to be listed: looked at again."""
        self.left: list[str] = []
        """What cannot be stopped, for a person to know."""
        self.errors: list[str] = []
        self.uncounted: list[str] = []
        """What has stopped, at an unknown cost."""

    async def run(self) -> Outcome:
        for job in self.batch.jobs:
            if not job.running:
                continue
            try:
                await self.spend(1)
                await self.stop(job)
            except BudgetSpent as spent:
                return Later(at=spent.until, kind="rate_budget")
            except RateLimited as error:
                return Later(wait_seconds(error, stopped_again), kind="rate_budget")
            except Failure as error:  # also if it refuses: a key may be mended
                self.errors.append(f"Job {job.number}: {error.message}")
        if self.errors:
            return Failed("Transient", " ".join(self.errors), code="cannot-stop-now")
        if self.running:
            return Later(stopped_again, kind="provider_poll")
        if self.left:
            message = f"{self.provider.name} may still be at work. {' '.join(self.left)}"
            return Failed("Fatal", message, code="left-running")
        return Done({"stopped": self.stopped, **({"cost_unknown": self.uncounted} if self.uncounted else {})})

    async def stop(self, job: JobRow) -> None:
        """Bring one to its end. Raises Failure."""
        external_id = job.external_id or await self.find(job)
        if external_id is None:
            return
        known = replace(self.job(job), external_id=external_id)
        can_stop = True
        answer: Running | Ended | None = None
        try:
            answer = await self.call(lambda: self.provider.cancel(known))
        except CannotCancel:
            can_stop = False
        answer = answer or await self.call(lambda: self.provider.poll(known))
        if isinstance(answer, Ended):
            await self.mark_stopped(job, external_id, await self.usage(job, known, answer))
        elif not can_stop:
            await self.leave(job, f"{self.provider.name} cannot stop it.", external_id)
        elif self.batch.over_at and self.batch.now - self.batch.over_at > stopping_at_most:
            await self.leave(job, "It was asked to stop, and has not stopped.", external_id)
        else:
            self.running.append(external_id)

    async def find(self, job: JobRow) -> str | None:
        """The provider's name for a job that may have been begun; None if it was not, or that is unknown."""
        try:
            found = await self.call(lambda: self.provider.find(self.job(job)))
        except CannotTell as error:
            await self.leave(job, f"{self.provider.name} cannot tell whether it was begun. {error}".strip())
            return None
        if found is None:
            if left := self.unlisted_for(job):
                await self.report(event(job, "missed", seconds=left.total_seconds()))
                self.running.append(job.token)
            else:
                await self.mark_stopped(job, job.token, [])
        return found

    async def usage(self, row: JobRow, job: Job, ended: Ended) -> list[dict[str, Json]]:
        """The cost up to its end: it is paid for, whether it is still wanted or not. Raises Failure."""
        if not ended.has_results:
            return []
        job = job if ended.memo is None else replace(job, memo=ended.memo)
        try:
            inputs = await self.call_now(lambda: self.files.inputs(row.inputs_key))
            return usage_of((await self.fetch_results(job, inputs)).values())
        except Failure as error:
            if self.lease.attempt < counting_at_most:
                raise
            self.uncounted.append(f"Job {row.number}: {error.message}")
            return []

    async def mark_stopped(self, job: JobRow, name: str, usage: list[dict[str, Json]]) -> None:
        await self.report(event(job, "stop", running=False, usage=usage))
        self.stopped.append(name)

    async def leave(self, job: JobRow, reason: str, external_id: str | None = None) -> None:
        """It cannot be stopped: kept with the job, and reported to a person."""
        await self.report(event(job, "stop", running=True, error=reason, external_id=external_id))
        self.left.append(f"Job {job.number} ({external_id or job.external_id or job.token}): {reason}")
