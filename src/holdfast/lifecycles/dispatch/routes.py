"""Tasks by name, over HTTP: submitted here, run by whatever worker knows the name."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from holdfast.durations import parse_duration
from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.engine.task import Policy, Submission, Submitted
from holdfast.errors import RequestInvalid
from holdfast.http.access import Guarded, GuardedMany, User, check_visible, make_router
from holdfast.http.fields import Body, Moment, Name, Real, TraceParent, Whole, trace_of
from holdfast.http.shapes import Creating


class Waited(Body):
    """A task to wait for, and what follows if it ends badly."""

    task_id: UUID
    on_failure: Policy = "cancel"


class TaskCall(Body):
    """A task by its name, and what it is given. What is left out is as a live worker says of the task."""

    task: Name
    payload: Any = None
    queue: Name | None = None
    max_attempts: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    priority: Annotated[Whole, Field(ge=0, le=9)] | None = None


class NewTask(TaskCall):
    """A task to be. `delay` is a number of seconds, or text such as "5m" or "1h30m".

    `after` are tasks to wait for, by id, or each with the policy for its bad end.

    `queue`, `max_attempts` and `priority` are by default what a live worker says of the task.
    """

    delay: Real | str | None = None
    run_at: Moment | None = None
    after: Annotated[tuple[UUID | Waited, ...], Field(max_length=1000, fail_fast=True)] = ()
    on_failure: Policy = "cancel"
    key: Name | None = None
    tags: Annotated[tuple[Name, ...], Field(max_length=50, fail_fast=True)] = ()
    limit_key: Name | None = None
    limit_to: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    time_limit: Real | str | None = None

    def waits(self) -> dict[UUID | int, Policy]:
        """What it waits for, and what follows if that ends badly."""
        own = self.on_failure
        return dict((one.task_id, one.on_failure) if isinstance(one, Waited) else (one, own) for one in self.after)


class Made(BaseModel):
    """`state` is the one in which the task was born."""

    task_id: UUID
    state: str


class MadeOne(BaseModel):
    """One of many; not `created` if an earlier call with its key has made it."""

    task_id: UUID
    created: bool


def routes(store: Store) -> APIRouter:
    router, many = (make_router("/dispatch", "dispatch", guard=guard) for guard in (Guarded, GuardedMany))

    @router.post("/tasks", status_code=201)
    async def submit(asked: NewTask, caller: User, new: Creating) -> Made:
        """Make a task. The same `Idempotency-Key` makes it once; with another body it is refused as `key-conflict`."""
        if new.key and asked.key and new.key != asked.key:
            raise RequestInvalid("The header Idempotency-Key and the field key differ.", fix="Send one of them.")
        (made,) = await make([asked.model_copy(update={"key": new.key or asked.key})], caller, new.trace)
        new.mark_repeated(not made.created)
        assert made.id is not None  # noqa: S101 - only children of a repeated parent have none
        return Made(task_id=made.id, state=(await store.events(made.id))[0].to_state)

    @many.post("/tasks/many", status_code=201)
    async def submit_many(
        asked: Annotated[list[NewTask], Field(min_length=1, max_length=1000, fail_fast=True)],
        caller: User,
        traceparent: TraceParent = None,
    ) -> list[MadeOne]:
        """Make these tasks, all or none. Each may have a `key` of its own."""
        made = await make(asked, caller, trace_of(traceparent))
        return [MadeOne(task_id=one.id, created=one.created) for one in made if one.id]

    async def make(tasks: Sequence[NewTask], caller: Principal, trace: str | None) -> list[Submitted]:
        for upstream in {upstream for one in tasks for upstream in one.waits()}:
            await check_visible(store, caller, UUID(str(upstream)))
        known = {name: await store.known_task(name) or {} for name in {one.task for one in tasks}}
        return await store.submit(*(submission(one, known[one.task], caller, trace) for one in tasks))

    both = APIRouter()
    both.include_router(router)
    both.include_router(many)
    return both


def submission(asked: NewTask, known: Mapping[str, Any], caller: Principal, trace: str | None) -> Submission:
    options = {**known, **asked.model_dump(include={"queue", "max_attempts", "priority"}, exclude_none=True)}
    return Submission(
        asked.task, asked.payload, queue=options.get("queue"), priority=options.get("priority") or 0,
        max_attempts=options.get("max_attempts"), key=asked.key, delay=duration(asked.delay), run_at=asked.run_at,
        owner=caller.owner, after=asked.waits(), tags=asked.tags,
        limit_key=asked.limit_key, limit_to=asked.limit_to, time_limit=duration(asked.time_limit),
        trace=trace,
    )  # fmt: skip


def duration(given: float | str | None) -> timedelta | None:
    return None if given is None else parse_duration(given)
