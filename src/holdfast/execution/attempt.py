"""One run of one handler under one lease: what it has done, spent and shown, and whoever runs it.

The attempt that code belongs to is found in the context (`ATTEMPT`). Threads that a handler starts itself have another
context; while an attempt runs in this process they are told apart by `LOOPS`.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.task import Checkpoint, Checkpointed, Json, Lease, Outcome, Output
from holdfast.errors import Failure, StepInvalid
from holdfast.settings import Settings, read_settings

longest_name = 200
answer_within_seconds = 2.0
turns_of_calm = 5  # of the loop: what follows a step begins within these


@dataclass(frozen=True)
class Wait:
    """A step that somebody else does, until when, and what it is in words."""

    step: str
    until: datetime
    about: str


class Executor(Protocol):
    """Where an attempt is run: what it needs from whoever runs it."""

    @property
    def store(self) -> WorkerBackend:
        """The kernel, for whatever else it asks."""

    async def steps(self, lease: Lease) -> dict[str, Json]:
        """The results of the steps that are done."""

    async def checkpoint(self, done: Checkpoint) -> Checkpointed:
        """Keep a step. Raises LeaseLost."""

    async def record(self, lease: Lease, kind: str, step: str | None, data: Json) -> None:
        """Write down what happened. Raises LeaseLost."""

    def show(self, lease: Lease, progress: Json) -> None:
        """Let others see how far it is."""

    def interrupt(self, task_id: UUID, outcome: Outcome | None) -> None:
        """End it where it stands, with this outcome."""


class Attempt:
    """One run of one handler under one lease."""

    def __init__(self, lease: Lease, executor: Executor, loop: asyncio.AbstractEventLoop) -> None:
        self.lease = lease
        self.executor = executor
        self.loop = loop
        self.state = lease.state
        self.errors: Mapping[type[Exception], type[Failure]] = {}
        self.settings: Callable[[], Settings] = read_settings
        """What the application was told that this task belongs to."""
        self.cancelled = False
        self.lost = False
        self.blamed: list[tuple[BaseException, str]] = []
        self.spent: list[Json] = []
        self.outputs: list[Output] = []
        self.part: tuple[int, int] | None = None
        """Which of how many parts it is at, if it has some that are alike: progress is then that of the part."""
        self.unbegun: dict[object, tuple[str, Coroutine[Any, Any, Any]]] = {}
        self.waits: list[Wait] = []
        """What it has asked of others and has no answer to."""
        self._busy: set[object] = set()
        self._resting: list[asyncio.Event] = []
        self._progress: dict[str, Json] = {}
        self._begun: set[str] = set()
        self._done: asyncio.Future[dict[str, Json]] | None = None

    def forgotten(self) -> str | None:
        """The first step that was called and never awaited, now that the handler has returned. It runs no more."""
        left, self.unbegun = list(self.unbegun.values()), {}
        tasks = {task.get_coro(): task for task in asyncio.all_tasks()} if left else {}
        for _, run in left:
            if run in tasks:  # created, and not waited for
                tasks[run].cancel()
            else:
                run.close()
        return left[0][0] if left else None

    async def stored(self, name: str) -> tuple[bool, Json]:
        """Whether this step is done already, and its result. Raises StepInvalid for a name that cannot be used."""
        if not 1 <= len(name) <= longest_name:
            raise StepInvalid(f"A step's name has 1 to {longest_name} characters.", fix="Give it a short name.")
        if name in self._begun:
            raise StepInvalid(
                f"{name!r} was run twice in one attempt, so its result would stand for two things.",
                fix="Name each step, or run one over many items with step.map.",
            )
        self._begun.add(name)
        if not self.lease.resumed:
            return False, None
        if self._done is None:
            self._done = asyncio.ensure_future(self.executor.steps(self.lease))
        done = await asyncio.shield(self._done)
        return name in done, done.get(name)

    async def keep(self, name: str, value: Json, spent: list[Json], to: str | None = None) -> Json:
        """Write a step's result down, and move on to a state; what counts is what the first to write it has written.

        Whoever is stopped meanwhile waits for the answer: what is kept with the step, is not to be told once more.
        Whoever has lost the lease tells nothing more, and does not wait.
        """
        done = Checkpoint(self.lease, name, value, to, list(spent) or None)
        keeping = asyncio.ensure_future(self.executor.checkpoint(done))
        try:
            kept = await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.wait([keeping], timeout=0 if self.lost else answer_within_seconds)
            if keeping.cancel() or keeping.exception():
                raise
            spent.clear()
            raise
        self.state = to or self.state
        return kept.result

    @contextlib.contextmanager
    def within(self, step: str) -> Iterator[list[Json]]:
        """While a step runs: what is spent in it. If it fails it is to blame, and what it spent is spent."""
        self.show(step=step)
        spent: list[Json] = []
        token = SPENT.set(spent)
        try:
            with self.busy():
                yield spent
        except BaseException as error:
            self.blame(error, step)
            self.spent += spent
            raise
        finally:
            SPENT.reset(token)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While something is under way that is to be finished before the handler is left."""
        work = object()
        self._busy.add(work)
        try:
            yield
        finally:
            self._busy.discard(work)
            for rest in self._resting:
                self.loop.call_soon_threadsafe(rest.set)

    async def rest(self) -> None:
        """Return once nothing is under way, also nothing of what that has led to."""
        calm = asyncio.Event()
        self._resting.append(calm)
        try:
            turns = 0
            while turns < turns_of_calm:
                if self._busy:
                    calm.clear()
                    await calm.wait()
                    turns = 0
                else:
                    await asyncio.sleep(0)
                    turns += 1
        finally:
            self._resting.remove(calm)

    def blame(self, error: BaseException, step: str) -> None:
        """Remember in which step an error arose: failures are counted for each step by itself."""
        if not any(known is error for known, _ in self.blamed):
            self.blamed.append((error, step))

    def show(self, **progress: Json) -> None:
        self._progress = {**self._progress, **progress}
        self.executor.show(self.lease, self._progress)


ATTEMPT: ContextVar[Attempt | None] = ContextVar("holdfast_attempt", default=None)
LOOPS: dict[int, int] = {}
SPENT: ContextVar[list[Json] | None] = ContextVar("holdfast_spent", default=None)


class UnderWay:
    """While an attempt runs in this thread's loop. Threads that a handler starts itself are then told apart."""

    def __enter__(self) -> None:
        here = threading.get_ident()
        LOOPS[here] = LOOPS.get(here, 0) + 1

    def __exit__(self, *_: object) -> None:
        here = threading.get_ident()
        if LOOPS[here] > 1:
            LOOPS[here] -= 1
        else:
            del LOOPS[here]


under_way = UnderWay()
