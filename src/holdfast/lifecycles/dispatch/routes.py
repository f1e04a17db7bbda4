"""Tasks by name, over HTTP: submitted here, run by whatever worker knows the name."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from holdfast.errors import RequestInvalid
from holdfast.http.access import Guarded, check_visible, needs
from holdfast.http.fields import Body, Real, Whole, Word
from holdfast.http.headers import IdempotencyKey, TraceParent, trace_of
from holdfast.http.problem import PROBLEMS
from holdfast.kernel.access import Principal
from holdfast.kernel.durations import parse_duration
from holdfast.kernel.store import Store
from holdfast.kernel.task import Policy, Submission


class Waited(Body):
    """A task to wait for, and what follows if it ends badly."""

    task_id: UUID
    on_failure: Policy = "cancel"


class NewTask(Body):
    """A task to be. `delay` is a number of seconds, or text such as "5m" or "1h30m".

    `after` are tasks to wait for, by id, or each with the policy for its bad end.

    `queue`, `max_attempts` and `priority` are by default what a live worker says of the task.
    """

    task: Word
    payload: Any = None
    queue: Word | None = None
    max_attempts: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    priority: Annotated[Whole, Field(ge=0, le=9)] | None = None
    delay: Real | str | None = None
    after: Annotated[tuple[UUID | Waited, ...], Field(max_length=1000, fail_fast=True)] = ()
    key: Word | None = None
    tags: Annotated[tuple[Word, ...], Field(max_length=50, fail_fast=True)] = ()


class Made(BaseModel):
    """`state` is the one in which the task was born."""

    task_id: UUID
    state: str


def routes(store: Store) -> APIRouter:
    router = APIRouter(prefix="/dispatch", tags=["dispatch"], route_class=Guarded, responses=PROBLEMS)

    @router.post("/tasks", status_code=201)
    async def submit(
        asked: NewTask,
        response: Response,
        caller: Annotated[Principal, needs("user")],
        idempotency_key: IdempotencyKey = None,
        traceparent: TraceParent = None,
    ) -> Made:
        """Make a task. The same `Idempotency-Key` makes it once; with another body it is refused as `key-conflict`."""
        if idempotency_key and asked.key and idempotency_key != asked.key:
            raise RequestInvalid("The header Idempotency-Key and the field key differ.", fix="Send one of them.")
        after: dict[UUID | int, Policy] = {
            one if isinstance(one, UUID) else one.task_id: "cancel" if isinstance(one, UUID) else one.on_failure
            for one in asked.after
        }
        for upstream in after:
            await check_visible(store, caller, UUID(str(upstream)))
        known = await store.known_task(asked.task) or {}
        known |= asked.model_dump(include={"queue", "max_attempts", "priority"}, exclude_none=True)
        (made,) = await store.submit(
            Submission(
                asked.task, asked.payload, queue=known.get("queue"), priority=known.get("priority") or 0,
                max_attempts=known.get("max_attempts"), key=idempotency_key or asked.key,
                delay=None if asked.delay is None else parse_duration(asked.delay),
                owner=caller.owner, after=after, tags=asked.tags,
                trace=trace_of(traceparent),
            )
        )  # fmt: skip
        assert made.id is not None  # noqa: S101 - only children of a repeated parent have none
        if not made.created:
            response.headers["Idempotency-Replayed"] = "true"
        return Made(task_id=made.id, state=(await store.events(made.id))[0].to_state)

    return router
