"""A handle on a task: its state, its result, its history, its end. Any process may hold one; the id is all there is."""

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from holdfast.backoff import backoff
from holdfast.engine import values
from holdfast.engine.task import Ended, Event, Explanation
from holdfast.errors import TaskCancelled, TaskFailed

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast

R = TypeVar("R")


class Handle(Generic[R]):
    """A task that was started. `await handle` gives its result."""

    def __init__(self, app: "Holdfast", task_id: UUID, returns: object = Any) -> None:
        self.id = task_id
        self.app = app
        self._returns = returns

    def __repr__(self) -> str:
        return f"<handle {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def state(self) -> str:
        """Where the task is now. Raises TaskNotFound."""
        return str(self.read()["state"])

    def read(self) -> dict[str, Any]:
        """All that is known of the task. Raises TaskNotFound."""
        return self.app.query(lambda backend: backend.read(self.id))

    async def aread(self) -> dict[str, Any]:
        """The same in async code."""
        return await self.app.aquery(lambda backend: backend.read(self.id))

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end and return what the task returned.

        Raises TaskFailed, TaskCancelled, TaskNotFound, or TimeoutError after so many seconds; the task then runs on.
        """
        return self.value(self.app.call(self.app.wait_for_end(self.id, timeout)))

    async def aresult(self, timeout: float | None = None) -> R:  # noqa: ASYNC109
        """The same in async code, as `await handle` does."""
        return self.value(await self.app.acall(self.app.wait_for_end(self.id, timeout)))

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    def cancel(self, reason: str | None = None) -> str:
        """Cancel the task. Answers cancelled, requested (the worker that holds it learns of it) or too_late."""
        return self.app.query(lambda backend: backend.cancel(self.id, reason))

    async def acancel(self, reason: str | None = None) -> str:
        """The same in async code."""
        return await self.app.aquery(lambda backend: backend.cancel(self.id, reason))

    def why(self) -> Explanation:
        """Who acts next, since when, and what can be done about it. Raises TaskNotFound."""
        return self.app.query(lambda backend: backend.explain(self.id))

    async def watch(self) -> AsyncIterator[Event]:
        """Every move of the task, those that were and those that come, until it has ended. Raises TaskNotFound."""
        seen = -1
        pauses = backoff(0.02, 0.5, factor=1.5)
        while True:
            ended = (await self.aread())["outcome"] is not None  # asked first: what came before the end is then there
            for event in await self.app.aquery(lambda backend: backend.events(self.id)):
                if event.version > seen:
                    seen, pauses = event.version, backoff(0.02, 0.5, factor=1.5)
                    yield event
            if ended:
                return
            await asyncio.sleep(next(pauses))

    def value(self, ended: Ended) -> R:
        """The result of a task that ended so. Raises TaskFailed or TaskCancelled."""
        if ended.outcome == "cancelled":
            note = ended.note or {}
            reason = note.get("reason") or note.get("message")
            raise TaskCancelled(f"Task {self.id} is {ended.state}." + (f" {reason}" if reason else ""))
        if ended.outcome == "failed":
            error = ended.note or {}
            failed = TaskFailed(
                f"Task {self.id} is {ended.state}: {error.get('message', 'no reason was given')}",
                fix=f"See holdfast show {self.id}",
            )
            failed.category, failed.code, failed.step = error.get("category"), error.get("code"), error.get("step")
            raise failed
        value: R = values.load(ended.result, self._returns)
        return value
