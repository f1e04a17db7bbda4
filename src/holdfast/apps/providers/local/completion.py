"""The completion model: which requests it takes, and its process, in which llama.cpp runs SmolLM2."""

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.apps.providers.local.process import Alive, Answer, serve
from holdfast.apps.providers.local.weights import SMOLLM2
from holdfast.errors import Fatal, SchemaInvalid

context_tokens = 4096
TAKEN = {
    "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "response_format", "frequency_penalty",
    "presence_penalty",
}  # fmt: skip
IGNORED = {"model", "user", "metadata", "store", "service_tier"}  # they change nothing of what is answered
ROLES = ("system", "user", "assistant")

default_tokens = 256
NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def refuse_request(body: Any) -> str | None:
    """Why a request cannot be taken, as a sentence; None if it can."""
    if not isinstance(body, Mapping):
        return 'The request is not an object: write {"messages": [{"role": "user", "content": "..."}]}.'
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "The request has no messages."
    if not all(map(is_message, messages)):
        return f"A message has a role ({', '.join(ROLES)}) and a text as its content; this model reads nothing else."
    if unknown := sorted(set(body) - TAKEN - IGNORED - {"max_completion_tokens"}):
        return f"LOCAL does not know {', '.join(map(str, unknown))[:200]}: leave it out, or choose another provider."
    most = tokens_of(body)
    if not is_number(most, int) or most < 1:
        return "max_tokens is not a whole number above 0."
    for name in NUMBERS:
        if body.get(name) is not None and not is_number(body[name], int | float):
            return f"{name} is not a number."
    seed = body.get("seed")
    if seed is not None and not (is_number(seed, int) and 0 <= seed < 2**32):
        return "seed is not a whole number from 0 to 4294967295."
    return None


def is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def is_message(one: Any) -> bool:
    if not isinstance(one, Mapping) or one.get("role") not in ROLES:
        return False
    content = one.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in parts
    )


def accepted_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as the model gets it."""
    return {**{name: body[name] for name in TAKEN if body.get(name) is not None}, "max_tokens": tokens_of(body)}


def tokens_of(body: Mapping[str, Any]) -> Any:
    given = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    return given[0] if given else default_tokens


# The process


def load() -> Answer:
    import xllamacpp  # type: ignore[import-untyped]

    path = SMOLLM2.find()
    if path is None:
        raise FileNotFoundError(SMOLLM2.file)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {SMOLLM2.name}
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cache_prompt, params.cache_ram_mib = False, 0  # an answer depends on its request alone
    params.verbosity = 0
    for share in (params.cpuparams, params.cpuparams_batch):
        share.n_threads = threads()
    params.ui = False
    with tempfile.TemporaryDirectory() as folder:
        # It opens a server besides, of which we have no use: its socket is where only we can go, and is gone at once.
        params.hostnames = [str(Path(folder, "model.sock"))]
        params.api_keys = [secrets.token_hex()]
        model = xllamacpp.Server(params)

    def complete(request: dict[str, Any], alive: Alive) -> dict[str, Any]:
        body = json.loads(Path(request["path"]).read_text())
        try:
            answer = model.handle_chat_completions(body)
        except (ValueError, RuntimeError) as error:
            raise SchemaInvalid(f"The request is refused: {error}") from None
        if refusal := answer.get("error"):
            if refusal.get("type") == "exceed_context_size_error":
                size = f"The prompt has {refusal.get('n_prompt_tokens')} tokens; {context_tokens} fit."
                raise SchemaInvalid(f"{size} Shorten it.", code="prompt-too-long")
            failure = SchemaInvalid if refusal.get("code") in (400, 422) else Fatal
            raise failure(f"The request is refused: {refusal.get('message')}")
        (choice,) = answer["choices"]
        return {
            "output": {
                "text": choice["message"].get("content") or "",
                "finish_reason": choice["finish_reason"],
                "model": SMOLLM2.name,
            },
            "tokens_in": answer["usage"]["prompt_tokens"],
            "tokens_out": answer["usage"]["completion_tokens"],
        }

    return complete


def threads() -> int:
    """Half the cores: its threads wait for each other, so on a busy machine two on two cores are five times slower."""
    return min(max((os.cpu_count() or 1) // 2, 1), 4)


if __name__ == "__main__":
    serve(load)
