"""Schedules over HTTP: what is started when, and what an operator does about it.

Applications declare them in code; here they are paused, run, caught up on and forgotten.
"""

from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.http.access import Operator, make_router
from holdfast.http.fields import Body, Moment, Name, Whole
from holdfast.http.shapes import Limit, Page, Paused, page
from holdfast.schedules.store import Filled, Run, Schedules, backfilled_at_most, times_of

PathName = Annotated[Name, Path()]

upcoming_listed = 5
runs_listed = 50


class Schedule(BaseModel):
    """A schedule. `live` says that an application which declares it is there; `error` what its last start met."""

    name: str
    owner: str
    cron: str
    timezone: str
    starts: Literal["task", "dag"]
    target: dict[str, Any]
    at_field: str | None
    missed: Literal["latest", "all", "skip"]
    next_at: datetime | None
    last_at: datetime | None
    last_task: UUID | None
    paused_at: datetime | None
    paused_by: str | None
    error: str | None
    error_at: datetime | None
    try_at: datetime | None
    declared_at: datetime
    live: bool


class Detail(Schedule):
    """One with its next due times and its newest runs."""

    upcoming: list[datetime]
    runs: list[Run]


class Started(BaseModel):
    task_id: UUID


class Range(Body):
    """Which due times are meant: from one moment to another, both counted in."""

    start: Annotated[Moment, Field(alias="from")]
    end: Annotated[Moment, Field(alias="to")]
    dry_run: bool = False
    limit: Annotated[Whole, Field(ge=1, le=backfilled_at_most)] = backfilled_at_most


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1/schedules", "schedules", "operator")
    schedules = Schedules.over(store)

    @router.get("")
    async def list_schedules(cursor: Annotated[Name | None, Query()] = None, limit: Limit = 50) -> Page[Schedule, str]:
        """Schedules, by name."""
        found = await schedules.read(after=cursor, limit=limit)
        return page([Schedule(**one) for one in found], limit, lambda last: last.name)

    @router.get("/{name}")
    async def read(name: PathName) -> Detail:
        """One of them, with its next due times and its newest runs."""
        found = await schedules.one(name)
        upcoming = islice(times_of(found).after(datetime.fromisoformat(found["now"])), upcoming_listed)
        return Detail(**found, upcoming=list(upcoming), runs=await schedules.runs(name, runs_listed))

    @router.post("/{name}/pause")
    async def pause(name: PathName, caller: Operator) -> Paused:
        """Let the clock start nothing of it."""
        await schedules.pause(name, caller.name)
        return Paused(name=name, paused=True)

    @router.post("/{name}/resume")
    async def resume(name: PathName) -> Paused:
        """Let the clock start it again, from its next due time on: what fell due meanwhile is not run."""
        await schedules.resume(name)
        return Paused(name=name, paused=False)

    @router.post("/{name}/run", status_code=201)
    async def run(name: PathName, caller: Operator) -> Started:
        """One run at once, paused or not; its next due time stays."""
        return Started(task_id=await schedules.run_now(name, caller.name))

    @router.post("/{name}/backfill", status_code=202)
    async def backfill(name: PathName, asked: Range, caller: Operator) -> Filled:
        """A run for each due time of the range that has none, the oldest first; so repeating it is safe."""
        return await schedules.backfill(
            name, asked.start, asked.end, by=caller.name, dry_run=asked.dry_run, limit=asked.limit
        )

    @router.delete("/{name}", status_code=204)
    async def remove(name: PathName) -> None:
        """Forget it, but not what it has run. An application that declares it makes it again at its next start."""
        await schedules.remove(name)

    return router
