"""A person at the keyboard, in this process: `holdfast(...)` types a command, `stage(...)` sets what it will find."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Database, Ground
from tests.cli.keyboard import Answer, typed_here

T = TypeVar("T")


class Keyboard(Protocol):
    def __call__(self, *arguments: str, stdin: str = "") -> Answer: ...


class Stage(Protocol):
    def __call__(self, act: Callable[[Store], Awaitable[T]]) -> T: ...


@pytest.fixture
def holdfast(database: Database, monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    """The command, with nothing but pipes around it, on the test's own database."""
    monkeypatch.setenv("HOLDFAST_URL", database.url)

    def run(*arguments: str, stdin: str = "") -> Answer:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        return typed_here(*arguments)

    return run


@pytest.fixture(scope="module")
def live(ground: Ground) -> Iterator[Database]:
    """A database on which time passes, for all tests of a file."""
    with ground.live_database() as database:
        yield database


@pytest.fixture
def typed(holdfast: Keyboard, live: Database, server: str, monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    """The command, with the file's own server and its database."""
    monkeypatch.setenv("HOLDFAST_API", server)
    monkeypatch.setenv("HOLDFAST_URL", live.url)
    # A pause here means a slow machine and not a stuck task: the command must not print a reason for it.
    monkeypatch.setattr("holdfast.cli.watcher.wonder_after_seconds", 60.0)
    return holdfast


@pytest.fixture
def stage(database: Database) -> Stage:
    async def on_store(act: Callable[[Store], Awaitable[T]]) -> T:
        async with database.store() as store:
            return await act(store)

    def play(act: Callable[[Store], Awaitable[T]]) -> T:
        return asyncio.run(on_store(act))

    return play
