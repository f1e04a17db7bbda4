"""Functions are called here: async ones in the loop, plain ones in threads of their own, where they can be stopped.

A thread cannot be killed, but an exception can be put into it, which arises between two of its lines of Python. A
thread that waits in C code (a long sleep, one bad regular expression) does not notice until it is back; then only the
end of the process helps, which is the supervisor's business. A thread that imports a module is left alone until that is
done: an extension in C whose import was broken off cannot be imported again in this process.
"""

import asyncio
import contextlib
import contextvars
import ctypes
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from holdfast.errors import StepInvalid

T = TypeVar("T")

remind_seconds = 1.0
IMPORTLIB = "<frozen importlib._bootstrap>"


async def call_function(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function returns: awaited if it is async, else from a thread, so that it does not hold up the others."""
    try:
        if inspect.iscoroutinefunction(function):
            answer = await cast("Callable[..., Awaitable[Any]]", function)(*args, **kwargs)
        else:
            answer = await in_thread(function, *args, **kwargs)
            answer = await answer if inspect.isawaitable(answer) else answer
    except (SystemExit, KeyboardInterrupt) as error:  # the end of the process is not a function's to decide
        raise as_exception(error) from error
    if answer is not None and inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise StepInvalid(
            f"{getattr(function, '__name__', function)} returned a {type(answer).__name__}, not its result.",
            fix="Await it, and return that.",
        )
    return answer


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """What `function` returns. Cancelling this raises CancelledError in the function, and waits until it has ended."""
    call = Call(asyncio.get_running_loop(), function, args, kwargs)
    call.start()
    try:
        return await asyncio.shield(call.answer)
    except asyncio.CancelledError:
        while call.is_alive() and not call.answer.done():
            call.interrupt()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([call.answer], timeout=remind_seconds)
        call.answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())  # it no longer matters
        raise


class Call(threading.Thread):
    """A thread for one call. A daemon: a function that never ends does not keep the process from ending."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(daemon=True, name=getattr(function, "__name__", "call"))
        self.loop = loop
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._call = (function, args, kwargs)
        self._context = contextvars.copy_context()
        self._ending = threading.Lock()
        self._ended = False
        self._interrupted = False

    def run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # an interruption that came when all was done
            function, args, kwargs = self._call
            try:
                value = self._context.run(function, *args, **kwargs)
            except BaseException as error:
                self._hand_over(self.answer.set_exception, as_exception(error))
            else:
                self._hand_over(self.answer.set_result, value)

    def interrupt(self) -> None:
        with self._ending:
            if not self._ended and not self._interrupted and self.ident and not is_importing(self.ident):
                kind = ctypes.py_object(self._interruption())
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), kind)

    def _interruption(self) -> type[asyncio.CancelledError]:
        """A CancelledError that lets us know when it arises: once is enough, or it would break what cleans up."""
        call = self

        class Interrupted(asyncio.CancelledError):
            def __init__(self, *args: object) -> None:
                super().__init__(*args)
                call._interrupted = True

        return Interrupted

    def _hand_over(self, settle: Callable[[Any], None], value: object) -> None:
        with self._ending:
            self._ended = True
        with contextlib.suppress(RuntimeError):  # the loop is gone: there is no caller to wait
            self.loop.call_soon_threadsafe(self._settle, settle, value)

    def _settle(self, settle: Callable[[Any], None], value: object) -> None:
        if not self.answer.done():
            settle(value)


def is_importing(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame and frame.f_code.co_filename != IMPORTLIB:
        frame = frame.f_back
    return frame is not None


class Exited(Exception):
    """A function called for the end of the process, which is not its to decide."""


def as_exception(error: BaseException) -> BaseException:
    """What can travel through a future: not the exceptions that would end the event loop, nor StopIteration."""
    if isinstance(error, (SystemExit, KeyboardInterrupt, StopIteration)):
        wrapped = Exited(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped
    return error
