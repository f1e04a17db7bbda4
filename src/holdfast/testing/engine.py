"""The engine in a test: what a worker, its supervisor and the sweep do, in this process and without waiting.

Tasks are claimed through the real store and run by the same code as in a worker. When nothing is left to do now, the
clock is moved to when there will be: the end of a pause, a delay or a lost lease, and no further.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload
from uuid import UUID

from holdfast.approvals.store import Questions
from holdfast.engine.backend import WorkerBackend
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Completion, Done, Ended, Event, Json, Lease, Outcome
from holdfast.errors import HoldfastError, TaskCancelled, TaskError, TaskFailed
from holdfast.execution.attempt import Attempt
from holdfast.execution.classify import replace_refused, replace_unsendable
from holdfast.execution.suspend import CANCELLED
from holdfast.lifecycles.dispatch.sdk import Dag
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick
from holdfast.sdk.client import APPS, OPEN_STORES, Holdfast, override_settings
from holdfast.sdk.handle import Handle
from holdfast.sdk.session import LoopThread
from holdfast.sdk.task import Prepared, Task
from holdfast.settings import Settings
from holdfast.testing.crash import Crash, CrashingAttempt
from holdfast.testing.ground import Database

R = TypeVar("R")
T = TypeVar("T")

lease = timedelta(minutes=1)
longest = timedelta(days=400)
slots = 200
first_pause_seconds = 0.002
longest_pause_seconds = 0.05
locked_at_most_seconds = 10.0
settles_at_most = 3
APPROVED = {"approved": True, "note": None}


@dataclass(frozen=True)
class Ran(Generic[R]):
    """A task, as it stood when nothing was left to do for it.

    `outcome` is done, partial, failed, cancelled, or None if it has not ended: it waits for its owner, say. `attempts`
    counts as retries and lost workers do. `steps` are the names of those that are done, in their order; `usage` is what
    was reported, `error` what `result` would raise.
    """

    handle: Handle[R]
    state: str
    outcome: str | None
    attempts: int
    steps: Sequence[str]
    events: Sequence[Event]
    usage: Sequence[Mapping[str, Json]]
    error: TaskError | None
    value: Any

    @property
    def id(self) -> UUID:
        return self.handle.id

    @property
    def result(self) -> R:
        """What the task returned. Raises `error`, if there is one."""
        if self.error:
            raise self.error
        value: R = self.value
        return value


class Engine:
    """What the fixture `holdfast` gives. Its methods are synchronous; async tests call them just the same."""

    store: Store
    backend: WorkerBackend
    """What attempts ask: the store, or a server before it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = database.clock
        self.attempts: dict[UUID, Attempt] = {}
        self._apps: dict[int, Holdfast] = {}
        self._queues: set[str] = set()
        self._crashes: dict[UUID, Crash] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Engine":
        with contextlib.ExitStack() as stack:
            self._loop = LoopThread()
            stack.callback(self._loop.stop)
            self.store = self.backend = Store(self.database.bridge())
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-test-")))
            stack.enter_context(override_settings(Settings(url=self.database.url, home=home)))
            OPEN_STORES[self.database.url] = self.store
            stack.callback(OPEN_STORES.pop, self.database.url)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @overload
    def start(self, task: Dag, **params: Any) -> Handle[dict[str, int]]: ...
    @overload
    def start(self, task: Prepared[..., R], *args: Any, **kwargs: Any) -> Handle[R]: ...

    def start(self, task: Prepared[..., R] | Dag, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Start a task, as `task.start(...)` does. It runs with the next `run` or `drain`."""
        if not isinstance(task, Prepared | Dag):
            raise TypeError(
                f"{task!r} is not a task. Pass a function that is marked with @hf.task, then its arguments."
            )
        self._add_app(task.app)
        return cast(Prepared[..., R], task).start(*args, **kwargs)

    @overload
    def run(self, task: Dag, **params: Any) -> Ran[dict[str, int]]: ...
    @overload
    def run(
        self,
        task: Prepared[..., R] | Handle[R],
        *args: Any,
        crash_after: str | Iterable[str] | None = None,
        crash_before: str | Iterable[str] | None = None,
        crashes: int = 1,
        **kwargs: Any,
    ) -> Ran[R]: ...

    def run(
        self,
        task: Prepared[..., R] | Handle[R] | Dag,
        *args: Any,
        crash_after: str | Iterable[str] | None = None,
        crash_before: str | Iterable[str] | None = None,
        crashes: int = 1,
        **kwargs: Any,
    ) -> Ran[Any]:
        """Start a task and run it to its end; or run one to its end that was started.

        crash_after: the process dies right after this step was kept. crash_before: right before, so that it has run and
        its result is lost. Of steps that run at the same time several may be named, in both: it dies once it stands
        between them. crashes: how many times. Whatever else is due runs too, as it would beside any worker. Raises
        AssertionError if it never came there, or if a year has passed and there is no end in sight.
        """
        crash = Crash.of(crash_after, crash_before, crashes)
        handle = task if isinstance(task, Handle) else self.start(task, *args, **kwargs)
        self._add_app(handle.app)
        if crash:
            self._crashes[handle.id] = crash
        self.call(self._work(handle.id))
        ran = self.call(self._ran(handle))
        if crash and crash.left == crashes:
            named = ", ".join(map(repr, sorted(crash.steps)))
            raise AssertionError(f"It never came to the step {named}. Done: {', '.join(ran.steps) or 'none'}.")
        return ran

    def drain(self, *, moving: bool = True) -> None:
        """Run everything until nothing is left to do. With `moving=False` the clock stands still: only what is due."""
        self.call(self._work(None, moving=moving))

    def declare(self, app: Holdfast) -> None:
        """Declare what an application has, as its first use does: from here on its schedules start what falls due.

        The clock is not moved to their times; `holdfast.clock.advance(days=1)` and `holdfast.drain()` run them.
        """
        self._add_app(app)
        self.call(app.declare(self.store))

    def answer(self, task: Handle[Any], answer: Any = APPROVED, *, step: str | None = None) -> None:
        """Answer what a task asks; of several questions, the one named. It goes on with the next `run` or `drain`."""
        self.call(Questions.over(self.store).answer(task.id, answer, step=step, by="test"))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns, for tests that are not async: `holdfast.call(holdfast.store.queues())`."""
        return self._loop.call(work)

    # Working

    async def _work(self, awaited: UUID | None, *, moving: bool = True) -> None:
        """Until this task has ended and nothing else is due; or until there is nothing more to do at all."""
        began = self.clock.now()
        running: dict[asyncio.Task[None], Lease] = {}
        pause, patient_until = first_pause_seconds, time.monotonic() + locked_at_most_seconds
        try:
            while True:
                await self._beat(running.values())
                await self.store.sweep()
                await tick(Schedules.over(self.store))
                contested = not running and self._is_written_to()
                if not contested:
                    patient_until = time.monotonic() + locked_at_most_seconds
                claimed = await self._claim(slots - len(running))
                for one in claimed:
                    running[asyncio.create_task(self._attempt(one))] = one
                ended: set[asyncio.Task[None]] = set()
                if running:
                    ended, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                for each in ended:
                    del running[each]
                    each.result()
                if ended or claimed:
                    pause = first_pause_seconds
                elif running and (pause < longest_pause_seconds or not self._is_awaited()):
                    pause = min(pause * 2, longest_pause_seconds)
                elif contested and time.monotonic() < patient_until:
                    await asyncio.sleep(pause)  # what is locked for a moment was passed over
                    pause = min(pause * 1.1, longest_pause_seconds)
                elif moving and not (awaited and await self.store.outcomes([awaited])) and self._move(began, running):
                    continue
                elif not running:
                    return
        finally:
            for one in running.values():
                self.interrupt(one.task_id, None)
            await asyncio.gather(*running, return_exceptions=True)

    async def _beat(self, leases: Iterable[Lease]) -> None:
        """Keep what is held, as the supervisor of a worker does."""
        held = list(leases)
        if not held:
            return
        beats = await self.store.heartbeat(held, lasting=lease)
        for one in held:
            if one.task_id not in beats:
                self.interrupt(one.task_id, None)
            elif beats[one.task_id].cancel_requested:
                self.interrupt(one.task_id, CANCELLED)

    async def _claim(self, n: int) -> list[Lease]:
        tasks = self._tasks()
        if not tasks or n < 1:
            return []
        queues = {queue for app in self._all_apps() for queue in app.queues}
        for queue in queues - self._queues:
            await self.store.make_queue(queue)
        self._queues = queues | {one.name for one in await self.store.queues()}
        return await self.store.claim(sorted(self._queues), n, lasting=lease, worker="test", names=list(tasks))

    async def _attempt(self, held: Lease) -> None:
        task, crash = self._tasks()[held.name], self._crashes.get(held.task_id)
        attempt = CrashingAttempt(held, task, self.backend, crash) if crash else Attempt(held, task, self.backend)
        self.attempts[held.task_id] = attempt
        try:
            outcome = await attempt.run()
        finally:
            del self.attempts[held.task_id]
        for _ in range(settles_at_most):
            if outcome is None:
                return
            outcome = await self._settle(held, outcome)

    def interrupt(self, task_id: UUID, outcome: Outcome | None) -> None:
        """Stop this one, if it runs."""
        if task_id in self.attempts:
            self.attempts[task_id].interrupt(outcome)

    async def _settle(self, held: Lease, outcome: Outcome) -> Outcome | None:
        """Settle; what to settle with instead, if that was refused."""
        try:
            if isinstance(outcome, Done) and outcome.outputs:
                (settled,) = await self.store.deliver(Completion(held, outcome))
            else:
                (settled,) = await self.store.settle((held, outcome))
        except HoldfastError as error:
            return replace_unsendable(error)
        return replace_refused(outcome, settled.status)

    def _move(self, began: datetime, running: dict[asyncio.Task[None], Lease]) -> bool:
        """Move the clock to when something can happen next; False if nothing will."""
        at = self.clock.next(one.task_id for one in running.values())
        if at is None:
            return False
        if at - began > longest:
            raise AssertionError(f"There is no end in sight: the next thing to happen is at {at}, more than a year on.")
        self.clock.set(at)
        return True

    # Applications

    def _add_app(self, app: Holdfast) -> None:
        self._apps[id(app)] = app

    def _all_apps(self) -> list[Holdfast]:
        """All applications of this process; those that this test uses come last, and so win where names clash."""
        others = sorted((app for app in list(APPS) if id(app) not in self._apps), key=lambda app: app.is_open)
        return [*others, *self._apps.values()]

    def _tasks(self) -> dict[str, Task[..., Any]]:
        return {name: task for app in self._all_apps() for name, task in app.tasks.items()}

    def _is_awaited(self) -> bool:
        return any(app.has_waiters for app in self._all_apps())

    def _is_written_to(self) -> bool:
        """Whether a statement runs in this database that is not ours: of an attempt that has just crashed, say."""
        return bool(
            self.database.ask_owner(
                "select exists (select from pg_stat_activity where datname = current_database() and state = 'active'"
                " and backend_type = 'client backend' and pid <> pg_backend_pid())"
            )
        )

    # Looking

    async def _ran(self, handle: Handle[R]) -> Ran[R]:
        read = await self.store.read(handle.id)
        step_events = await self.store.step_events(handle.id)
        ended = (await self.store.outcomes([handle.id])).get(handle.id)
        value, error = await self._value(handle, ended)
        return Ran(
            handle, read["state"], read["outcome"], read["attempt"],
            steps=[one.step for one in step_events if one.kind == "step_completed"],
            events=await self.store.events(handle.id),
            usage=[entry for one in step_events if one.kind in ("step_completed", "usage") for entry in one.data or []],
            error=error, value=value,
        )  # fmt: skip

    async def _value(self, handle: Handle[R], ended: Ended | None) -> tuple[Any, TaskError | None]:
        if ended is None:
            why = await self.store.explain(handle.id)
            return None, TaskError(f"Task {handle.id} has not ended. {why.sentence}", fix=why.fix)
        try:
            return handle.value(ended), None
        except (TaskFailed, TaskCancelled) as error:
            return None, error
