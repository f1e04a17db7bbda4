"""Exceptions to outcomes: how an attempt ends in which this was raised, or whose outcome was refused."""

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType

from holdfast.durations import parse_duration
from holdfast.engine.task import Failed, Outcome
from holdfast.errors import (
    DatabaseError,
    Failure,
    HoldfastError,
    LeaseLost,
    OutputRefused,
    RateLimited,
    RequestInvalid,
)
from holdfast.execution.suspend import SuspendHandler

log = logging.getLogger("holdfast.task")

OURS = ("holdfast.sdk.", "holdfast.engine.", "holdfast.execution.")

Errors = Mapping[type[Exception], type[Failure]]


def classify(
    error: BaseException,
    errors: Errors,
    step_of: Callable[[BaseException], str | None],
    log_fields: Mapping[str, object],
) -> Outcome | None:
    """What kind of failure an exception is: its own, what `errors` maps it to, else a surprise, which is logged.

    None if the lease is lost. `step_of` finds the step in which it arose.
    """
    while isinstance(error, BaseExceptionGroup):  # what several things at once raised: the first one counts
        error = error.exceptions[0]
    if isinstance(error, LeaseLost):
        return None
    if isinstance(error, SuspendHandler):
        return error.outcome
    step = step_of(error)
    if not isinstance(error, Failure):
        for kind, failure in errors.items():
            if isinstance(error, kind):
                error = failure(message_of(error) or type(error).__name__, code=type(error).__name__)
                break
    if isinstance(error, Failure):
        return failed_as(error, step)
    if isinstance(error, RequestInvalid):
        return Failed("SchemaInvalid", str(error), code=type(error).__name__, step=step)
    if isinstance(error, DatabaseError):
        return Failed("Transient", str(error), code=type(error).__name__, step=step)
    log.warning("task raised", exc_info=(type(error), error, handler_frames(error)), extra=dict(log_fields))
    name = type(error).__name__
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({where[-1].filename}:{where[-1].lineno})" if where and not isinstance(error, HoldfastError) else ""
    message = message_of(error)
    return Failed(None, f"{name}: {message}{place}" if message else f"{name}{place}", code=name, step=step)


def failed_as(error: Failure, step: str | None) -> Failed:
    """A failure with a category of its own. A `retry_after` that is not a duration is a mistake in the handler."""
    try:
        after = None if error.retry_after is None else parse_duration(error.retry_after)
    except RequestInvalid as wrong:
        message = f"{type(error).__name__}(retry_after=...): {wrong.detail} {wrong.fix} Its message: {error.message}"
        return Failed("SchemaInvalid", message, code=type(wrong).__name__, step=step)
    failed = Failed(error.category, error.message, error.code, step, retry_after=after)
    if isinstance(error, RateLimited):
        return replace(failed, retry_at=error.retry_at, budget=error.budget)
    return failed


def handler_frames(error: BaseException) -> TracebackType | None:
    """Where an error comes from, without the way to the handler, which is ours and the same each time."""
    at = error.__traceback__
    while at and str(at.tb_frame.f_globals.get("__name__")).startswith(OURS):
        at = at.tb_next
    return at or error.__traceback__


def message_of(error: BaseException) -> str:
    """The message of an exception, even of one whose message cannot be read."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be read"


def replace_refused(outcome: Outcome, status: str) -> Failed | None:
    """What to settle a task with whose outcome its lifecycle refused; None if there is nothing better."""
    if status not in ("undeclared", "unknown_state", "refused") or isinstance(outcome, Failed):
        return None
    return Failed("Fatal", f"Its lifecycle refused the outcome {type(outcome).__name__} ({status}).", code="refused")


def replace_unsendable(error: Exception) -> Failed:
    """What to settle a task with whose outcome could not be sent."""
    if isinstance(error, OutputRefused):
        return Failed("Fatal", f"{error}", code=error.http_code)
    if isinstance(error, RequestInvalid):
        return Failed("SchemaInvalid", f"Its result cannot be kept: {error}", code=type(error).__name__)
    return Failed(None, f"Its result could not be settled: {error}")
