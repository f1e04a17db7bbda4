"""The completion model: which requests it takes, and its process, in which llama.cpp runs SmolLM2."""

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from holdfast.apps.providers.local.process import Alive, Answer, serve
from holdfast.apps.providers.local.weights import SMOLLM2
from holdfast.engine.values import describe
from holdfast.errors import Fatal, SchemaInvalid

context_tokens = 4096
default_tokens = 256
NO_EFFECT = {"model", "user", "metadata", "store", "service_tier"}  # on what is answered


class Text(BaseModel):
    type: Literal["text"]
    text: str


class Message(BaseModel):
    role: Literal["system", "user", "assistant"]
    content: str | list[Text]


class Request(BaseModel):
    """A request of a chat API, without what a small model cannot do."""

    model_config = ConfigDict(extra="forbid", strict=True)

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    stop: Any = None
    response_format: Any = None
    model: Any = None
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None


def refuse_request(body: Any) -> str | None:
    """Why a request cannot be taken, as a sentence; None if it can."""
    try:
        Request.model_validate(body)
    except ValidationError as error:
        return f"LOCAL cannot take this request: {describe(error)}. Change it, or choose another provider."
    return None


def accepted_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as the model gets it."""
    given = {name: value for name, value in body.items() if value is not None and name not in NO_EFFECT}
    limit = given.pop("max_completion_tokens", None)
    return {**given, "max_tokens": limit or given.get("max_tokens", default_tokens)}


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
