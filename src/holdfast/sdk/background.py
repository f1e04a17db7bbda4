"""A thread with an event loop, in which the SDK's connections live.

Whoever calls, from plain code, from any event loop or from a notebook, meets the same connections: async is written
once, and a synchronous call waits for it.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.errors import DatabaseUnreachable

T = TypeVar("T")


class Background:
    """The loop, running until it is stopped."""

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
        """What `work` returns, waited for. Raises DatabaseUnreachable if all is closed meanwhile."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("This is the SDK's own thread; it cannot wait for itself.")
        future = self._awaited(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            if not self._is_closed:
                raise
            raise closed() from error
        except BaseException:
            future.cancel()
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from an event loop."""
        future = self._awaited(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            caller = asyncio.current_task()
            if not self._is_closed or (caller and caller.cancelling()):  # not the call, but who waits was cancelled
                raise
            raise closed() from error

    def _awaited(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._is_closed:
                work.close()
                raise closed()
            future = self.begin(work)
            self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        return future

    def give_up(self) -> None:
        """End the calls that somebody waits for, so that nobody waits for ever, and what they hold is given back."""
        with self._lock:
            self._is_closed = True
            left = list(self._calls)
        for future in left:
            future.cancel()

    def stop(self) -> None:
        self.give_up()
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)


def closed() -> DatabaseUnreachable:
    return DatabaseUnreachable("The application was closed.", fix="Ask again; it opens anew.")
