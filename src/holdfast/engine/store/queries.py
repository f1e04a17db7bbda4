"""The engine's functions that only read: one short method for each, of the same name. None of them takes a lock."""

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.engine.store.records import Attempt, Count, CountedPage, Link, Queue, Worker
from holdfast.engine.task import Ended, Event, Explanation, FeedFilter, Move, Moves, Step, StepEvent, Upstream


class Queries(Calls):
    """What there is to know of tasks, queues and workers. Nothing here changes anything."""

    async def read(self, task_id: UUID | str) -> dict[str, Any]:
        """A task, live or finished. Raises TaskNotFound."""
        found: dict[str, Any] = encode.load(await self._call("read", encode.task_id(task_id)))
        return found

    async def outcomes(self, ids: Iterable[UUID | str]) -> dict[UUID, Ended | None]:
        """How those of these tasks ended that have; None for one that is not there. Others are missing."""
        rows = await self._table("outcomes", [encode.task_id(task) for task in ids])
        return {row["task_id"]: encode.from_row(Ended, row) if row["outcome"] else None for row in rows}

    async def upstream(self, task_id: UUID | str) -> list[Upstream]:
        """What it waited for, or waits for, by name."""
        return await self._records(Upstream, "upstream", encode.task_id(task_id))

    async def events(self, task_id: UUID | str) -> list[Event]:
        """Its moves, oldest first."""
        return await self._records(Event, "events", encode.task_id(task_id))

    async def steps(self, task_id: UUID | str) -> list[Step]:
        """Its steps, in the order in which they were completed."""
        return await self._records(Step, "steps", encode.task_id(task_id))

    async def step_events(self, task_id: UUID | str) -> list[StepEvent]:
        """What happened within it, oldest first."""
        return await self._records(StepEvent, "step_events", encode.task_id(task_id))

    async def feed(self, cursor: str | None = None, limit: int = 500, **which: Unpack[FeedFilter]) -> Moves:
        """Moves behind the cursor, oldest first for each task; none for now, "start" for all. Raises CursorGone."""
        rows = await self._table("feed", cursor, limit, *map(which.get, ("lifecycles", "tasks", "owner")))
        moves = [encode.from_row(Move, row) for row in rows if row["task_id"]]
        return Moves(moves, rows[-1]["cursor"], rows[-1]["more"])

    async def explain(self, task_id: UUID | str) -> Explanation:
        """Why it is where it is, and what can be done about it. Raises TaskNotFound."""
        return await self._record(Explanation, "explain", encode.task_id(task_id))

    async def verify(self, ids: Iterable[UUID | str] | None = None) -> list[tuple[UUID, str]]:
        """What in the history of these tasks, or of all, does not hold. Nothing is the proof that all does."""
        asked = None if ids is None else [encode.task_id(task) for task in ids]
        return [tuple(row) for row in await self._table("verify", asked, patience=None)]

    async def list_tasks(
        self,
        *,
        lifecycle: str | None = None,
        state: str | None = None,
        actor: str | None = None,
        outcome: str | None = None,
        queue: str | None = None,
        name: str | None = None,
        owner: str | None = None,
        live: bool | None = None,
        tag: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 50,
    ) -> CountedPage[dict[str, Any]]:
        """Tasks that fit all of this, as `read` shows them without what may be long; `cursor` is the `next` before."""
        narrowed = [encode.text(value) for value in (lifecycle, state, actor, outcome, queue, name, owner)]
        given = (*narrowed, live, encode.text(tag), encode.optional_id(cursor), limit)
        return await self._record(CountedPage, "list_tasks", *given)

    async def find_ids(self, prefix: str, limit: int = 10) -> list[UUID]:
        """Ids of tasks that begin like this. Raises RequestInvalid for what begins none."""
        rows = await self._table("find_ids", encode.text(prefix), limit)
        return [row["id"] for row in rows]

    async def owner_of(self, task_id: UUID | str, owner: str | None = None) -> str:
        """Whose task it is. Raises TaskNotFound, also if it is not `owner`'s."""
        return str(await self._call("owner_of", encode.task_id(task_id), owner))

    async def filter_owned(self, ids: Iterable[UUID], owner: str | None) -> set[UUID]:
        """Those of these tasks that are this owner's, or that are there at all."""
        rows = await self._table("owned", list(ids), owner)
        return {row[0] for row in rows}

    async def next_states(self, task_id: UUID | str) -> tuple[str, list[str]] | None:
        """The state it is in, and the states that may follow; None if there is no such task."""
        rows = await self._table("allowed", encode.task_id(task_id))
        return (rows[0]["state"], list(rows[0]["states"])) if rows else None

    async def attempts(self, task_id: UUID | str) -> list[Attempt]:
        """Its leases, oldest first."""
        return await self._records(Attempt, "attempts", encode.task_id(task_id))

    async def tree(self, task_id: UUID | str) -> list[Link]:
        """The tasks it is tied to."""
        return await self._records(Link, "tree", encode.task_id(task_id))

    async def stats(self, owner: str | None = None) -> list[Count]:
        """How many tasks are where, for each state of each lifecycle; all of them, or one owner's."""
        return await self._records(Count, "stats", owner)

    async def metrics(self) -> list[tuple[str, dict[str, str], float]]:
        """What is measured now: name, labels, value."""
        rows = await self._table("metrics")
        return [(row["name"], encode.load(row["labels"]), row["value"]) for row in rows]

    async def queues(self) -> list[Queue]:
        """All queues, by name."""
        return await self._records(Queue, "queues")

    async def workers(self) -> list[Worker]:
        """All workers that have said hello and not goodbye."""
        return await self._records(Worker, "workers")

    async def known_task(self, name: str) -> dict[str, Any] | None:
        """What the newest live worker says of this task: queue, max_attempts, priority. None if none knows it."""
        found: dict[str, Any] | None = encode.load(await self._call("known_task", encode.text(name)))
        return found

    async def current_leases(self, limit: int = 1000) -> list[dict[str, Any]]:
        """The leases that workers have now, by worker."""
        return [dict(row) for row in await self._table("held", limit)]

    async def neighbours(self, ids: Iterable[UUID]) -> dict[UUID, tuple[UUID | None, UUID | None]]:
        """The ids right before and right after each of these, among all tasks."""
        rows = await self._table("neighbours", list(ids))
        return {row["id"]: (row["before"], row["after"]) for row in rows}
