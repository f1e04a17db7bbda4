"""How an item goes from step to step: what is done is not done again, and what fails has a category.

`run_step` is `step` with four things more: it moves the item to the state of the same name, it writes down when a step
begins, it takes envelopes and exceptions of others for the categories they stand for, and it asks whether the run may
still spend. A step that runs elsewhere answers in an envelope:

{"status": "ok", "result": ..., "model": "tiny-embed", "tokens_in": 120, "tokens_out": 0, "cost_cents": 0.02}
{"status": "error", "error_kind": "RateLimited", "message": "Too many requests.", "retry_after": 30}
"""

import asyncio
import json
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from decimal import Decimal
from typing import Any, Literal, NotRequired, ParamSpec, TypedDict, TypeVar, cast, overload

from pydantic import ValidationError

from holdfast.durations import parse_duration
from holdfast.engine.task import Checkpoint, Moved
from holdfast.errors import (
    DatabaseError,
    Failure,
    Fatal,
    ObjectMissing,
    ObjectsUnreachable,
    RateLimited,
    RequestInvalid,
    SchemaInvalid,
    StepInvalid,
    Transient,
)
from holdfast.execution.attempt import ATTEMPT, Attempt
from holdfast.execution.context import decode_result, encode_result, find_attempt, get_service, usage
from holdfast.execution.suspend import Suspend
from holdfast.execution.threads import call_function
from holdfast.lifecycles.ingest.declaration import INGEST_ITEM, MOVES
from holdfast.lifecycles.ingest.store import Library
from holdfast.remote.http_errors import failure_for

Kind = Literal["", "RateLimited", "Transient", "SchemaInvalid", "Fatal"]
Mapped = Mapping[type[Exception], type[Failure]]


class Envelope(TypedDict):
    """What came of a step: `error_kind` is empty if it went well. Only `status` must be there."""

    status: Literal["ok", "error"]
    error_kind: NotRequired[Kind]
    result: NotRequired[Any]
    model: NotRequired[str | None]
    tokens_in: NotRequired[int]
    tokens_out: NotRequired[int]
    cost_cents: NotRequired[float | Decimal | None]
    message: NotRequired[str]
    code: NotRequired[str | None]
    retry_after: NotRequired[float | None]


FIELDS = frozenset(Envelope.__annotations__)
KINDS: dict[str, type[Failure]] = {
    "RateLimited": RateLimited, "Transient": Transient, "SchemaInvalid": SchemaInvalid, "Fatal": Fatal,
}  # fmt: skip

# The first that fits counts. What fits none has no category: it is tried again, a few times.
MAPPED: Mapped = {
    ObjectMissing: Fatal,
    ObjectsUnreachable: Transient,
    DatabaseError: Transient,
    RequestInvalid: SchemaInvalid,
    TimeoutError: Transient,
    ConnectionError: Transient,
    FileNotFoundError: Fatal,
    PermissionError: Fatal,
    IsADirectoryError: Fatal,
    json.JSONDecodeError: SchemaInvalid,
    UnicodeError: SchemaInvalid,
    ValidationError: SchemaInvalid,
    # A bug stays a bug, however often it runs.
    AssertionError: Fatal,
    AttributeError: Fatal,
    ImportError: Fatal,
    NameError: Fatal,
    NotImplementedError: Fatal,
    TypeError: Fatal,
}


# By name, so that neither library is imported for it: a handler may use httpx, httpx2, or none of them.
OF_HTTPX: Mapping[str, type[Failure]] = {
    "InvalidURL": SchemaInvalid,
    "UnsupportedProtocol": SchemaInvalid,
    "TransportError": Transient,
}
REFUSED = "HTTPStatusError"


def result_from_exception(error: Exception, mapped: Mapped | None = None) -> Envelope:
    """The envelope of a step that raised: its category, by your own mapping first, then by ours.

    One that neither maps is Transient here; run by the engine, it is tried again three times at most.
    """
    failure = failure_from(error, mapped) or Transient(describe(error), code=type(error).__name__)
    envelope = Envelope(status="error", error_kind=failure.category or "Transient", message=failure.message)
    envelope["code"] = failure.code
    if failure.retry_after is not None:
        envelope["retry_after"] = parse_duration(failure.retry_after).total_seconds()
    return envelope


def failure_from(error: Exception, mapped: Mapped | None = None) -> Failure | None:
    """The failure that an exception stands for, by your own mapping first; None if it stands in none."""
    if isinstance(error, Failure):
        return error
    kinds = type(error).__mro__  # the nearest first
    names = [kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] in ("httpx", "httpx2")]
    found = next((failure for kind, failure in (mapped or {}).items() if isinstance(error, kind)), None)
    if found is None and REFUSED in names:
        answer = cast(Any, error).response
        message = f"{answer.request.url.host} answered {answer.status_code} {answer.reason_phrase}".strip() + "."
        return failure_for(answer.status_code, message, answer.headers, code=f"http-{answer.status_code}")
    found = found or next((OF_HTTPX[name] for name in names if name in OF_HTTPX), None)
    found = found or next((failure for kind, failure in MAPPED.items() if isinstance(error, kind)), None)
    return found(describe(error), code=type(error).__name__) if found else None


def unwrap(value: Any) -> Any:
    """What a step gives: what is in its envelope, if it answers with one. Raises the failure that it reports.

    An envelope has a status, a result or a category, and no field of its own. What the step used is recorded first.
    """
    if not isinstance(value, Mapping) or value.get("status") not in ("ok", "error") or not value.keys() <= FIELDS:
        return value
    if "result" not in value and "error_kind" not in value:
        return value
    if value.get("model"):
        used = {name: value.get(name) or 0 for name in ("tokens_in", "tokens_out")}
        usage(str(value["model"]), **used, cost_cents=value.get("cost_cents"))
    kind = value.get("error_kind") or ""
    if value["status"] == "ok" and not kind:
        return value.get("result")
    message = str(value.get("message") or value.get("result") or "The step failed, and does not say why.")
    if kind not in KINDS:
        raise SchemaInvalid(f"{kind!r} is not a category. The step answered: {message}", code="envelope")
    raise KINDS[kind](message, code=value.get("code"), retry_after=value.get("retry_after"))


def describe(error: Exception) -> str:
    """An exception's name and message."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


P = ParamSpec("P")
R = TypeVar("R")

OVER_BUDGET = Moved("OVER_BUDGET", {"kind": "over_budget"})
BUDGETED: "weakref.WeakKeyDictionary[Attempt, bool]" = weakref.WeakKeyDictionary()


@overload
async def run_step(
    target: str, function: Callable[P, Envelope | Coroutine[Any, Any, Envelope]], /, *args: P.args, **kwargs: P.kwargs
) -> Any: ...


@overload
async def run_step(
    target: str, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
) -> R: ...


@overload
async def run_step(target: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


async def run_step(target: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run one step of an item and move it there; or, if that is done already, bring back what it gave.

    The function may return its result or an envelope, and may raise. Raises the category that this stands for, or
    what it raised if that is unknown; StepInvalid in a task that is not an item.
    """
    attempt = find_attempt(target, function)
    if attempt is None:
        return unwrap(await call_function(function, args, kwargs))
    check_place(attempt, target)
    known, result = await attempt.find_step(target)
    if known:
        await catch_up(attempt, target)
        return decode_result(target, function, result)
    await check_budget(attempt)
    await attempt.record("step_started", target, None)
    with attempt.track_step(target) as spent:
        try:
            value = unwrap(await call_function(function, args, kwargs))
        except Failure:
            raise
        except Exception as error:
            if failure := failure_from(error, attempt.handler.errors):
                raise failure from error
            raise
        state = target if is_ahead(attempt, target) else None
        kept = await attempt.save_step(target, encode_result(target, function, value), spent, to=state)
    return decode_result(target, function, kept)


@overload
async def run_parallel_steps(steps: Mapping[str, Callable[[], Any]], /) -> dict[str, Any]: ...


@overload
async def run_parallel_steps(*branches: Awaitable[Any]) -> list[Any]: ...


async def run_parallel_steps(*given: Any) -> Any:
    """Run steps at the same time, and go on when all are done.

    Either by name, as `{"CHUNKED": cut, "ENTITY_EXTRACTED": find}`, or whole branches: `run_step(...)` or any coroutine
    of yours that runs one after the other. Where some fail the others are brought to their end first, and kept; then
    the gravest failure is raised.
    """
    if len(given) == 1 and isinstance(given[0], Mapping):
        steps: Mapping[str, Callable[[], Any]] = given[0]
        results = await gather_all([run_step(name, function) for name, function in steps.items()])
        return dict(zip(steps, results, strict=True))
    return await gather_all(list(given))


async def skip_step(target: str, reason: str) -> None:
    """Pass a step over, and say why: it has nothing to do here. Nothing is kept, so a later attempt decides again."""
    attempt = ATTEMPT.get()
    if attempt is None:
        return
    check_place(attempt, target)
    await attempt.record("skipped", target, {"reason": reason})
    await catch_up(attempt, target)


def check_place(attempt: Attempt, target: str) -> None:
    """Raise StepInvalid for a step that is not run where steps of items are."""
    if attempt.lease.lifecycle != INGEST_ITEM.name:
        raise StepInvalid(
            f"{target!r}: this task is not an item of an ingestion ({attempt.lease.lifecycle}).",
            fix='Make it one: @hf.task(lifecycle="ingest_item"), or use step(...).',
        )
    if not attempt.is_in_loop():
        raise StepInvalid(f"{target!r}: this task is not async.", fix="Make it `async def`.")


async def catch_up(attempt: Attempt, target: str) -> None:
    """Move an item to a state whose step is done already: a retry begins with steps that another item has done."""
    if is_ahead(attempt, target):
        await attempt.checkpoint(Checkpoint(attempt.lease, to=target))
        attempt.state = target


def is_ahead(attempt: Attempt, target: str) -> bool:
    """Whether a step leads to a state that its item is not in yet: it may have been skipped, and be done after all."""
    return target in MOVES and attempt.state in MOVES and MOVES.index(attempt.state) < MOVES.index(target)


async def check_budget(attempt: Attempt) -> None:
    """Raise Suspend if the run of this item has spent its budget: its owner decides."""
    library = get_service(Library)
    if attempt not in BUDGETED:
        BUDGETED[attempt] = await library.has_budget(attempt.lease.task_id)
    if BUDGETED[attempt] and not await library.may_spend(attempt.lease.task_id):
        raise Suspend(OVER_BUDGET)


async def gather_all(branches: list[Awaitable[Any]]) -> list[Any]:
    results = await asyncio.gather(*branches, return_exceptions=True)
    failures = [one for one in results if isinstance(one, BaseException)]
    if failures:
        gravest = max(failures, key=gravity)
        await record_failures([one for one in failures if one is not gravest])
        raise gravest
    return cast(list[Any], results)


def gravity(error: BaseException) -> int:
    """How final a failure is: what ends an item goes before what only makes it wait."""
    if isinstance(error, (Fatal, SchemaInvalid)):
        return 4
    if isinstance(error, RateLimited):
        return 1
    return 0 if isinstance(error, Suspend) else 3


async def record_failures(others: list[BaseException]) -> None:
    """The gravest failure ends the attempt and is counted; of the others it is recorded that they happened."""
    attempt = ATTEMPT.get()
    for error, step in attempt.blamed if attempt else []:
        if attempt and isinstance(error, Failure) and any(error is one for one in others):
            data = {"category": error.category, "message": error.message, "code": error.code}
            await attempt.record("step_failed", step, data)
