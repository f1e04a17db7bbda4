"""Many callers, few calls: what comes while a call is under way goes together in the next one.

No caller waits for a batch to fill. A lone caller's item is sent at once; only under load do they gather, for as long
as the call before them takes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.backoff import backoff
from holdfast.errors import DatabaseError, TaskBusy

Item = TypeVar("Item")
Answer = TypeVar("Answer")

first_pause_seconds = 0.02
longest_pause_seconds = 1.0


class BatchedCalls(Generic[Item, Answer]):
    """Calls of `send`, with at most `most` items each. It answers them in their order."""

    def __init__(self, send: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], *, most: int) -> None:
        self._send = send
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def call(self, item: Item) -> Answer:
        """The answer to this one. Raises what `send` raises for it alone; a database that is away is waited for."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_waiting())
        return await answer

    async def _send_waiting(self) -> None:
        pauses = backoff(first_pause_seconds, longest_pause_seconds, spread=0.5)
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            batch = [(item, future) for item, future in batch if not future.done()]
            try:
                await self._send_batch(batch)
                pauses = backoff(first_pause_seconds, longest_pause_seconds, spread=0.5)
            except TaskBusy:  # the row of one of them is locked, perhaps for long: the others do not wait for it
                for one in batch:
                    try:
                        await self._send_batch([one])
                    except DatabaseError:
                        self._waiting.append(one)
                await asyncio.sleep(next(pauses))
            except DatabaseError:
                self._waiting = batch + self._waiting
                await asyncio.sleep(next(pauses))

    async def _send_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._send([item for item, _ in batch])
        except DatabaseError:
            raise
        except Exception as error:  # whatever it is: the caller that waits must get it
            if len(batch) == 1:
                if not batch[0][1].done():
                    batch[0][1].set_exception(error)
                return
            for one in batch:  # what is wrong with one is not the others' fault
                await self._send_batch([one])
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
