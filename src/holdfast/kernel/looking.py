"""The kernel's functions that only look: one short method for each, of the same name. None of them takes a lock."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from holdfast.kernel import wire
from holdfast.kernel.calls import Calls
from holdfast.kernel.task import Event, Explanation, Moves, Step, StepEvent


class Looking(Calls):
    """What can be seen of tasks, queues and workers."""

    async def read(self, task_id: UUID | str) -> dict[str, Any]:
        """A task, live or finished. Raises TaskNotFound."""
        found: dict[str, Any] = wire.load(await self._value("select holdfast.read($1)", wire.task_id(task_id)))
        return found

    async def events(self, task_id: UUID | str) -> list[Event]:
        """Its moves, oldest first."""
        rows = await self._rows("select * from holdfast.events($1)", wire.task_id(task_id))
        return [Event(**{**row, "data": wire.load(row["data"])}) for row in rows]

    async def steps(self, task_id: UUID | str) -> list[Step]:
        """Its steps, in the order in which they were completed."""
        rows = await self._rows("select * from holdfast.steps($1)", wire.task_id(task_id))
        return [Step(**{**row, "result": wire.load(row["result"])}) for row in rows]

    async def step_events(self, task_id: UUID | str) -> list[StepEvent]:
        """What happened within it, oldest first."""
        rows = await self._rows("select * from holdfast.step_events($1)", wire.task_id(task_id))
        return [StepEvent(**{**row, "data": wire.load(row["data"])}) for row in rows]

    async def feed(
        self,
        cursor: str | None = None,
        limit: int = 500,
        *,
        lifecycles: Sequence[str] | None = None,
        tasks: Sequence[UUID] | None = None,
        owner: str | None = None,
    ) -> Moves:
        """Moves behind the cursor, oldest first for each task; none for now, "start" for all. Raises CursorGone."""
        query = "select * from holdfast.feed($1, $2, $3, $4, $5)"
        rows = await self._rows(query, cursor, limit, lifecycles, tasks, owner)
        moves = [wire.move(row) for row in rows if row["task_id"]]
        return Moves(moves, rows[-1]["cursor"], rows[-1]["more"])

    async def explain(self, task_id: UUID | str) -> Explanation:
        """Why it is where it is, and what can be done about it. Raises TaskNotFound."""
        return Explanation(**(await self._rows("select * from holdfast.explain($1)", wire.task_id(task_id)))[0])

    async def verify(self, ids: Iterable[UUID | str] | None = None) -> list[tuple[UUID, str]]:
        """What in the history of these tasks, or of all, does not hold. Nothing is the proof that all does."""
        asked = None if ids is None else [wire.task_id(task) for task in ids]
        return [tuple(row) for row in await self._rows("select * from holdfast.verify($1)", asked)]

    async def inbox(self, *, everything: bool = False, limit: int = 100) -> list[dict[str, Any]]:
        """What failed for good and waits for a person, newest first."""
        rows = await self._rows("select * from holdfast.inbox($1, $2)", everything, limit)
        return [{**row, "error": wire.load(row["error"])} for row in rows]
