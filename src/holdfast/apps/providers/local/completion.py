"""The process of the completion model: SmolLM2, run by llama.cpp."""

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from holdfast.apps.providers.local.serving import Alive, Answer, serve
from holdfast.apps.providers.local.weights import SMOLLM2
from holdfast.errors import Fatal, SchemaInvalid

context_tokens = 4096


def load() -> Answer:
    import xllamacpp  # type: ignore[import-untyped]

    path = SMOLLM2.find()
    if path is None:
        raise FileNotFoundError(SMOLLM2.file)
    asked = xllamacpp.CommonParams()
    asked.model.path = str(path)
    asked.model_alias = {SMOLLM2.name}
    asked.n_ctx = context_tokens
    asked.n_parallel = 1
    asked.cache_prompt, asked.cache_ram_mib = False, 0  # an answer depends on its request alone
    asked.verbosity = 0
    for share in (asked.cpuparams, asked.cpuparams_batch):
        share.n_threads = threads()
    asked.ui = False
    with tempfile.TemporaryDirectory() as folder:
        # It opens a server besides, which nobody needs: its socket is where only we can go, and is gone at once.
        asked.hostnames = [str(Path(folder, "model.sock"))]
        asked.api_keys = [secrets.token_hex()]
        model = xllamacpp.Server(asked)

    def complete(request: dict[str, Any], alive: Alive) -> dict[str, Any]:
        body = json.loads(Path(request["path"]).read_text())
        try:
            answer = model.handle_chat_completions(body)
        except (ValueError, RuntimeError) as error:
            raise SchemaInvalid(f"The request is refused: {error}") from None
        if wrong := answer.get("error"):
            if wrong.get("type") == "exceed_context_size_error":
                said = f"The prompt has {wrong.get('n_prompt_tokens')} tokens; {context_tokens} fit. Shorten it."
                raise SchemaInvalid(said, code="prompt-too-long")
            failure = SchemaInvalid if wrong.get("code") in (400, 422) else Fatal
            raise failure(f"The request is refused: {wrong.get('message')}")
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
