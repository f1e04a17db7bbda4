"""One attempt, as a straight line: read the payload, call the handler, make an outcome of what came of it.

Nothing is written here. The outcome goes to whoever holds the lease; None stands for a lease that is lost, about which
there is nothing more to say.
"""

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from holdfast.engine import values
from holdfast.engine.task import Cancelled, Done, Failed, Later, Moved, Outcome, Partial
from holdfast.errors import Failure, LeaseLost, OutputRefused, RequestInvalid, StepInvalid
from holdfast.execution.attempt import ATTEMPT, Attempt, under_way
from holdfast.execution.classify import outcome_of
from holdfast.execution.context import called
from holdfast.sdk.task import Task

log = logging.getLogger("holdfast.task")
OWN_OUTCOMES = (Partial, Moved, Later, Failed, Cancelled)
longest_logged = 300


class Run:
    """An attempt under way. It can be interrupted, with the outcome that it then has."""

    def __init__(self, task: Task[..., object], attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        self.lease = attempt.lease
        attempt.errors = task.errors
        attempt.settings = lambda: task.app.settings
        self._at: asyncio.Task[Any] | None = None
        self._interrupted: Outcome | None = None
        self._is_interrupted = False

    def interrupt(self, outcome: Outcome | None) -> None:
        """Raise CancelledError in the handler. Unless it ends otherwise, this is its outcome. The first one counts."""
        if self._is_interrupted:
            return
        self._is_interrupted, self._interrupted = True, outcome
        self.attempt.cancelled, self.attempt.lost = True, outcome is None
        if self._at:
            self._at.cancel()

    async def __call__(self, at: asyncio.Task[Any]) -> Outcome | None:
        """The outcome of this attempt; None if its lease is lost. The handler runs in the asyncio task that calls."""
        if self._is_interrupted:
            return self._interrupted
        self._at = at
        token = ATTEMPT.set(self.attempt)
        try:
            with under_way:
                outcome = await (self._called() if self.task.timeout is None else self._within(self.task.timeout))
        except asyncio.CancelledError as error:
            outcome = self._interrupted
            if not self._is_interrupted:
                outcome = Failed(None, "The handler cancelled itself.", code="CancelledError", step=self._step(error))
        finally:
            self._at = None
            ATTEMPT.reset(token)
        if at.cancelling():
            await calm(at)
        if isinstance(outcome, Failed) and outcome.category is not None:
            log.warning("task failed", extra=self._named(outcome))
        return outcome

    async def _within(self, limit: timedelta) -> Outcome | None:
        try:
            async with asyncio.timeout(limit.total_seconds()):
                return await self._called()
        except TimeoutError:  # ours: those of the handler have become outcomes
            return Failed("Transient", f"It ran for longer than {limit}.", code="timeout")

    async def _called(self) -> Outcome | None:
        try:
            try:
                arguments = self.task.arguments(self.lease.payload)
            except ValidationError as error:
                return Failed("SchemaInvalid", f"The payload does not fit {self.task.name}: {values.described(error)}")
            value = await called(self.task.function, *arguments)
            if isinstance(value, Failure):
                raise value
            forgotten = self.attempt.forgotten()
            if forgotten is not None:
                raise StepInvalid(f"Step {forgotten!r} was called and never awaited.", fix="Write await step(...).")
            if isinstance(value, OWN_OUTCOMES):
                return value
            result, outputs = (value.result, value.outputs) if isinstance(value, Done) else (value, ())
            kept = values.fitting(self.task.name, result, self.task.returns)
            return Done(kept, (*self.attempt.outputs, *outputs))
        except asyncio.CancelledError:
            raise
        except LeaseLost:
            return None
        except BaseException as error:  # whatever it was, the attempt has ended and must be settled
            return self._failed(error)
        finally:
            self.attempt.forgotten()

    def _failed(self, error: BaseException) -> Outcome | None:
        return outcome_of(error, self.task.errors, self._step, self._named())

    def _named(self, failed: Failed | None = None) -> dict[str, object]:
        """What a line in the log tells of this attempt, and of the failure that it names itself."""
        named = {"task": self.task.name, "task_id": str(self.lease.task_id), "attempt": self.lease.attempt}
        if failed is None:
            return named
        told = {"category": failed.category, "code": failed.code, "step": failed.step}
        return {**named, **told, "error": failed.message[:longest_logged]}

    def _step(self, error: BaseException | None) -> str | None:
        """The step in which an error arose, looking through what was raised from it."""
        seen = 0
        while error is not None and seen < 20:
            for known, step in self.attempt.blamed:
                if known is error:
                    return step
            error, seen = error.__cause__ or error.__context__, seen + 1
        return None


async def calm(at: asyncio.Task[Any]) -> None:
    """A cancellation that the handler was meant to feel ends with it, also one that it has not felt yet."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while at.cancelling():
        at.uncancel()


def instead(outcome: Outcome, status: str) -> Failed | None:
    """What to settle a task with whose outcome its lifecycle refused; None if there is nothing better."""
    if status not in ("undeclared", "unknown_state", "refused") or isinstance(outcome, Failed):
        return None
    return Failed("Fatal", f"Its lifecycle refused the outcome {type(outcome).__name__} ({status}).", code="refused")


def unsettled(error: Exception) -> Failed:
    """What to settle a task with whose outcome could not be sent."""
    if isinstance(error, OutputRefused):
        return Failed("Fatal", f"{error}", code=error.http_code)
    if isinstance(error, RequestInvalid):
        return Failed("SchemaInvalid", f"Its result cannot be kept: {error}", code=type(error).__name__)
    return Failed(None, f"Its result could not be settled: {error}")


CANCELLED = Cancelled()
RELEASED = Later(kind="released")
