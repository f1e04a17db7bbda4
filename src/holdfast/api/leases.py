"""What a worker that speaks HTTP says: claim, heartbeat, checkpoint, complete. The lease token is the capability.

A claim whose answer was lost costs the lease its time, no more. A completion may be sent again until an answer comes:
one that ended the task has the same answer again; any other is refused as stale, and has happened.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, Field

from holdfast.engine import task
from holdfast.engine.store.commands import Store
from holdfast.engine.task import (
    Beat,
    Category,
    Checkpoint,
    Checkpointed,
    Completion,
    Done,
    Failed,
    Lease,
    Proof,
    Settled,
)
from holdfast.errors import LeaseLost, RequestInvalid, StaleAttempt, TaskError
from holdfast.http.access import Guarded, GuardedLong, needs
from holdfast.http.fields import Body, Json, Moment, Name, Real, Whole, sane
from holdfast.http.problem import PROBLEMS

lease_seconds_by_default = 30.0
LeaseSeconds = Annotated[Real, Field(gt=0, le=86400, description="How long the lease lasts unless it is extended")]

MANY = Field(min_length=1, max_length=1000, fail_fast=True)


class Claim(Body):
    """A task by its id, or up to `n` of these queues."""

    worker_id: Name
    task_id: UUID | None = None
    queues: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100, fail_fast=True)] = ("default",)
    names: Annotated[list[Name], Field(max_length=1000, fail_fast=True)] | None = None
    n: Annotated[Whole, Field(ge=1, le=100)] | None = None
    lease_seconds: LeaseSeconds = lease_seconds_by_default


class Claimed(BaseModel):
    """A task to run, until its lease expires."""

    task_id: UUID
    attempt: int
    lease_token: UUID
    lease_expires_at: datetime
    lifecycle: str
    task: str
    state: str
    queue: str
    max_attempts: int
    traceparent: str | None
    payload: Json


class Held(Body):
    task_id: UUID
    attempt: Annotated[Whole, Field(ge=1, le=2**31 - 1)]
    lease_token: UUID

    def proof(self) -> Proof:
        return Proof(self.task_id, self.attempt, self.lease_token)


class Heartbeat(Held):
    lease_seconds: LeaseSeconds = lease_seconds_by_default
    progress: Json = None


class Extended(BaseModel):
    lease_expires_at: datetime
    cancel_requested: bool


class ExtendedOne(BaseModel):
    """One of many: `lost` has no lease any more."""

    task_id: UUID
    status: Literal["ok", "lost"]
    lease_expires_at: datetime | None
    cancel_requested: bool


class Keep(Held):
    step: Name
    output: Json = None
    usage: Json = None


class Kept(BaseModel):
    """`stored`: the step was done before, and `output` is what it gave then."""

    status: Literal["ok", "stored"]
    output: Json
    cancel_requested: bool


class KeptOne(BaseModel):
    """One of many: of what is `lost`, nothing was kept."""

    task_id: UUID
    step: str
    status: Literal["ok", "stored", "lost"]
    output: Json
    cancel_requested: bool


class Error(Body):
    kind: Category | None = None
    code: Name | None = None
    message: Annotated[str, Field(max_length=20_000)] = ""
    step: Name | None = None
    retry_after_seconds: Annotated[Real, Field(ge=0, le=86400 * 365)] | None = None


class Output(Body):
    """What is published in a dataset with the completion: where it is, or its rows."""

    dataset: Name
    key: Name | None = None
    mode: Literal["replace", "append"] = "replace"
    uri: Annotated[str, Field(max_length=4000), AfterValidator(sane)] | None = None
    rows: list[dict[str, Any]] | None = None
    columns: Annotated[list[tuple[Name, Name]], Field(max_length=5000, fail_fast=True)] | None = Field(
        None, alias="schema"
    )
    row_count: Annotated[Whole, Field(ge=0, le=2**53)] | None = None
    bytes: Annotated[Whole, Field(ge=0, le=2**53)] | None = None

    def made(self) -> task.Output:
        return task.Output(
            self.dataset, self.key, self.mode, self.uri, self.rows, self.columns, self.row_count, self.bytes
        )

    def told(self) -> dict[str, Any]:
        """It as the task's result tells it: without its rows, which are the dataset's."""
        said = self.model_dump(mode="json", include={"dataset", "key", "mode", "uri"})
        return said | {"row_count": self.row_count if self.rows is None else len(self.rows)}


class StepEvent(Body):
    """Something that happened in the attempt; `at` by the worker's own clock."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
    step: Name | None = None
    at: Moment | None = None
    data: Json = None


class Complete(Held):
    status: Literal["completed", "failed"]
    error: Error | None = None
    result: Json = None
    outputs: Annotated[tuple[Output, ...], Field(max_length=1000, fail_fast=True)] = ()
    events: Annotated[tuple[StepEvent, ...], Field(max_length=1000, fail_fast=True)] = ()


class Completed(BaseModel):
    task_id: UUID
    state: str
    attempt: int
    next_retry_at: datetime | None


class CompletedOne(BaseModel):
    """One of many: of what is `lost` or `stale`, nothing was written, and `state` is where the task is now."""

    task_id: UUID
    status: Literal["ok", "lost", "stale"]
    state: str | None
    attempt: int | None
    next_retry_at: datetime | None


def routes(store: Store) -> APIRouter:
    router, results = (
        APIRouter(prefix="/internal", tags=["workers"], route_class=guarded, dependencies=[needs("worker")])
        for guarded in (Guarded, GuardedLong)
    )

    @router.post(
        "/task-claim",
        response_model=Claimed | list[Claimed],
        responses={204: {"description": "Nothing to do now."}},
    )
    async def claim(asked: Claim, request: Request) -> Any:
        """Take a task, or with `n` a list of tasks. 409: `already-leased`, `terminal` or `not-claimable`."""
        lasting = timedelta(seconds=asked.lease_seconds)
        if asked.task_id:
            request.state.task_id = asked.task_id
            leases = await store.claim_these([asked.task_id], lasting=lasting, worker=asked.worker_id)
            if not leases:
                await store.refuse_claim(asked.task_id)
            return claimed(leases[0])
        n = asked.n or 1
        # Who polls here is a worker that can be counted on: `why` says so.
        await store.hello(asked.worker_id, label=asked.worker_id, queues=asked.queues, names=asked.names, slots=n)
        leases = await store.claim(asked.queues, n, lasting=lasting, worker=asked.worker_id, names=asked.names)
        if not leases:
            return Response(status_code=204)
        return [claimed(lease) for lease in leases] if asked.n else claimed(leases[0])

    @router.post("/heartbeat", response_model=Extended | list[ExtendedOne])
    async def heartbeat(
        asked: Heartbeat | Annotated[list[Heartbeat], MANY],
        request: Request,
    ) -> Any:
        """Extend one lease, or many. Of one that is lost: 409 `lease-lost`; of many, each says how it fared."""
        beats = asked if isinstance(asked, list) else [asked]
        if len({beat.lease_seconds for beat in beats}) > 1:
            raise RequestInvalid(
                "The leases of one call last equally long.", fix="Send one call for each lease_seconds."
            )
        answered = await store.heartbeat(
            [beat.proof() for beat in beats],
            lasting=timedelta(seconds=beats[0].lease_seconds),
            progress={beat.task_id: beat.progress for beat in beats},
        )
        if isinstance(asked, list):
            return [one_of_many(beat.task_id, answered.get(beat.task_id)) for beat in beats]
        request.state.task_id = asked.task_id
        if asked.task_id not in answered:
            raise lost(asked)
        beat = answered[asked.task_id]
        return Extended(lease_expires_at=beat.expires_at, cancel_requested=beat.cancel_requested)

    @results.post("/checkpoint", response_model=Kept | list[KeptOne])
    async def checkpoint(asked: Keep | Annotated[list[Keep], MANY], request: Request) -> Any:
        """Keep what a step gave, or many did; the first to write it wins.

        Of one whose lease is gone: 409 `lease-lost`, and nothing was kept; of many, each says how it fared.
        """
        steps = asked if isinstance(asked, list) else [asked]
        if len({(one.task_id, one.step) for one in steps}) < len(steps):
            raise RequestInvalid("A step stands twice in one call.", fix="A step has one output: send it once.")
        answered = await store.checkpoint(
            *(Checkpoint(one.proof(), one.step, one.output, usage=one.usage) for one in steps)
        )
        kept = {(one.task_id, one.step): kept_one(one) for one in answered}
        if isinstance(asked, list):
            return [kept[one.task_id, one.step] for one in steps]
        request.state.task_id = asked.task_id
        (only,) = kept.values()
        if only.status == "lost":
            raise lost(asked)
        return Kept(status=only.status, output=only.output, cancel_requested=only.cancel_requested)

    @results.post("/task-complete", response_model=Completed | list[CompletedOne])
    async def complete(asked: Complete | Annotated[list[Complete], MANY], request: Request) -> Any:
        """End an attempt, or many.

        Its outputs are published with it, or nothing is written: 422 `output-refused` where they cannot be. Of one that
        is not the caller's any more: 409 `stale-attempt` or `lease-lost`: drop the result, nothing was
        written; of many, each says how it fared.
        """
        ends = asked if isinstance(asked, list) else [asked]
        if not isinstance(asked, list):
            request.state.task_id = asked.task_id
        completions = [Completion(end.proof(), outcome_of(end), [told(event) for event in end.events]) for end in ends]
        publishes = any(end.outputs for end in ends)
        answered = await (store.deliver(*completions) if publishes else store.complete(*completions))
        settled = {one.task_id: one for one in answered}
        if isinstance(asked, list):
            return [completed_one(end, settled[end.task_id]) for end in ends]
        only = completed_one(asked, settled[asked.task_id])
        if only.status != "ok":
            raise lost(asked, LeaseLost if only.status == "lost" else StaleAttempt)
        return Completed(
            task_id=only.task_id, state=only.state or "", attempt=only.attempt or 0, next_retry_at=only.next_retry_at
        )

    both = APIRouter(responses=PROBLEMS)
    both.include_router(router)
    both.include_router(results)
    return both


def claimed(lease: Lease) -> Claimed:
    return Claimed(
        task_id=lease.task_id, attempt=lease.attempt, lease_token=lease.token, lease_expires_at=lease.expires_at,
        lifecycle=lease.lifecycle, task=lease.name, state=lease.state, queue=lease.queue,
        max_attempts=lease.max_attempts, traceparent=lease.trace, payload=lease.payload,
    )  # fmt: skip


def one_of_many(task_id: UUID, beat: Beat | None) -> ExtendedOne:
    if beat is None:
        return ExtendedOne(task_id=task_id, status="lost", lease_expires_at=None, cancel_requested=False)
    return ExtendedOne(
        task_id=task_id, status="ok", lease_expires_at=beat.expires_at, cancel_requested=beat.cancel_requested
    )


def kept_one(kept: Checkpointed) -> KeptOne:
    return KeptOne(
        task_id=kept.task_id, step=kept.step or "", output=kept.result, cancel_requested=kept.cancel_requested,
        status=kept.status if kept.status in ("ok", "stored") else "lost",
    )  # fmt: skip


def completed_one(asked: Complete, settled: Settled) -> CompletedOne:
    return CompletedOne(
        task_id=settled.task_id, state=settled.state, attempt=settled.attempt,
        status=settled.status if settled.status in ("lost", "stale") else "ok",
        next_retry_at=settled.due_at if asked.status == "failed" else None,
    )  # fmt: skip


def lost(asked: Held, kind: type[TaskError] = LeaseLost) -> TaskError:
    return kind(f"Task {asked.task_id}, attempt {asked.attempt}.", fix="Whoever holds it now will settle it.")


def outcome_of(asked: Complete) -> Done | Failed:
    """Outputs are published, and told as the result. Raises RequestInvalid for what contradicts itself."""
    if asked.status == "completed":
        if asked.error or (asked.outputs and asked.result is not None):
            raise RequestInvalid(
                "A completed attempt has no error, and either outputs or a result.", fix="Leave one of them out."
            )
        if not asked.outputs:
            return Done(asked.result)
        return Done({"outputs": [one.told() for one in asked.outputs]}, [one.made() for one in asked.outputs])
    if asked.outputs or asked.result is not None:
        raise RequestInvalid("A failed attempt has no outputs and no result.", fix="Keep what is done as a checkpoint.")
    error = asked.error or Error()
    wait = error.retry_after_seconds
    after = None if wait is None else timedelta(seconds=wait)
    return Failed(error.kind, error.message, code=error.code, step=error.step, retry_after=after)


def told(event: StepEvent) -> tuple[str, str | None, Any]:
    data = event.data
    if event.at:
        data = {"at": event.at.isoformat(), **(data if isinstance(data, dict) else {"data": data})}
    return event.kind, event.step, data
