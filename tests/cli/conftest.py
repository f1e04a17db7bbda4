"""A person at the keyboard, in this process: `holdfast(...)` types a command, `stage(...)` sets what it will find."""

import asyncio
import contextlib
import io
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pytest

from holdfast.cli import main
from holdfast.kernel.store import Store
from holdfast.testing import Database, Ground
from tests.worker.living import running_clock

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Keyboard(Protocol):
    def __call__(self, *words: str, stdin: str = "") -> Answer: ...


class Stage(Protocol):
    def __call__(self, act: Callable[[Store], Awaitable[T]]) -> T: ...


@pytest.fixture
def holdfast(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    """The command, with nothing but pipes around it, on the test's own database."""
    monkeypatch.setenv("HOLDFAST_URL", database.url)

    def run(*words: str, stdin: str = "") -> Answer:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(words))
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        return Answer(code, out.getvalue(), err.getvalue())

    before = signal.getsignal(signal.SIGINT)
    yield run
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def live(ground: Ground) -> Iterator[Database]:
    """A database on which time passes, for all tests of a file."""
    with running_clock(ground) as database:
        yield database


@pytest.fixture
def typed(holdfast: Keyboard, live: Database, server: str, monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    """The command, with the file's own server and its database."""
    monkeypatch.setenv("HOLDFAST_API", server)
    monkeypatch.setenv("HOLDFAST_URL", live.url)
    return holdfast


@pytest.fixture
def stage(database: Database) -> Stage:
    async def on_store(act: Callable[[Store], Awaitable[T]]) -> T:
        async with database.store() as store:
            return await act(store)

    def play(act: Callable[[Store], Awaitable[T]]) -> T:
        return asyncio.run(on_store(act))

    return play
