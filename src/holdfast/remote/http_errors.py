"""Which category a refusal over HTTP belongs to: the one table of statuses, and messages that hold no secret.

A vendor whose codes mean something else says so in its own file.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.engine.task import Category
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.remote.retry_after import retry_wait

SPENT_UP = {
    "insufficient_quota",
    "insufficient_quota_error",
    "billing_hard_limit_reached",
    "enforced_spend_limit_reached",
}
"""Codes of a 429 that no waiting helps against: somebody has to pay."""
BY_STATUS: dict[int, Category] = {
    # The request itself is wrong, and stays wrong until somebody changes it.
    400: "SchemaInvalid", 413: "SchemaInvalid", 415: "SchemaInvalid", 422: "SchemaInvalid",
    # The server gave up waiting for the request, or does not want it this early.
    408: "Transient", 425: "Transient",
    # Something else holds what the request is about: a lock, a write at the same moment. That passes; the vendors' own
    # clients try again, too. Where it stays, a few tries end in the inbox.
    409: "Transient",
    # The only status that says "you ask too much" and that nothing was done. It costs no attempt.
    429: "RateLimited",
}  # fmt: skip
"""Of 500 and more each is Transient: the server failed, and may have done what was asked before it did.

So is 503 with Retry-After: the wait is kept to, but a proxy may send it after the request went through, and a caller
that must not ask twice has to look first. A server that always answers it is left after the usual number of tries. Any
other status is Fatal: no access, not there, not allowed.
"""
QUERY = re.compile(r"(https?://[^\s?#\"'<>]+)\?[^\s\"'<>]+")
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=*-]{6,}")
OPENAI_KEY = re.compile(r"\bsk-[\w*-]{6,}")
longest_reason = 300
shortest_secret = 4


def category_of(status: int, code: str | None = None) -> Category:
    """The category of an answer other than 2xx."""
    if status == 429 and code in SPENT_UP:
        return "Fatal"
    return BY_STATUS.get(status, "Transient" if status >= 500 else "Fatal")


def failure_for(
    status: int,
    message: str,
    headers: Mapping[str, str],
    body: Any = None,
    *,
    code: str | None = None,
    budget: str | None = None,
) -> Failure:
    """The failure that an answer is, with the wait it asks for. With a `budget`, everyone who shares it waits too."""
    match category_of(status, code):
        case "RateLimited":
            return RateLimited(message, code=code, retry_after=retry_wait(headers, body), budget=budget)
        case "Transient":
            return Transient(message, code=code, retry_after=retry_wait(headers, body))
        case "SchemaInvalid":
            return SchemaInvalid(message, code=code)
        case "Fatal":
            return Fatal(message, code=code)


def refusal(
    who: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str | None] = (),
    budget: str | None = None,
) -> Failure:
    """The failure that this answer of `who` is, with what its body says of it."""
    answer = as_json(body)
    code, reason = error_in(answer, body.decode(errors="replace"))
    reason = redact(reason, secrets)[:longest_reason]  # cut only now: half a secret would not be recognized
    message = redact(f"{who} answers {status}: {reason}" if reason else f"{who} answers {status}.", secrets)
    return failure_for(status, message, headers, answer, code=code, budget=budget)


def error_in(answer: Any, text: str = "") -> tuple[str | None, str]:
    """The code and the message of a refusal, as the vendors write them: within `error`, or at the top."""
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        error = {"message": error or text}
    named = (error.get(name) for name in ("code", "status", "type"))
    code = next((name for name in named if isinstance(name, str) and name), None)
    message = str(error.get("message") or error.get("detail") or "")
    return code, "an HTML page" if message.lstrip().startswith("<") else " ".join(message.split())


def redact(text: str, secrets: Iterable[str | None] = ()) -> str:
    """The text without these secrets, and without what a link is signed with."""
    for secret in sorted((one for one in secrets if one and len(one) >= shortest_secret), key=len, reverse=True):
        text = text.replace(secret, "***")
    text = QUERY.sub(r"\1?***", text)
    return OPENAI_KEY.sub("***", BEARER.sub(r"\1 ***", text))


def as_json(body: bytes | str) -> Any:
    """The body's JSON; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
