"""What an exception stands for: the outcome of whoever let it pass."""

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
    RateLimited,
    RequestInvalid,
)
from holdfast.execution.suspend import Leaving, Waiting

log = logging.getLogger("holdfast.task")

OURS = ("holdfast.sdk.", "holdfast.engine.", "holdfast.execution.")

Errors = Mapping[type[Exception], type[Failure]]


def outcome_of(
    error: BaseException,
    errors: Errors,
    step_of: Callable[[BaseException], str | None],
    named: Mapping[str, object],
) -> Outcome | None:
    """What kind of failure an exception is: as it says, as `errors` maps it, else a surprise, which is logged.

    None if it tells that the lease is lost. `step_of` says in which step it arose, `named` whom the log names.
    """
    while isinstance(error, BaseExceptionGroup):  # what several things at once raised: the first one counts
        error = error.exceptions[0]
    if isinstance(error, LeaseLost):
        return None
    if isinstance(error, Leaving | Waiting):
        return error.outcome
    step = step_of(error)
    if not isinstance(error, Failure):
        for kind, failure in errors.items():
            if isinstance(error, kind):
                error = failure(said(error) or type(error).__name__, code=type(error).__name__)
                break
    if isinstance(error, Failure):
        return categorized(error, step)
    if isinstance(error, RequestInvalid):
        return Failed("SchemaInvalid", str(error), code=type(error).__name__, step=step)
    if isinstance(error, DatabaseError):
        return Failed("Transient", str(error), code=type(error).__name__, step=step)
    log.warning("task raised", exc_info=(type(error), error, of_handler(error)), extra=dict(named))
    name = type(error).__name__
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({where[-1].filename}:{where[-1].lineno})" if where and not isinstance(error, HoldfastError) else ""
    message = said(error)
    return Failed(None, f"{name}: {message}{place}" if message else f"{name}{place}", code=name, step=step)


def categorized(error: Failure, step: str | None) -> Failed:
    """A failure that says what it is. One whose `retry_after` is no duration is a mistake in the handler."""
    try:
        after = None if error.retry_after is None else parse_duration(error.retry_after)
    except RequestInvalid as wrong:
        message = f"{type(error).__name__}(retry_after=...): {wrong.detail} {wrong.fix} It said: {error.message}"
        return Failed("SchemaInvalid", message, code=type(wrong).__name__, step=step)
    failed = Failed(error.category, error.message, error.code, step, retry_after=after)
    if isinstance(error, RateLimited):
        return replace(failed, retry_at=error.retry_at, budget=error.budget)
    return failed


def of_handler(error: BaseException) -> TracebackType | None:
    """Where an error comes from, without the way to the handler, which is ours and the same each time."""
    at = error.__traceback__
    while at and str(at.tb_frame.f_globals.get("__name__")).startswith(OURS):
        at = at.tb_next
    return at or error.__traceback__


def said(error: BaseException) -> str:
    """The message of an exception, even of one that cannot tell it."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be read"
