"""The open database of an application, or the server that it speaks to."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from holdfast.engine.backend import ClientBackend
from holdfast.engine.opening import open_store
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Ended
from holdfast.errors import RequestInvalid
from holdfast.sdk.background import Background, closed
from holdfast.sdk.waiting import Waiting
from holdfast.settings import Settings


class Opened:
    """What one application has open: its thread, whom it asks there, and who waits for answers."""

    def __init__(self) -> None:
        self.background = Background()
        self._stack = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._queues: set[str] = set()
        self._answers: ClientBackend | None = None
        self.waiting: Waiting | None = None

    @property
    def answers(self) -> ClientBackend:
        assert self._answers is not None  # noqa: S101
        return self._answers

    @property
    def store(self) -> Store:
        """Raises RequestInvalid where the application speaks to a server."""
        if not isinstance(self.answers, Store):
            raise no_database()
        return self.answers

    async def open(
        self, settings: Settings, declare: Callable[[Store], Awaitable[None]], store: Store | None = None
    ) -> None:
        """Open it once, or take the store that is open. A server declares nothing for a client: its workers do."""
        async with self._opening:
            if self._answers is not None:
                return
            answers: ClientBackend
            async with contextlib.AsyncExitStack() as stack:
                if settings.is_remote:
                    # Only who speaks HTTP pays for what it imports.
                    from holdfast.remote.client_backend import RemoteClient
                    from holdfast.remote.server import calling

                    answers = RemoteClient(await stack.enter_async_context(calling(settings)))
                else:
                    if store is None:
                        store = await stack.enter_async_context(open_store(settings))
                    await declare(store)
                    answers = store
                self._stack = stack.pop_all()
            self.waiting, self._answers = Waiting(answers), answers

    async def ended(self, task_id: UUID, timeout: float | None) -> Ended:  # noqa: ASYNC109
        assert self.waiting is not None  # noqa: S101
        return await self.waiting.ended(task_id, timeout)

    async def make_queues(self, queues: Iterable[str | None]) -> None:
        for queue in queues:
            if queue and queue not in self._queues:
                await self.answers.make_queue(queue)
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


def no_database() -> RequestInvalid:
    return RequestInvalid(
        "This takes the database, and the application speaks to the server at HOLDFAST_API.",
        fix="Set HOLDFAST_URL where it runs, or unset HOLDFAST_API.",
    )
