"""Which requests the completion model takes: those of a chat API, without what a small model cannot do."""

from collections.abc import Mapping
from typing import Any

TAKEN = {
    "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "response_format", "frequency_penalty",
    "presence_penalty",
}  # fmt: skip
IGNORED = {"model", "user", "metadata", "store", "service_tier"}  # they change nothing of what is answered
ROLES = ("system", "user", "assistant")

tokens_unless_told = 256
NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def wrong_with(body: Any) -> str | None:
    """What keeps a request from being taken, as a sentence; None if nothing does."""
    if not isinstance(body, Mapping):
        return 'The request is no object: write {"messages": [{"role": "user", "content": "..."}]}.'
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "The request has no messages."
    if not all(is_message(one) for one in messages):
        return f"A message has a role ({', '.join(ROLES)}) and a text as its content; this model reads nothing else."
    if unknown := sorted(set(body) - TAKEN - IGNORED - {"max_completion_tokens"}):
        return f"LOCAL does not know {', '.join(map(str, unknown))[:200]}: leave it out, or choose another provider."
    most = tokens_of(body)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        return "max_tokens is no number above 0."
    for name in NUMBERS:
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"{name} is no number."
    seed = body.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32):
        return "seed is no whole number from 0 to 4294967295."
    return None


def is_message(one: Any) -> bool:
    if not isinstance(one, Mapping) or one.get("role") not in ROLES:
        return False
    content = one.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in parts
    )


def fitted(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as the model gets it."""
    return {
        **{name: body[name] for name in TAKEN if body.get(name) is not None},
        "max_tokens": tokens_of(body),
    }


def tokens_of(body: Mapping[str, Any]) -> Any:
    told = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    return told[0] if told else tokens_unless_told
