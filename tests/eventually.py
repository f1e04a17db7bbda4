"""What becomes true after a while: asked for again and again, in async tests and in plain ones."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from holdfast.errors import DatabaseError

T = TypeVar("T")

pause_seconds = 0.02


async def eventually(
    ask: Callable[[], Awaitable[T]], what: object = "it", within: float = 60,
    *, ignoring: type[Exception] = DatabaseError,
) -> T:  # fmt: skip
    """The first true answer; a database that is away may come back. Fails the test if there is none in that time."""
    over = time.monotonic() + within
    while True:
        with contextlib.suppress(ignoring):
            if answer := await ask():
                return answer
        if time.monotonic() > over:
            pytest.fail(f"{what} did not happen within {within} s")
        await asyncio.sleep(pause_seconds)


def eventually_sync(
    ask: Callable[[], T], what: object = "it", within: float = 60,
    *, ignoring: type[Exception] = DatabaseError,
) -> T:  # fmt: skip
    """The same in plain code."""
    over = time.monotonic() + within
    while True:
        with contextlib.suppress(ignoring):
            if answer := ask():
                return answer
        if time.monotonic() > over:
            pytest.fail(f"{what} did not happen within {within} s")
        time.sleep(pause_seconds)
