"""Wake-ups over SQS: a message names a task that could be taken; the worker looks, and Postgres says who gets which.

What becomes of a message is decided by its task, a moment after it was heard:

    the worker holds it     kept from others, again and again, until it has ended here; then deleted
    no worker may take it     it ended, waits, or another worker holds it: deleted
    it could be taken       not by this worker, it seems: handed on, later each time, to a worker that can

A worker that dies leaves its messages; they come to others when their time is over, who find the task held or ended and
delete them, or take it. What was given back to the queue in Postgres is published again.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from uuid import UUID

from holdfast.backoff import backoff, jitter, pause_after
from holdfast.settings import Settings
from holdfast.wakeups.queue import Message, Queue, describe, longest_poll_seconds, queue_named

log = logging.getLogger("holdfast.wakeups")

visibility_seconds = 60.0
settle_after_seconds = 1.0
"""By then the worker has looked, or is too busy to."""
hand_on_seconds = 2.0, 60.0
"""After the first hearing, and at most; twice as long each time. A message that only others can use does not go round
and round between those who cannot."""
reconnect_seconds = 0.2, 15.0
close_within_seconds = 2.0

WhichWait = Callable[[Sequence[UUID]], Awaitable[Container[UUID]]]
"""Of these tasks, those that wait for a worker."""


@dataclass
class InHand:
    """A message that was heard and is not settled: since when, and until when others do not see it."""

    message: Message
    received_at: float
    until: float
    was_held: bool = False


class SqsWakeups:
    """Listens until it is closed, while somebody waits."""

    def __init__(
        self,
        queue: Queue,
        which_wait: WhichWait,
        *,
        visibility_seconds: float = visibility_seconds,
        settle_after_seconds: float = settle_after_seconds,
        poll_seconds: int = longest_poll_seconds,
    ) -> None:
        self._queue = queue
        self._which_wait = which_wait
        self._visibility_seconds = visibility_seconds
        self._settle_after_seconds = settle_after_seconds
        self._poll_seconds = poll_seconds
        self._held: Container[UUID] = ()
        self._hand: dict[UUID, InHand] = {}
        self._woken = asyncio.Event()
        self._wanted = asyncio.Event()
        self.is_listening = False
        self._stranger_reported = False
        self._task = asyncio.create_task(self._run())

    def watch_held(self, held: Container[UUID]) -> None:
        self._held = held

    async def wait(self, seconds: float) -> bool:
        self._wanted.set()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        finally:
            self._wanted.clear()
        self._woken.clear()
        return True

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with self._queue:
            settling = asyncio.create_task(self._settle_on())
            try:
                await self._listen()
            finally:
                settling.cancel()
                await asyncio.gather(settling, return_exceptions=True)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(close_within_seconds):
                        await self._release()

    async def _listen(self) -> None:
        pauses, is_reported = backoff(*reconnect_seconds), False
        while True:
            try:
                # A receiving that was begun is not broken off: what it would have brought were hidden from everybody.
                if self.is_listening:
                    await self._wanted.wait()
                messages = await self._queue.receive(
                    visibility_seconds=self._visibility_seconds,
                    poll_seconds=self._poll_seconds if self.is_listening else 0,
                )
                if is_reported:
                    log.info("wake-ups arrive again")
                    self._woken.set()  # for what was missed
                if not self.is_listening:
                    pauses = backoff(*reconnect_seconds)
                self.is_listening, is_reported = True, False
                await self._take_in(messages)
            except Exception as error:  # whatever it is, the next call may do better
                if not is_reported:
                    log.warning("wake-ups do not arrive; polling goes on", extra={"error": describe(error)})
                self.is_listening, is_reported = False, True
                await asyncio.sleep(next(pauses))

    # What was heard

    async def _take_in(self, messages: Sequence[Message]) -> None:
        """Wake the worker, if one of these is about a task that could be taken."""
        now = time.monotonic()
        useless: list[Message] = []
        fresh: list[UUID] = []
        for message in messages:
            if message.task_id is None:
                if not self._stranger_reported:
                    log.warning("a message that is not ours was deleted, as others will be", extra={"id": message.id})
                self._stranger_reported = True
                useless.append(message)
                continue
            known = self._hand.get(message.task_id)
            if known and known.message.id != message.id:  # one is enough
                useless.append(message)
                continue
            self._hand[message.task_id] = InHand(
                message, now, now + self._visibility_seconds, was_held=known is not None and known.was_held
            )
            if message.task_id not in self._held:
                fresh.append(message.task_id)
        if fresh:
            waiting = await self._ask(fresh)
            if any(task in waiting for task in fresh):
                self._woken.set()
                self._wanted.clear()  # an unneeded receive would hide its messages from other workers
            useless += self._drop([task for task in fresh if task not in waiting and task not in self._held])
        await self._queue.delete(useless)

    async def _ask(self, tasks: Sequence[UUID]) -> Container[UUID]:
        """Those that wait for a worker; all of them, if the database does not tell."""
        try:
            return await self._which_wait(tasks)
        except Exception as error:
            log.debug("a message could not be looked into", extra={"error": describe(error)})
            return tasks

    def _drop(self, tasks: Sequence[UUID]) -> list[Message]:
        return [self._hand.pop(task).message for task in tasks if task in self._hand]

    # What is in hand

    async def _settle_on(self) -> None:
        tick = min(self._settle_after_seconds / 2, self._visibility_seconds / 6)
        while True:
            await asyncio.sleep(tick)
            try:
                await self._settle()
            except Exception:
                log.exception("messages were not settled; the next look does it")

    async def _settle(self) -> None:
        """Keep, delete or hand on what is in hand."""
        now = time.monotonic()
        running, over, open_ = [], [], []
        for task, one in self._hand.items():
            if task in self._held:
                one.was_held = True
                if one.until - now < self._visibility_seconds / 2:
                    running.append(one)
            elif one.was_held:
                over.append(task)
            elif now - one.received_at >= self._settle_after_seconds:
                open_.append(task)
        if running:
            await self._keep(running, now)
        waiting = await self._ask(open_) if open_ else ()
        hand_on = [task for task in open_ if task in waiting and task not in self._held]
        over += [task for task in open_ if task not in waiting and task not in self._held]
        await self._queue.delete(self._drop(over))
        await self._queue.hide([(message, hidden_for(message)) for message in self._drop(hand_on)])

    async def _keep(self, running: Sequence[InHand], now: float) -> None:
        """Tasks of these run here. What cannot be kept any longer comes back, and is deleted by who finds it held."""
        failed = await self._queue.hide([(one.message, self._visibility_seconds) for one in running])
        lost = {message.id for message, _ in failed}
        for one in running:
            if one.message.id not in lost:
                one.until = now + self._visibility_seconds
            elif one.until <= now and one.message.task_id:
                self._hand.pop(one.message.task_id, None)

    async def _release(self) -> None:
        """Give back what is in hand: others see at once what was not begun here."""
        over = [task for task, one in self._hand.items() if one.was_held and task not in self._held]
        left = [task for task, one in self._hand.items() if not one.was_held and task not in self._held]
        await self._queue.delete(self._drop(over))
        await self._queue.hide([(message, 0.0) for message in self._drop(left)])


def open_queue_wakeups(settings: Settings, which_wait: WhichWait) -> SqsWakeups | None:
    """Wake-ups through the queue that these settings name, if they do.

    Raises SettingInvalid where what it needs is not installed.
    """
    queue = queue_named(settings)
    return SqsWakeups(queue, which_wait) if queue else None


def hidden_for(message: Message) -> float:
    first, longest = hand_on_seconds
    return jitter(pause_after(first, message.received - 1, longest), 0.25)
