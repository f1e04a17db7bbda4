"""`WorkerBackend` over HTTP, for `holdfast worker` where it has no database: one route for each method, and one for all
RPC of handlers.

A lease is proven with its token, here as everywhere. A worker that sleeps asks `idle` and is answered when there may be
work for it; for all that sleep here, one connection listens.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import asyncpg
from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, Field, model_validator

from holdfast.api.leases import MANY, Held, LeaseSeconds, Output, lease_seconds_by_default
from holdfast.api.published import TOO_MANY, Published
from holdfast.engine.lease_rpc import rpcs_of
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.engine.task import (
    Asked,
    Cancelled,
    Checkpoint,
    Checkpointed,
    Completion,
    Done,
    Failed,
    Grant,
    Later,
    Moved,
    Outcome,
    Partial,
    Settled,
    Settlement,
    Step,
    Upstream,
)
from holdfast.errors import DeclarationInvalid, RequestInvalid, RoleMissing
from holdfast.http.access import GuardedMany, make_router, needs
from holdfast.http.fields import Body, Json, Moment, Name, Real, Whole, refuse_nul
from holdfast.lifecycles import LIFECYCLES, declare_all, services
from holdfast.schedules.store import Schedules
from holdfast.wakeups.postgres import PostgresListener
from holdfast.wakeups.publishing import PendingWakeups

wait_most_seconds = 20.0
MISFITS = (asyncpg.exceptions.IntegrityConstraintViolationError, asyncpg.exceptions.RaiseError)
OURS = {lifecycle.name for lifecycle in LIFECYCLES}
SERVICES: dict[str, Any] = {service.__name__.lower(): service for service in services()}


class Settling(Held):
    """A lease, and how it ended: one of these."""

    done: Done | None = None
    partial: Partial | None = None
    moved: Moved | None = None
    later: Later | None = None
    failed: Failed | None = None
    cancelled: Cancelled | None = None

    @model_validator(mode="after")
    def has_one_outcome(self) -> "Settling":
        if len(self.outcomes()) != 1:
            raise ValueError("give one of done, partial, moved, later, failed, cancelled")
        return self

    def outcomes(self) -> list[Outcome]:
        given = (self.done, self.partial, self.moved, self.later, self.failed, self.cancelled)
        return [one for one in given if one is not None]

    def settlement(self) -> Settlement:
        return self.proof(), self.outcomes()[0]


class SettleAndClaim(Body):
    """Results out, up to `n` tasks in. `since`: the due time and the id of the task at which to begin."""

    worker_id: Name
    settlements: Annotated[list[Settling], Field(max_length=10_000, fail_fast=True)] = []  # noqa: RUF012
    queues: Annotated[list[Name], Field(max_length=100, fail_fast=True)] = []  # noqa: RUF012
    names: Annotated[list[Name], TOO_MANY] | None = None
    n: Annotated[Whole, Field(ge=0, le=10_000)] = 0
    lease_seconds: LeaseSeconds = lease_seconds_by_default
    since: tuple[Moment, UUID] | None = None


class SettledAndClaimed(BaseModel):
    """The settlements that were not accepted, each with its status, and the leases."""

    refused: dict[UUID, str]
    leases: list[dict[str, Any]]


class Keeping(Held):
    """A step that is done, a move to another state, or both."""

    step: Name | None = None
    result: Json = None
    to: Name | None = None
    usage: Json = None


class Delivering(Held):
    """A lease that ended well, with what it has put out."""

    result: Json = None
    outputs: Annotated[list[Output], TOO_MANY] = []  # noqa: RUF012

    def completion(self) -> Completion:
        return Completion(self.proof(), Done(self.result, [one.output() for one in self.outputs]))


class Asking(Held):
    step: Name
    question: Annotated[str, Field(min_length=1, max_length=20_000), AfterValidator(refuse_nul)]
    within_seconds: Annotated[Real, Field(gt=0, le=86400 * 365)]


class SomeTasks(Body):
    tasks: Annotated[list[UUID], TOO_MANY]


class SomeSchedules(Body):
    schedules: Annotated[list[Name], TOO_MANY]


class Recorded(Held):
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
    step: Name | None = None
    data: Json = None


class Request(Held):
    """A lease, and the arguments by name."""

    given: dict[str, Json]


class Spending(Body):
    budget: Name
    amount: Annotated[Real, Field(gt=0, le=1e9)] = 1
    retry_at: Annotated[Moment | None, Field(alias="told", description="The moment that a refusal named")] = None


class BudgetBlock(Body):
    budget: Name
    until: Moment


class Hello(Body):
    """Who works here, on what, and of each task by name its queue, max_attempts and priority."""

    worker_id: Name
    label: Annotated[str, Field(max_length=200)] = ""
    queues: Annotated[list[Name], Field(min_length=1, max_length=100, fail_fast=True)]
    names: Annotated[list[Name], TOO_MANY] | None = None
    slots: Annotated[Whole, Field(ge=1, le=100_000)] = 1
    tasks: dict[str, dict[str, Json]] | None = None


class Sleeping(Body):
    """A worker that is about to sleep; with `wait_seconds` the answer comes when it is to wake."""

    worker_id: Name
    wait_seconds: Annotated[Real, Field(ge=0, le=wait_most_seconds)] = 0


class Woken(BaseModel):
    """Whether it was woken; and how long it is until something falls due, if that is known."""

    woken: bool
    due_seconds: float | None


class WorkerId(Body):
    worker_id: Name


class Release(WorkerId):
    kept: Annotated[list[UUID], Field(max_length=100_000, fail_fast=True)] = []  # noqa: RUF012


class TaskCount(BaseModel):
    tasks: int


class Declaring(Body):
    """What an application has of its own: lifecycles as they are defined, queues, and what it offers."""

    lifecycles: Annotated[list[dict[str, Json]], Field(max_length=100, fail_fast=True)] = []  # noqa: RUF012
    queues: Annotated[list[Name], Field(max_length=100, fail_fast=True)] = []  # noqa: RUF012
    published: Published = Published()


def routes(store: Store, listener: PostgresListener | None) -> APIRouter:
    """The routes. Without a `listener` no worker is woken here: one that sleeps is answered when its time is over."""
    router = make_router("/internal", "workers", "worker", guard=GuardedMany)

    @router.post("/turn", response_model=SettledAndClaimed)
    async def settle_and_claim(asked: SettleAndClaim) -> JSONResponse:
        """Settle, then claim, in one call and one commit. Not to be sent again blindly: see `hand-back`."""
        refused, leases = await store.settle_and_claim(
            [one.settlement() for one in asked.settlements], asked.queues, asked.n, worker=asked.worker_id,
            lasting=timedelta(seconds=asked.lease_seconds), names=asked.names, since=asked.since,
        )  # fmt: skip
        by_task = {str(task): status for task, status in refused.items()}
        return JSONResponse({"refused": by_task, "leases": [encode.dump_lease(lease) for lease in leases]})

    @router.post("/settle")
    async def settle(asked: Annotated[list[Settling], MANY]) -> list[Settled]:
        """End these leases, without claiming. Each has its own answer, in any order."""
        return await store.settle(*(one.settlement() for one in asked))

    @router.post("/keep")
    async def keep(asked: Annotated[list[Keeping], MANY]) -> list[Checkpointed]:
        """Keep steps and move on to other states under the same lease. Each has its own answer, in any order."""
        return await store.checkpoint(
            *(Checkpoint(one.proof(), one.step, one.result, one.to, one.usage) for one in asked)
        )

    @router.post("/steps")
    async def steps(asked: Held) -> list[Step]:
        """The steps of a task that the caller holds. 409 `lease-lost` otherwise."""
        return await store.held_steps(asked.proof())

    @router.post("/upstream")
    async def upstream(asked: Held) -> list[Upstream]:
        """What a task that the caller holds has waited for. 409 `lease-lost` otherwise."""
        return await store.held_upstream(asked.proof())

    @router.post("/deliver")
    async def deliver(asked: Annotated[list[Delivering], MANY]) -> list[Settled]:
        """End these leases well, and publish what they have put out, all or none. 422 `output-refused`."""
        return await store.deliver(*(one.completion() for one in asked))

    @router.post("/ask")
    async def ask(asked: Asking) -> Asked:
        """Write down what a task that the caller holds asks a person, unless it is written down."""
        return await store.ask(asked.proof(), asked.step, asked.question, timedelta(seconds=asked.within_seconds))

    @router.post("/which-wait")
    async def which_wait(asked: SomeTasks) -> list[UUID]:
        """Those of these tasks that wait for a worker, for one that was sent messages about them."""
        return sorted(await PendingWakeups.over(store).which_wait(asked.tasks))

    @router.post("/record", status_code=204)
    async def record(asked: Recorded) -> None:
        """Write down what happened in a task that the caller holds. 409 `lease-lost` otherwise."""
        await store.record(asked.proof(), asked.kind, asked.step, asked.data)

    @router.post("/spend")
    async def spend(asked: Spending) -> Grant:
        """Take a share of a budget, or learn when to ask again. 422 `budget-unknown`."""
        return await store.spend(asked.budget, asked.amount, retry_at=asked.retry_at)

    @router.post("/block-budget", status_code=204)
    @router.post("/heed", status_code=204)  # what workers of older releases ask for
    async def block_budget(asked: BudgetBlock) -> None:
        """A provider asks to be left alone: let no task spend of this budget before."""
        await store.block_budget(asked.budget, asked.until)

    @router.post("/hello", status_code=204)
    async def hello(asked: Hello) -> None:
        """Say who works here and on what, at the start and then every few seconds."""
        await store.hello(
            asked.worker_id, label=asked.label, queues=asked.queues, names=asked.names, slots=asked.slots,
            tasks=asked.tasks,
        )  # fmt: skip

    @router.post("/idle")
    async def idle(asked: Sleeping) -> Woken:
        """Say that this worker is about to sleep. With `wait_seconds`: sleep here until there may be work."""
        due = await store.idle(asked.worker_id)
        seconds = None if due is None else max(due.total_seconds(), 0.0)
        if not asked.wait_seconds or listener is None:
            return Woken(woken=False, due_seconds=seconds)
        falls_due = seconds is not None and seconds < asked.wait_seconds
        woken = await listener.wait(asked.worker_id, seconds if falls_due and seconds else asked.wait_seconds)
        return Woken(woken=woken or falls_due, due_seconds=None)

    @router.post("/lose")
    async def lose(asked: Annotated[list[Held], MANY]) -> TaskCount:
        """Say that a process died while it was running these."""
        return TaskCount(tasks=await store.mark_lost([one.proof() for one in asked]))

    @router.post("/hand-back")
    async def release_leases(asked: Release) -> TaskCount:
        """Give back what this worker holds, but for these, at no cost: also what it was given and never heard of."""
        return TaskCount(tasks=await store.release_leases(asked.worker_id, asked.kept))

    @router.post("/goodbye", status_code=204)
    async def goodbye(asked: WorkerId) -> None:
        """Say that this worker is gone. Its leases stay until they are settled or expire."""
        await store.goodbye(asked.worker_id)

    @router.post("/declare", status_code=204)
    async def declare(asked: Declaring, caller: Annotated[Principal, needs("worker")]) -> None:
        """Write down what an application has of its own, as a worker does at its start."""
        own = [own_lifecycle(definition) for definition in asked.lifecycles]
        published = asked.published.model_dump()
        await own_schedules(Schedules.over(store), published["schedules"], caller)
        try:
            await declare_all(store, own, published)
        except MISFITS as error:
            raise DeclarationInvalid(f"{error}.", fix="Send what Holdfast.published() gives.") from error
        for queue in asked.queues:
            await store.make_queue(queue)

    @router.post("/rpc/{service}/{method}")
    @router.post("/rooms/{service}/{method}", include_in_schema=False)  # as workers of the release before call it
    async def call(service: str, method: str, asked: Request) -> Json:
        """Answer what a handler asks. 409 `lease-lost` if the caller does not hold the task."""
        kind = SERVICES.get(service)
        rpc = rpcs_of(kind).get(method) if kind else None
        if kind is None or rpc is None:
            raise HTTPException(404)
        lease = asked.proof()
        await store.check_held(lease)
        return await rpc.call(kind.over(store), lease, asked.given)

    @router.post("/see", status_code=204)
    async def see(asked: SomeSchedules) -> None:
        """Say every few seconds that an application is there that declares these schedules."""
        await Schedules.over(store).see(asked.schedules)

    return router


async def own_schedules(schedules: Schedules, declared: list[dict[str, Any]], caller: Principal) -> None:
    """Schedules start tasks, so a key declares those of its owner, if it may start tasks; an operator's, anybody's.

    Raises RoleMissing or RequestInvalid.
    """
    if not declared or "operator" in caller.roles:
        return
    if "user" not in caller.roles:
        raise RoleMissing(
            "This application declares schedules, which start tasks.",
            fix="`holdfast keys create NAME --role worker --role user` makes a key that may.",
        )
    known = {one["name"]: one["owner"] for one in await schedules.find([one["name"] for one in declared])}
    for one in declared:
        if one["owner"] not in ("", caller.owner) or known.get(one["name"], caller.owner) != caller.owner:
            raise RequestInvalid(
                f"The schedule {one['name']} is not that of {caller.owner}.",
                fix="Give it a name of its own and no owner, or use a key of its owner's, or an operator's.",
            )
        one["owner"] = caller.owner


def own_lifecycle(definition: Mapping[str, Any]) -> Lifecycle:
    """A lifecycle of an application. Raises DeclarationInvalid for what is not one, or is not the application's."""
    try:
        lifecycle = Lifecycle.from_definition(definition)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DeclarationInvalid(
            f"It is not written as a lifecycle is: {type(error).__name__}: {error}.",
            fix="Send what Lifecycle.definition() gives.",
        ) from error
    if lifecycle.name in OURS or lifecycle.effects is not None:
        raise DeclarationInvalid(
            f"{lifecycle.name} comes with Holdfast." if lifecycle.name in OURS else f"{lifecycle.name} has effects.",
            fix="Over HTTP, declare lifecycles of your own, without effects: those are functions of the database.",
        )
    return lifecycle
