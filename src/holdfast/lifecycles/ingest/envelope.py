"""Envelopes: how a step that runs elsewhere tells what came of it, and which category an exception stands for.

{"status": "ok", "result": ..., "model": "tiny-embed", "tokens_in": 120, "tokens_out": 0, "cost_cents": 0.02}
{"status": "error", "error_kind": "RateLimited", "message": "Too many requests.", "retry_after": 30}
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

import httpx
from pydantic import ValidationError

from holdfast.durations import parse_duration
from holdfast.errors import (
    DatabaseError,
    Failure,
    Fatal,
    ObjectMissing,
    ObjectsUnreachable,
    RateLimited,
    RequestInvalid,
    SchemaInvalid,
    Transient,
)
from holdfast.execution.context import usage
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

# The first that fits counts. What fits none is nobody's category: it is tried again, a few times.
MAPPED: Mapped = {
    httpx.TimeoutException: Transient,
    httpx.InvalidURL: SchemaInvalid,
    httpx.UnsupportedProtocol: SchemaInvalid,
    httpx.TransportError: Transient,
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


def result_from_exception(error: Exception, mapped: Mapped | None = None) -> Envelope:
    """The envelope of a step that raised: its category, by your own mapping first, then by ours.

    One that nobody has mapped is Transient here; run by the engine, it is tried again three times at most.
    """
    failure = failure_from(error, mapped) or Transient(said(error), code=type(error).__name__)
    envelope = Envelope(status="error", error_kind=failure.category or "Transient", message=failure.message)
    envelope["code"] = failure.code
    if failure.retry_after is not None:
        envelope["retry_after"] = parse_duration(failure.retry_after).total_seconds()
    return envelope


def failure_from(error: Exception, mapped: Mapped | None = None) -> Failure | None:
    """The failure that an exception stands for; None if nobody knows."""
    if isinstance(error, Failure):
        return error
    for kind, failure in (mapped or {}).items():
        if isinstance(error, kind):
            return failure(said(error), code=type(error).__name__)
    if isinstance(error, httpx.HTTPStatusError):
        return from_answer(error.response)
    for kind, failure in MAPPED.items():
        if isinstance(error, kind):
            return failure(said(error), code=type(error).__name__)
    return None


def from_answer(answer: httpx.Response) -> Failure:
    """The failure that a server's refusal is."""
    message = f"{answer.request.url.host} answered {answer.status_code} {answer.reason_phrase}".strip() + "."
    return failure_for(answer.status_code, message, answer.headers, code=f"http-{answer.status_code}")


def is_envelope(value: object) -> bool:
    """Whether a step has answered with an envelope: a status, a result or a category, and no field of its own."""
    return (
        isinstance(value, Mapping)
        and value.get("status") in ("ok", "error")
        and ("result" in value or "error_kind" in value)
        and value.keys() <= FIELDS
    )


def opened(envelope: Mapping[str, Any]) -> Any:
    """What is in an envelope; what it used is written down first. Raises the failure that it tells of."""
    if envelope.get("model"):
        cost = envelope.get("cost_cents")
        used = {name: envelope.get(name) or 0 for name in ("tokens_in", "tokens_out")}
        usage(str(envelope["model"]), **used, cost_cents=cost)
    kind = envelope.get("error_kind") or ""
    if envelope["status"] == "ok" and not kind:
        return envelope.get("result")
    failure = KINDS.get(kind)
    message = str(envelope.get("message") or envelope.get("result") or "The step says that it failed, and not why.")
    if failure is None:
        raise SchemaInvalid(f"{kind!r} is no category. It said: {message}", code="envelope")
    raise failure(message, code=envelope.get("code"), retry_after=envelope.get("retry_after"))


def said(error: Exception) -> str:
    """An exception's message, with its name where that says more."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
