"""Tasks of every lifecycle in one shape: lists, one task with its history, and the two things anybody may do to it."""

from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field, StrictBool, model_validator

from holdfast.engine.lifecycle.model import Actor, Outcome
from holdfast.engine.store.bulk import Action, Filters, Sample, Undone
from holdfast.engine.store.commands import Store
from holdfast.engine.store.records import Attempt, CountedPage, Link
from holdfast.engine.task import Ended, Event, Explanation, Step, StepEvent
from holdfast.http.access import UserOrOperator, VisibleTask, make_router, owned_by
from holdfast.http.fields import Body, Cancel, Name, Text, Whole
from holdfast.http.shapes import CancelEffect, Items, Limit, cancel_task


class Events(Items[Event]):
    """The task's own moves, and what happened within its steps."""

    steps: list[StepEvent]


class Awaited(Body):
    """Tasks whose end somebody waits for."""

    ids: Annotated[list[UUID], Field(min_length=1, max_length=1000, fail_fast=True)]


class Outcomes(Items[Ended]):
    """How those ended that have; `missing` are not there, or not the caller's."""

    missing: list[UUID]


class TaskCancel(CancelEffect):
    task_id: UUID
    state: str


class Retry(Body):
    """From which step on, and with another payload, if not as before; with what ended only because it did."""

    from_step: Name | None = None
    payload: Any = None
    dependents: StrictBool = False


class Retried(BaseModel):
    """The task that runs instead; and instead of its dependents, if they were asked for."""

    task_id: UUID
    retry_of: UUID
    dependents: dict[UUID, UUID] = {}


class TaskFilter(Body):
    """The tasks that fit all that is given: parameters of the list, and fields of a bulk request."""

    lifecycle: Name | None = None
    state: Name | None = None
    actor: Actor | None = None
    outcome: Outcome | None = None
    queue: Name | None = None
    name: Name | None = None
    owner: Name | None = None
    tag: Name | None = None
    live: bool | None = None

    def filters(self, mine: str | None = None) -> Filters:
        """All of it; for a user (`mine`), of their own tasks: `owner` is for operators."""
        found = Filters(**{name: getattr(self, name) for name in Filters.__dataclass_fields__})
        return found if mine is None else replace(found, owner=mine)


class BulkRequest(TaskFilter):
    """What is to be done, and with which tasks: the filters are those of the list. `all` if none is to be given."""

    action: Action
    live: StrictBool | None = None
    all: StrictBool = False
    reason: Text | None = None
    dry_run: StrictBool = False
    cursor: UUID | None = None
    limit: Annotated[Whole, Field(ge=1, le=500)] = 200

    @model_validator(mode="after")
    def says_which(self) -> "BulkRequest":
        if self.filters().are_none and not self.all:
            raise ValueError("give a filter, or all: true for every task")
        return self


class BulkAnswer(BaseModel):
    """A dry run counts what would be done, up to 10,000. Otherwise: what became of this page; go on from `next`."""

    dry_run: bool
    number: int | None = None
    capped: bool | None = None
    groups: list[Sample] | None = None
    done: int = 0
    requested: int = 0
    refused: list[Undone] = []
    next: UUID | None = None


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1", "tasks")

    @router.get("/tasks")
    async def list_tasks(
        caller: UserOrOperator,
        which: Annotated[TaskFilter, Depends()],
        cursor: UUID | None = None,
        limit: Limit = 50,
    ) -> CountedPage[dict[str, Any]]:
        """Tasks that fit all filters, newest first. A user sees their own; `owner` is for operators."""
        return await store.list_tasks(**vars(which.filters(owned_by(caller))), cursor=cursor, limit=limit)

    @router.post("/bulk", status_code=202)
    async def bulk(asked: BulkRequest, caller: UserOrOperator) -> BulkAnswer:
        """Cancel or retry many, a page at a time, each for itself. A user's are their own; `owner` is for operators."""
        filters = asked.filters(owned_by(caller))
        if asked.dry_run:
            return BulkAnswer(dry_run=True, **vars(await store.bulk.preview(asked.action, filters)))
        did = await store.bulk.run(
            asked.action, filters, caller.name, reason=asked.reason, cursor=asked.cursor, limit=asked.limit
        )
        return BulkAnswer(dry_run=False, **vars(did))

    @router.post("/outcomes")
    async def outcomes(asked: Awaited, caller: UserOrOperator) -> Outcomes:
        """How these tasks ended, for a client that waits for many."""
        visible = await store.filter_owned(asked.ids, owned_by(caller))
        found = await store.outcomes([one for one in asked.ids if one in visible])
        missing = [one for one in asked.ids if one not in visible or found.get(one, ...) is None]
        return Outcomes(items=[one for one in found.values() if one], missing=missing)

    @router.get("/tasks/{task_id}")
    async def read(task_id: VisibleTask) -> dict[str, Any]:
        """One task, live or finished, with the states that may follow."""
        found = await store.next_states(task_id)
        return await store.read(task_id) | {"allowed": found[1] if found else []}

    @router.get("/tasks/{task_id}/events")
    async def events(task_id: VisibleTask) -> Events:
        """What happened to it, oldest first."""
        return Events(items=await store.events(task_id), steps=await store.step_events(task_id))

    @router.get("/tasks/{task_id}/steps")
    async def steps(task_id: VisibleTask) -> Items[Step]:
        """What is done of it, in the order in which it was."""
        return Items(items=await store.steps(task_id))

    @router.get("/tasks/{task_id}/attempts")
    async def attempts(task_id: VisibleTask) -> Items[Attempt]:
        """Who held it, and how that ended."""
        return Items(items=await store.attempts(task_id))

    @router.get("/tasks/{task_id}/why")
    async def why(task_id: VisibleTask) -> Explanation:
        """Who acts next, since when, what it waits for, and what can be done about it."""
        return await store.explain(task_id)

    @router.get("/tasks/{task_id}/tree")
    async def tree(task_id: VisibleTask) -> Items[Link]:
        """Its children and parents, what it waits for and who for it, and its retries."""
        return Items(items=await store.tree(task_id))

    @router.post("/tasks/{task_id}/cancel", status_code=202)
    async def cancel(task_id: VisibleTask, caller: UserOrOperator, asked: Cancel | None = None) -> TaskCancel:
        """Cancel it: at once, or when its worker hears of it."""
        effect = await cancel_task(store, task_id, asked, caller)
        found = await store.next_states(task_id)
        return TaskCancel(task_id=task_id, effect=effect, state=found[0] if found else "")

    @router.post("/tasks/{task_id}/retry", status_code=201)
    async def retry(task_id: VisibleTask, caller: UserOrOperator, asked: Retry | None = None) -> Retried:
        """Run a finished task again as a new one, with the steps that are done unless the payload is another."""
        given = asked or Retry()
        if not given.dependents:
            made = await store.retry(task_id, given.from_step, given.payload, by=caller.name)
            return Retried(task_id=made, retry_of=task_id)
        others = await store.retry_dependents(task_id, given.from_step, given.payload, by=caller.name)
        return Retried(task_id=others.pop(task_id), retry_of=task_id, dependents=others)

    return router
