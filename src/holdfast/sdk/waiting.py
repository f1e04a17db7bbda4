"""Waiting for the ends of tasks: however many wait in a process, they ask in one statement."""

import asyncio
import contextlib
from collections import defaultdict
from uuid import UUID

from holdfast.engine.backend import ClientBackend
from holdfast.engine.task import Ended
from holdfast.errors import DatabaseUnreachable, HoldfastError, TaskNotFound

first_pause_seconds = 0.004
longest_pause_seconds = 0.2
explained_within_seconds = 2.0
later = object()


class Waiting:
    """The tasks of which somebody here awaits the end."""

    def __init__(self, store: ClientBackend) -> None:
        self._store = store
        self._waiters: defaultdict[UUID, set[asyncio.Future[Ended]]] = defaultdict(set)
        self._asking: asyncio.Task[None] | None = None
        self._came = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def ended(self, task_id: UUID, timeout: float | None = None) -> Ended:  # noqa: ASYNC109
        """How it ended. Raises TaskNotFound, or TimeoutError after so many seconds."""
        if timeout is not None and timeout <= 0:  # who does not wait still gets what is there
            answer = (await self._store.outcomes([task_id])).get(task_id, later)
            if isinstance(answer, Ended):
                return answer
            raise await self._late(task_id, "") if answer is later else missing(task_id)
        future: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiters[task_id].add(future)
        self._came.set()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise await self._late(task_id, f" within {timeout} s; it goes on") from None
        finally:
            self._waiters[task_id].discard(future)
            if not self._waiters[task_id]:
                del self._waiters[task_id]

    async def _late(self, task_id: UUID, when: str) -> TimeoutError:
        """The error for a task that has not ended, with the reason, if it can be learned soon."""
        why = ""
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(explained_within_seconds):
                why = f" {(await self._store.explain(task_id)).sentence}"
        return TimeoutError(f"Task {task_id} has not ended{when}.{why}")

    def give_up(self, error: Exception) -> None:
        """Nobody will learn any more how it ends."""
        for futures in self._waiters.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    async def close(self, error: Exception) -> None:
        """Give up, and ask no more."""
        self.give_up(error)
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        """Look often at first, then ever more slowly; whoever comes anew is looked for at once."""
        pause = first_pause_seconds
        while self._waiters:
            self._came.clear()
            try:
                answers = await self._store.outcomes(list(self._waiters))
            except DatabaseUnreachable:
                answers = {}  # the database is away for a moment; the tasks are not lost
            except Exception as error:
                self.give_up(error)
                return
            for task_id, ended in answers.items():
                for future in self._waiters.get(task_id, ()):
                    if not future.done() and ended is None:
                        future.set_exception(missing(task_id))
                    elif not future.done() and ended is not None:
                        future.set_result(ended)
            try:
                async with asyncio.timeout(pause):
                    await self._came.wait()
                pause = first_pause_seconds
            except TimeoutError:
                pause = min(pause * 1.3, longest_pause_seconds)


def missing(task_id: UUID) -> TaskNotFound:
    return TaskNotFound(f"{task_id}.", fix="Was its transaction committed?")
