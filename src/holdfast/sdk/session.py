"""The open database of an application, or the server that it speaks to; and the thread in which it lives.

Plain code, any event loop and notebooks all meet the same connections: async is written once, in the event loop of a
thread, and a synchronous call waits for it. However many wait for tasks to end, they ask in one statement.
"""

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from types import FrameType
from typing import Any, TypeVar
from uuid import UUID

from holdfast.engine.backend import ClientBackend
from holdfast.engine.opening import open_store
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Ended
from holdfast.errors import AppInvalid, DatabaseUnreachable, HoldfastError, RequestInvalid, TaskNotFound
from holdfast.settings import Settings

T = TypeVar("T")

first_pause_seconds = 0.004
longest_pause_seconds = 0.2
explained_within_seconds = 2.0
PENDING = object()


class Session:
    """What one application has open: its thread, its backend, and the callers that wait there for tasks to end."""

    backend: ClientBackend
    """Once it is open."""

    def __init__(self) -> None:
        self.thread = LoopThread()
        self._stack = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._is_open = False
        self._queues: set[str] = set()
        self.waiting: defaultdict[UUID, set[asyncio.Future[Ended]]] = defaultdict(set)
        self._polling: asyncio.Task[None] | None = None
        self._added = asyncio.Event()

    @property
    def store(self) -> Store:
        """Raises RequestInvalid where the application speaks to a server."""
        if not isinstance(self.backend, Store):
            raise no_database()
        return self.backend

    async def open(
        self, settings: Settings, declare: Callable[[Store], Awaitable[None]], store: Store | None = None
    ) -> None:
        """Open it once, or take the store that is open. A server declares nothing for a client: its workers do."""
        async with self._opening:
            if self._is_open:
                return
            async with contextlib.AsyncExitStack() as stack:
                if settings.is_remote:
                    # Imported only where HTTP is used.
                    from holdfast.remote.client_backend import RemoteClient
                    from holdfast.remote.server import open_server

                    self.backend = RemoteClient(await stack.enter_async_context(open_server(settings)))
                else:
                    if store is None:
                        store = await stack.enter_async_context(open_store(settings))
                    await declare(store)
                    self.backend = store
                self._stack = stack.pop_all()
            self._is_open = True

    async def make_queues(self, queues: Iterable[str | None]) -> None:
        for queue in queues:
            if queue and queue not in self._queues:
                await self.backend.make_queue(queue)
                self._queues.add(queue)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.thread.begin(self._close()).result(timeout=15)
        self.thread.stop()

    async def _close(self) -> None:
        self._fail_waiting(closed_error())
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        self.thread.cancel_calls()
        await self._stack.aclose()

    # Waiting

    async def wait_for_end(self, task_id: UUID, timeout: float | None) -> Ended:  # noqa: ASYNC109
        """How a task ended. Raises TaskNotFound, or TimeoutError after so many seconds."""
        if timeout is not None and timeout <= 0:  # a caller that does not wait still gets what is there
            ended = (await self.backend.outcomes([task_id])).get(task_id, PENDING)
            if isinstance(ended, Ended):
                return ended
            raise await self._timed_out(task_id, "") if ended is PENDING else missing_error(task_id)
        future: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.waiting[task_id].add(future)
        self._added.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise await self._timed_out(task_id, f" within {timeout} s; it goes on") from None
        finally:
            self.waiting[task_id].discard(future)
            if not self.waiting[task_id]:
                del self.waiting[task_id]

    async def _timed_out(self, task_id: UUID, when: str) -> TimeoutError:
        """The error for a task that has not ended, with the reason, if it can be learned soon."""
        why = ""
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(explained_within_seconds):
                why = f" {(await self.backend.explain(task_id)).sentence}"
        return TimeoutError(f"Task {task_id} has not ended{when}.{why}")

    def _fail_waiting(self, error: Exception) -> None:
        for futures in self.waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    async def _poll(self) -> None:
        """Ask often at first, then ever more slowly; a task that is added is asked about at once."""
        pause = first_pause_seconds
        while self.waiting:
            self._added.clear()
            try:
                outcomes = await self.backend.outcomes(list(self.waiting))
            except DatabaseUnreachable:
                outcomes = {}  # the database is away for a moment; the tasks are not lost
            except Exception as error:
                self._fail_waiting(error)
                return
            for task_id, ended in outcomes.items():
                for future in self.waiting.get(task_id, ()):
                    if not future.done() and ended is None:
                        future.set_exception(missing_error(task_id))
                    elif not future.done() and ended is not None:
                        future.set_result(ended)
            try:
                async with asyncio.timeout(pause):
                    await self._added.wait()
                pause = first_pause_seconds
            except TimeoutError:
                pause = min(pause * 1.3, longest_pause_seconds)


class LoopThread:
    """A thread with an event loop, which runs until it is stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.close()

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns, waited for. Raises DatabaseUnreachable if the thread is stopped meanwhile."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("This is the SDK's own thread; it cannot wait for itself.")
        future = self._begin_call(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            if not self._is_closed:
                raise
            raise closed_error() from error
        except BaseException:
            future.cancel()
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from an event loop."""
        future = self._begin_call(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            caller = asyncio.current_task()
            if not self._is_closed or (caller and caller.cancelling()):  # the caller was cancelled, not the call
                raise
            raise closed_error() from error

    def _begin_call(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._is_closed:
                work.close()
                raise closed_error()
            future = self.begin(work)
            self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        return future

    def cancel_calls(self) -> None:
        """End all calls, so that no caller waits for ever, and what they hold is given back. No other can begin."""
        with self._lock:
            self._is_closed = True
            left = list(self._calls)
        for future in left:
            future.cancel()

    def stop(self) -> None:
        self.cancel_calls()
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)


IMPORTING: list[bool] = []


@contextlib.contextmanager
def forbid_calls() -> Iterator[None]:
    """While a worker imports an application: a task that it then starts or waits for would wait for this very worker.

    Until the block ends every call that would use the database raises AppInvalid.
    """
    IMPORTING.append(True)
    try:
        yield
    finally:
        IMPORTING.pop()


def called_while_imported() -> AppInvalid:
    """The error for the line outside of Holdfast that calls us now."""
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] == "holdfast":
        name, frame = frame.f_code.co_name, frame.f_back
    place = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
    return AppInvalid(
        f".{name}(){place} is called while its module is imported.", fix='Put it under if __name__ == "__main__":'
    )


def no_database() -> RequestInvalid:
    return RequestInvalid(
        "This needs the database, and the application speaks to the server at HOLDFAST_API.",
        fix="Set HOLDFAST_URL where it runs, or unset HOLDFAST_API.",
    )


def closed_error() -> DatabaseUnreachable:
    return DatabaseUnreachable("The application was closed.", fix="Ask again; it opens itself.")


def missing_error(task_id: UUID) -> TaskNotFound:
    return TaskNotFound(f"{task_id}.", fix="Was its transaction committed?")
