"""What a worker that speaks HTTP says: claim, heartbeat, checkpoint, complete. The lease token is the capability.

A claim whose answer was lost costs the lease its time, no more. A completion may be sent again until an answer comes:
one that ended the task has the same answer again; any other is refused as stale, and has happened.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar
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
    Proof,
    Settled,
)
from holdfast.errors import LeaseLost, RequestInvalid, StaleAttempt
from holdfast.http.access import GuardedLong, make_router
from holdfast.http.fields import Body, Json, Moment, Name, Real, Whole, refuse_nul

lease_seconds_by_default = 30.0
LeaseSeconds = Annotated[Real, Field(gt=0, le=86400, description="How long the lease lasts unless it is extended")]

MANY = Field(min_length=1, max_length=1000, fail_fast=True)

H = TypeVar("H", bound="Held")
A = TypeVar("A", "ExtendedOne", Checkpointed, "CompletedOne")
REFUSALS = {"lost": LeaseLost, "stale": StaleAttempt}


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
    lease_token: UUID = Field(validation_alias="token")
    lease_expires_at: datetime = Field(validation_alias="expires_at")
    lifecycle: str
    task: str = Field(validation_alias="name")
    state: str
    queue: str
    max_attempts: int
    traceparent: str | None = Field(validation_alias="trace")
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
    lease_expires_at: datetime | None
    cancel_requested: bool


class ExtendedOne(Extended):
    """One of many: `lost` has no lease any more."""

    task_id: UUID
    status: Literal["ok", "lost"]


class Keep(Held):
    step: Name
    output: Json = None
    usage: Json = None


class Kept(BaseModel):
    """`stored`: the step was done before, and `output` is what it gave then."""

    status: Literal["ok", "stored", "lost"]
    output: Json = Field(validation_alias="result")
    cancel_requested: bool


class KeptOne(Kept):
    """One of many: of what is `lost`, nothing was kept."""

    task_id: UUID
    step: str


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
    uri: Annotated[str, Field(max_length=4000), AfterValidator(refuse_nul)] | None = None
    rows: list[dict[str, Any]] | None = None
    columns: Annotated[list[tuple[Name, Name]], Field(max_length=5000, fail_fast=True)] | None = Field(
        None, alias="schema"
    )
    row_count: Annotated[Whole, Field(ge=0, le=2**53)] | None = None
    bytes: Annotated[Whole, Field(ge=0, le=2**53)] | None = None

    def output(self) -> task.Output:
        return task.Output(**self.model_dump(by_alias=True))

    def summary(self) -> dict[str, Any]:
        """It as the task's result names it: without its rows, which are the dataset's."""
        summary = self.model_dump(mode="json", include={"dataset", "key", "mode", "uri"})
        return summary | {"row_count": self.row_count if self.rows is None else len(self.rows)}


class StepEvent(Body):
    """Something that happened in the attempt; `at` by the worker's own clock."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
    step: Name | None = None
    at: Moment | None = None
    data: Json = None

    def event(self) -> tuple[str, str | None, Any]:
        if self.at is None:
            return self.kind, self.step, self.data
        data = self.data if isinstance(self.data, dict) else {"data": self.data}
        return self.kind, self.step, {"at": self.at.isoformat(), **data}


class Complete(Held):
    status: Literal["completed", "failed"]
    error: Error | None = None
    result: Json = None
    outputs: Annotated[tuple[Output, ...], Field(max_length=1000, fail_fast=True)] = ()
    events: Annotated[tuple[StepEvent, ...], Field(max_length=1000, fail_fast=True)] = ()

    def completion(self) -> Completion:
        return Completion(self.proof(), self.outcome(), [event.event() for event in self.events])

    def outcome(self) -> Done | Failed:
        """Outputs are published, and summed up as the result. Raises RequestInvalid for what contradicts itself."""
        if self.status == "completed":
            if self.error or (self.outputs and self.result is not None):
                raise RequestInvalid(
                    "A completed attempt has no error, and either outputs or a result.", fix="Leave one of them out."
                )
            if not self.outputs:
                return Done(self.result)
            return Done({"outputs": [one.summary() for one in self.outputs]}, [one.output() for one in self.outputs])
        if self.outputs or self.result is not None:
            raise RequestInvalid(
                "A failed attempt has no outputs and no result.", fix="Keep what is done as a checkpoint."
            )
        error = self.error or Error()
        wait = error.retry_after_seconds
        after = None if wait is None else timedelta(seconds=wait)
        return Failed(error.kind, error.message, code=error.code, step=error.step, retry_after=after)


class Completed(BaseModel):
    task_id: UUID
    state: str | None
    attempt: int | None
    next_retry_at: datetime | None


class CompletedOne(Completed):
    """One of many: of what is `lost` or `stale`, nothing was written, and `state` is where the task is now."""

    status: Literal["ok", "lost", "stale"]


def routes(store: Store) -> APIRouter:
    router = make_router("/internal", "workers", "worker", guard=GuardedLong)

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
            return leases[0]
        n = asked.n or 1
        # Who polls here is a worker that can be counted on: `why` says so.
        await store.hello(asked.worker_id, label=asked.worker_id, queues=asked.queues, names=asked.names, slots=n)
        leases = await store.claim(asked.queues, n, lasting=lasting, worker=asked.worker_id, names=asked.names)
        if not leases:
            return Response(status_code=204)
        return leases if asked.n else leases[0]

    @router.post("/heartbeat", response_model=Extended | list[ExtendedOne])
    async def heartbeat(asked: Heartbeat | Annotated[list[Heartbeat], MANY], request: Request) -> Any:
        """Extend one lease, or many. Of one that is lost: 409 `lease-lost`; of many, each says how it fared."""
        beats = as_list(asked, request)
        if len({beat.lease_seconds for beat in beats}) > 1:
            raise RequestInvalid(
                "The leases of one call last equally long.", fix="Send one call for each lease_seconds."
            )
        extended = await store.heartbeat(
            [beat.proof() for beat in beats],
            lasting=timedelta(seconds=beats[0].lease_seconds),
            progress={beat.task_id: beat.progress for beat in beats},
        )
        return answer(asked, [extended_one(beat.task_id, extended.get(beat.task_id)) for beat in beats])

    @router.post("/checkpoint", response_model=Kept | list[KeptOne])
    async def checkpoint(asked: Keep | Annotated[list[Keep], MANY], request: Request) -> Any:
        """Keep what a step gave, or many did; the first to write it wins.

        Of one whose lease is gone: 409 `lease-lost`, and nothing was kept; of many, each says how it fared.
        """
        steps = as_list(asked, request)
        if len({(one.task_id, one.step) for one in steps}) < len(steps):
            raise RequestInvalid("A step stands twice in one call.", fix="A step has one output: send it once.")
        checkpoints = [Checkpoint(one.proof(), one.step, one.output, usage=one.usage) for one in steps]
        kept = {(one.task_id, one.step): one for one in await store.checkpoint(*checkpoints)}
        return answer(asked, [kept[one.task_id, one.step] for one in steps])

    @router.post("/task-complete", response_model=Completed | list[CompletedOne])
    async def complete(asked: Complete | Annotated[list[Complete], MANY], request: Request) -> Any:
        """End an attempt, or many.

        Its outputs are published with it, or nothing is written: 422 `output-refused` where they cannot be. Of one that
        is not the caller's any more: 409 `stale-attempt` or `lease-lost`: drop the result, nothing was
        written; of many, each says how it fared.
        """
        ends = as_list(asked, request)
        completions = [end.completion() for end in ends]
        publishes = any(end.outputs for end in ends)
        settled = await (store.deliver(*completions) if publishes else store.complete(*completions))
        found = {one.task_id: one for one in settled}
        return answer(asked, [completed_one(end, found[end.task_id]) for end in ends])

    return router


def as_list(asked: H | list[H], request: Request) -> list[H]:
    """What is asked, as a list. Of one alone, a problem says where its task is."""
    if isinstance(asked, list):
        return asked
    request.state.task_id = asked.task_id
    return [asked]


def answer(asked: Held | Sequence[Held], answers: list[A]) -> A | list[A]:
    """All answers; or the only one. Raises LeaseLost or StaleAttempt if that one was refused."""
    if not isinstance(asked, Held):
        return answers
    if error := REFUSALS.get(answers[0].status):
        raise error(f"Task {asked.task_id}, attempt {asked.attempt}.", fix="The worker that holds it settles it.")
    return answers[0]


def extended_one(task_id: UUID, beat: Beat | None) -> ExtendedOne:
    return ExtendedOne(
        task_id=task_id, status="ok" if beat else "lost", lease_expires_at=beat.expires_at if beat else None,
        cancel_requested=beat is not None and beat.cancel_requested,
    )  # fmt: skip


def completed_one(asked: Complete, settled: Settled) -> CompletedOne:
    return CompletedOne(
        task_id=settled.task_id, state=settled.state, attempt=settled.attempt,
        status=settled.status if settled.status in ("lost", "stale") else "ok",
        next_retry_at=settled.due_at if asked.status == "failed" else None,
    )  # fmt: skip
