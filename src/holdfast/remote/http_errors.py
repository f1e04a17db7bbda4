"""What a refusal over HTTP means: one of the four categories, told in words that hold no secret.

This is the only table of its kind. A vendor whose codes mean something else says so in its own file.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.engine.task import Category
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.remote.retry_after import wait_said

SPENT_UP = {
    "insufficient_quota",
    "insufficient_quota_error",
    "billing_hard_limit_reached",
    "enforced_spend_limit_reached",
}
"""Codes of a 429 that no waiting helps against: somebody has to pay."""
TRANSIENT = {408, 409, 425}
WRONG_INPUT = {400, 413, 415, 422}
KINDS: dict[Category, type[Failure]] = {
    "RateLimited": RateLimited,
    "Transient": Transient,
    "SchemaInvalid": SchemaInvalid,
    "Fatal": Fatal,
}
QUERY = re.compile(r"(https?://[^\s?#\"'<>]+)\?[^\s\"'<>]+")
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=*-]{6,}")
OPENAI_KEY = re.compile(r"\bsk-[\w*-]{6,}")
most_told = 300
shortest_secret = 4


def category_of(status: int, code: str | None = None) -> Category:
    """The category of an answer that is none of 2xx."""
    if status == 429:
        return "Fatal" if code in SPENT_UP else "RateLimited"
    if status in TRANSIENT or status >= 500:
        return "Transient"
    return "SchemaInvalid" if status in WRONG_INPUT else "Fatal"


def refusal(
    who: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str | None] = (),
    budget: str | None = None,
) -> Failure:
    """The failure that this answer of `who` is. A budget is told to wait with everyone who shares it."""
    said = as_json(body)
    code, words = told(said, body.decode(errors="replace"))
    words = redacted(words, secrets)[:most_told]  # only then cut: half a secret would not be known for one
    message = redacted(f"{who} answers {status}: {words}" if words else f"{who} answers {status}.", secrets)
    category = category_of(status, code)
    if category == "RateLimited":
        return RateLimited(message, code=code, retry_after=wait_said(headers, said), budget=budget)
    wait = wait_said(headers, said) if category == "Transient" else None
    return KINDS[category](message, code=code, retry_after=wait)


def told(said: Any, text: str = "") -> tuple[str | None, str]:
    """The code and the words of a refusal, as the vendors write them: within `error`, or at the top."""
    error = said.get("error", said) if isinstance(said, dict) else None
    if not isinstance(error, dict):
        error = {"message": error or text}
    named = (error.get(name) for name in ("code", "status", "type"))
    code = next((name for name in named if isinstance(name, str) and name), None)
    words = str(error.get("message") or error.get("detail") or "")
    return code, "an HTML page" if words.lstrip().startswith("<") else " ".join(words.split())


def redacted(text: str, secrets: Iterable[str | None] = ()) -> str:
    """The text without these secrets, and without what a link is signed with."""
    for secret in sorted((one for one in secrets if one and len(one) >= shortest_secret), key=len, reverse=True):
        text = text.replace(secret, "***")
    text = QUERY.sub(r"\1?***", text)
    return OPENAI_KEY.sub("***", BEARER.sub(r"\1 ***", text))


def as_json(body: bytes | str) -> Any:
    """What the body says; None if that is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
