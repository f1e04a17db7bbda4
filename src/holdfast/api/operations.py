"""What runs here: workers, queues, counts."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.engine.store.records import Count, Queue, Worker
from holdfast.http.access import Operator, UserOrOperator, make_router, needs, owned_by
from holdfast.http.fields import Name
from holdfast.http.shapes import Items, Paused

QueueName = Annotated[Name, Path()]


class WorkerSeen(BaseModel):
    """A worker. Its label, tasks and times are for operators and workers."""

    id: str
    queues: list[str]
    slots: int
    live: bool
    label: str | None = None
    names: list[str] | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1", "operations")

    @router.get("/workers")
    async def workers(caller: Annotated[Principal, needs("user", "worker", "operator")]) -> Items[WorkerSeen]:
        """The workers that have reported and not left; `live` if they did within the last half minute."""
        return Items(items=[show(worker, caller) for worker in await store.workers()])

    @router.get("/queues", dependencies=[needs("user", "worker", "operator")])
    async def queues() -> Items[Queue]:
        """What waits where, and since when. Counts stop at 10,000."""
        return Items(items=await store.queues())

    @router.post("/queues/{name}/pause")
    async def pause(name: QueueName, caller: Operator) -> Paused:
        """Let nothing of this queue be claimed; what workers hold goes on."""
        await store.pause_queue(name, by=caller.name)
        return Paused(name=name, paused=True)

    @router.post("/queues/{name}/resume", dependencies=[needs("operator")])
    async def resume(name: QueueName) -> Paused:
        """Let workers claim from it again."""
        await store.resume_queue(name)
        return Paused(name=name, paused=False)

    @router.get("/stats")
    async def stats(caller: UserOrOperator) -> Items[Count]:
        """How many tasks are where; for a user, of their own."""
        return Items(items=await store.stats(owned_by(caller)))

    return router


def show(worker: Worker, caller: Principal) -> WorkerSeen:
    """A label is the name of a host, as a rule: nothing for those who only use it."""
    hidden = set() if caller.roles & {"operator", "worker"} else {"label", "names", "started_at", "seen_at"}
    return WorkerSeen(**{name: value for name, value in vars(worker).items() if name not in hidden})
