"""The open database of an application."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from holdfast.kernel.opening import open_store
from holdfast.kernel.settings import Settings
from holdfast.kernel.store import Store
from holdfast.kernel.task import Ended
from holdfast.sdk.background import Background, closed
from holdfast.sdk.waiting import Waiting


class Opened:
    """The open database of one application: its thread, its store, and who waits there."""

    def __init__(self) -> None:
        self.background = Background()
        self._stack = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._queues: set[str] = set()
        self._store: Store | None = None
        self.waiting: Waiting | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None  # noqa: S101
        return self._store

    async def open(self, settings: Settings, declare: Callable[[Store], Awaitable[None]]) -> None:
        async with self._opening:
            if self._store is not None:
                return
            async with contextlib.AsyncExitStack() as stack:
                store = await stack.enter_async_context(open_store(settings))
                await declare(store)
                self._stack = stack.pop_all()
            self.waiting, self._store = Waiting(store), store

    async def ended(self, task_id: UUID, timeout: float | None) -> Ended:  # noqa: ASYNC109
        assert self.waiting is not None  # noqa: S101
        return await self.waiting.ended(task_id, timeout)

    async def make_queues(self, queues: Iterable[str | None]) -> None:
        for queue in queues:
            if queue and queue not in self._queues:
                await self.store.make_queue(queue)
                self._queues.add(queue)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.background.begin(self._close()).result(timeout=15)
        self.background.stop()

    async def _close(self) -> None:
        if self.waiting is not None:
            await self.waiting.close(closed())
        self.background.give_up()
        await self._stack.aclose()
