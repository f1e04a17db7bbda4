"""One attempt of one handler, as a straight line: read the payload, call the handler, make an outcome of the result.

Workers and the testing engine run handlers here and nowhere else. Nothing is settled here: the outcome goes to the
holder of the lease, and None stands for a lease that is lost, about which there is nothing more to say.

The attempt that code belongs to is found in the context (`ATTEMPT`). Threads that a handler starts itself have another
context; `ATTEMPT_THREADS` tells them from those in which attempts run.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from holdfast.engine import values
from holdfast.engine.backend import WorkerBackend
from holdfast.engine.store.calls import patiently
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import (
    Cancelled,
    Checkpoint,
    Checkpointed,
    Done,
    Failed,
    Json,
    Later,
    Lease,
    Moved,
    Outcome,
    Output,
    Partial,
)
from holdfast.errors import Failure, HoldfastError, LeaseLost, StepInvalid
from holdfast.execution.classify import Errors, classify
from holdfast.execution.suspend import CANCELLED
from holdfast.execution.threads import call_function
from holdfast.execution.tracing import record_outcome, trace_attempt
from holdfast.settings import Settings

T = TypeVar("T")

log = logging.getLogger("holdfast.task")

longest_name = 200
longest_logged = 300
answer_within_seconds = 2.0
idle_rounds = 5  # of the loop: what follows a step begins within these


class Handler(Protocol):
    """What an attempt runs: a task of an application."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def timeout(self) -> timedelta | None: ...
    @property
    def errors(self) -> Errors: ...
    @property
    def returns(self) -> object: ...
    @property
    def settings(self) -> Settings: ...
    def arguments(self, payload: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call that a payload stands for. Raises ValidationError."""


@dataclass(frozen=True)
class Wait:
    """A step that a person answers, until when, and the question."""

    step: str
    until: datetime
    about: str


class Attempt:
    """One run of one handler under one lease: what it has done, spent and reported."""

    def __init__(
        self,
        lease: Lease,
        handler: Handler,
        backend: WorkerBackend,
        *,
        send_checkpoint: Callable[[Checkpoint], Coroutine[Any, Any, Checkpointed]] | None = None,
        on_progress: Callable[[Lease, Json], None] | None = None,
    ) -> None:
        """send_checkpoint: instead of the backend's, one that sends those of many attempts together."""
        self.lease = lease
        self.handler = handler
        self.backend = backend
        self.loop = asyncio.get_running_loop()
        self.state = lease.state
        self.cancelled = False
        self.blamed: list[tuple[BaseException, str]] = []
        self.usage: list[Json] = []
        """What was spent outside of steps, and in steps that failed."""
        self.outputs: list[Output] = []
        self.part: tuple[int, int] | None = None
        """Which of how many parts it is at, if it has some that are alike: progress is then that of the part."""
        self.waits: list[Wait] = []
        """What it has asked people and has no answer to."""
        self._send_checkpoint = send_checkpoint or self._send_alone
        self._on_progress = on_progress
        self._at: asyncio.Task[Any] | None = None
        self._interrupted: Outcome | None = None
        self._unawaited: dict[object, tuple[str, Coroutine[Any, Any, Any]]] = {}
        self._busy: set[object] = set()
        self._idle_events: list[asyncio.Event] = []
        self._progress: dict[str, Json] = {}
        self._started: set[str] = set()
        self._steps: asyncio.Future[dict[str, Json]] | None = None

    @property
    def settings(self) -> Settings:
        """Those of the application that the task belongs to."""
        return self.handler.settings

    @property
    def is_lost(self) -> bool:
        """Whether it was stopped because its lease is lost."""
        return self.cancelled and self._interrupted is None

    # From the lease to the outcome

    async def run(self, *, traced: bool = True) -> Outcome | None:
        """The outcome, to be settled; None if the lease is lost. The handler runs in the asyncio task that calls."""
        try:
            if traced or self.lease.trace:
                with trace_attempt(self.lease) as span:
                    outcome = await self._run_interruptibly()
                    record_outcome(span, outcome)
            else:
                outcome = await self._run_interruptibly()
            return await self._record_usage(outcome)
        except Exception as error:  # a fault of ours: the task must end all the same
            log.exception("an attempt broke", extra={"task_id": str(self.lease.task_id)})
            return Failed(None, f"{type(error).__name__}: {error}")

    def interrupt(self, outcome: Outcome | None) -> None:
        """Raise CancelledError in the handler. Unless it ends otherwise, this is its outcome. The first one counts."""
        if self.cancelled:
            return
        self.cancelled, self._interrupted = True, outcome
        if self._at:
            self._at.cancel()

    async def _run_interruptibly(self) -> Outcome | None:
        if self.cancelled:
            return self._interrupted
        at = asyncio.current_task()
        assert at is not None  # noqa: S101
        self._at = at
        token = ATTEMPT.set(self)
        try:
            with AttemptThread():
                outcome = await self._run_within(self.handler.timeout)
        except asyncio.CancelledError as error:
            outcome = self._interrupted
            if not self.cancelled:
                step = self._step_of(error)
                outcome = Failed(None, "The handler cancelled itself.", code="CancelledError", step=step)
        finally:
            self._at = None
            ATTEMPT.reset(token)
        if at.cancelling():
            await clear_cancellation(at)
        if isinstance(outcome, Failed) and outcome.category is not None:
            log.warning("task failed", extra=self._log_fields(outcome))
        return outcome

    async def _run_within(self, limit: timedelta | None) -> Outcome | None:
        if limit is None:
            return await self._run_handler()
        try:
            async with asyncio.timeout(limit.total_seconds()):
                return await self._run_handler()
        except TimeoutError:  # ours: those of the handler have become outcomes
            return Failed("Transient", f"It ran for longer than {limit}.", code="timeout")

    async def _run_handler(self) -> Outcome | None:
        handler = self.handler
        try:
            try:
                arguments = handler.arguments(self.lease.payload)
            except ValidationError as error:
                return Failed("SchemaInvalid", f"The payload does not fit {handler.name}: {values.describe(error)}")
            value = await call_function(handler.function, *arguments)
            unawaited = self.close_unawaited()
            match value:
                case Failure():
                    raise value
                case _ if unawaited is not None:
                    raise StepInvalid(f"Step {unawaited!r} was called and never awaited.", fix="Write await step(...).")
                case Partial() | Moved() | Later() | Failed() | Cancelled():
                    return value
                case Done(result, outputs):
                    return Done(self._result(result), (*self.outputs, *outputs))
                case _:
                    return Done(self._result(value), tuple(self.outputs))
        except asyncio.CancelledError:
            raise
        except LeaseLost:
            return None
        except BaseException as error:  # whatever it was, the attempt has ended and must be settled
            return classify(error, handler.errors, self._step_of, self._log_fields())
        finally:
            self.close_unawaited()

    def _result(self, value: object) -> Json:
        return values.fit(self.handler.name, value, self.handler.returns)

    async def _record_usage(self, outcome: Outcome | None) -> Outcome | None:
        """What was spent outside of steps, or in steps that failed, is written down before the end."""
        if outcome is None or not self.usage:
            return outcome
        try:
            await self.record("usage", None, self.usage)
        except LeaseLost:
            return None
        except HoldfastError as error:
            log.warning("usage not kept", extra={"task_id": str(self.lease.task_id), "error": str(error)})
        return outcome

    def _log_fields(self, failed: Failed | None = None) -> dict[str, object]:
        """What a line in the log says of this attempt, and of the failure that it names itself."""
        fields = {"task": self.handler.name, "task_id": str(self.lease.task_id), "attempt": self.lease.attempt}
        if failed is None:
            return fields
        failure = {"category": failed.category, "code": failed.code, "step": failed.step}
        return {**fields, **failure, "error": failed.message[:longest_logged]}

    def _step_of(self, error: BaseException | None) -> str | None:
        """The step in which an error arose, looking through what was raised from it."""
        seen = 0
        while error is not None and seen < 20:
            for known, step in self.blamed:
                if known is error:
                    return step
            error, seen = error.__cause__ or error.__context__, seen + 1
        return None

    # Steps

    async def find_step(self, name: str) -> tuple[bool, Json]:
        """Whether this step is done already, and its result. Raises StepInvalid for a name that cannot be used."""
        if not 1 <= len(name) <= longest_name:
            raise StepInvalid(f"A step's name has 1 to {longest_name} characters.", fix="Give it a short name.")
        if name in self._started:
            raise StepInvalid(
                f"{name!r} was run twice in one attempt, so its result would stand for two things.",
                fix="Name each step, or run one over many items with step.map.",
            )
        self._started.add(name)
        if not self.lease.resumed:
            return False, None
        if self._steps is None:
            self._steps = asyncio.ensure_future(self.read_steps())
        done = await asyncio.shield(self._steps)
        return name in done, done.get(name)

    async def read_steps(self) -> dict[str, Json]:
        """The results of the steps that are done, however long the database is away."""
        steps = await patiently(lambda: self.backend.held_steps(self.lease))
        return {one.name: one.result for one in steps if one.done}

    async def save_step(self, name: str, value: Json, usage: list[Json], to: str | None = None) -> Json:
        """Write a step's result down, and move on to a state; what counts is what the first to write it has written.

        If the attempt is stopped meanwhile, this waits for the answer: what is kept with the step must not be reported
        a second time. An attempt that has lost its lease reports nothing more, and does not wait.
        """
        saving = asyncio.ensure_future(self.checkpoint(Checkpoint(self.lease, name, value, to, list(usage) or None)))
        try:
            saved = await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait([saving], timeout=0 if self.is_lost else answer_within_seconds)
            if saving.cancel() or saving.exception():
                raise
            usage.clear()
            raise
        self.state = to or self.state
        return saved.result

    async def checkpoint(self, checkpoint: Checkpoint) -> Checkpointed:
        """Send a checkpoint of this attempt. Raises LeaseLost."""
        saved = await self._send_checkpoint(checkpoint)
        refuse(saved.status, self.lease, "a checkpoint")
        if saved.cancel_requested:
            self.interrupt(CANCELLED)
        return saved

    async def _send_alone(self, checkpoint: Checkpoint) -> Checkpointed:
        return (await self.backend.checkpoint(checkpoint))[0]

    async def record(self, kind: str, step: str | None, data: Json) -> None:
        """Write down what happened. Raises LeaseLost."""
        await self.backend.record(self.lease, kind, step, data)

    @contextlib.contextmanager
    def track_step(self, name: str) -> Iterator[list[Json]]:
        """While a step runs: what is spent in it. If it fails it is to blame, and what it spent is spent."""
        self.report_progress(step=name)
        usage: list[Json] = []
        token = STEP_USAGE.set(usage)
        try:
            with self.mark_busy():
                yield usage
        except BaseException as error:
            self.blame(error, name)
            self.usage += usage
            raise
        finally:
            STEP_USAGE.reset(token)

    def blame(self, error: BaseException, step: str) -> None:
        """Remember in which step an error arose: failures are counted for each step by itself."""
        if not any(known is error for known, _ in self.blamed):
            self.blamed.append((error, step))

    def track_await(
        self, name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any
    ) -> Coroutine[Any, Any, T]:
        """The coroutine of this call. It is noticed if the handler never awaits it."""
        key = object()

        async def run() -> T:
            self._unawaited.pop(key, None)
            return await function(*args)

        work = run()
        self._unawaited[key] = name, work
        return work

    def close_unawaited(self) -> str | None:
        """The first step that was called and never awaited, now that the handler has returned. It runs no more."""
        left, self._unawaited = list(self._unawaited.values()), {}
        tasks = {task.get_coro(): task for task in asyncio.all_tasks()} if left else {}
        for _, run in left:
            if run in tasks:  # created, and not waited for
                tasks[run].cancel()
            else:
                run.close()
        return left[0][0] if left else None

    # What else goes on around the handler

    def is_in_loop(self) -> bool:
        """Whether the code that asks runs in the loop of this attempt, and not in the thread of a plain handler."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def call_from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, run in the loop of this attempt while the thread of a plain handler waits."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except concurrent.futures.CancelledError as error:  # of another family, which `except Exception` catches
            raise asyncio.CancelledError from error

    @contextlib.contextmanager
    def mark_busy(self) -> Iterator[None]:
        """While something is under way that is to be finished before the handler is suspended."""
        work = object()
        self._busy.add(work)
        try:
            yield
        finally:
            self._busy.discard(work)
            for event in self._idle_events:
                self.loop.call_soon_threadsafe(event.set)

    async def wait_until_idle(self) -> None:
        """Return once nothing is under way, also nothing of what that has led to."""
        changed = asyncio.Event()
        self._idle_events.append(changed)
        try:
            rounds = 0
            while rounds < idle_rounds:
                if self._busy:
                    changed.clear()
                    await changed.wait()
                    rounds = 0
                else:
                    await asyncio.sleep(0)
                    rounds += 1
        finally:
            self._idle_events.remove(changed)

    def report_progress(self, **progress: Json) -> None:
        self._progress = {**self._progress, **progress}
        if self._on_progress:
            self._on_progress(self.lease, self._progress)


async def clear_cancellation(at: asyncio.Task[Any]) -> None:
    """A cancellation that the handler was meant to feel ends with it, also one that it has not felt yet."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while at.cancelling():
        at.uncancel()


ATTEMPT: ContextVar[Attempt | None] = ContextVar("holdfast_attempt", default=None)
STEP_USAGE: ContextVar[list[Json] | None] = ContextVar("holdfast_step_usage", default=None)
"""What the step that runs has spent; None outside of steps."""
ATTEMPT_THREADS: Counter[int] = Counter()
"""The threads whose loops run attempts, with how many."""


class AttemptThread:
    """Held while an attempt runs in this thread's loop. Threads that a handler starts itself are then known as such."""

    def __enter__(self) -> None:
        ATTEMPT_THREADS[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        here = threading.get_ident()
        ATTEMPT_THREADS[here] -= 1
        if not ATTEMPT_THREADS[here]:
            del ATTEMPT_THREADS[here]
