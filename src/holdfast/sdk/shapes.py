"""What the methods of an application give, as types."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.sdk.task import AsyncTask, PlainTask

P = ParamSpec("P")
R = TypeVar("R")


class TaskMaker(Protocol):
    """What `@hf.task(...)` gives: it makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...


class Mounted(Protocol):
    """What `hf.asgi()` gives: an ASGI application that opens the database, and closes it."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None: ...
    async def open(self) -> object: ...
    async def close(self) -> None: ...
