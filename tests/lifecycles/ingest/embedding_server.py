"""A server that answers /v1/embeddings as OpenAI does, with vectors made from the words, and faults by script."""

import asyncio
import hashlib
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tests.servers import serving_app

KEY = "sk-secret"
MODELS = {"text-embedding-3-small": 1536, "text-embedding-ada-002": 1536, "house-model": 8}
SHORTENED = ("text-embedding-3-small", "house-model")  # ada-002 refuses to be asked for other dimensions


def vector(text: str, dimensions: int) -> list[float]:
    """Not of length 1: as many servers answer, though OpenAI's does not."""
    made = [0.0] * dimensions
    for piece in text.lower().split():
        made[int.from_bytes(hashlib.sha256(piece.encode()).digest()[:4], "big") % dimensions] += 1.0
    return made if any(made) else [1.0] * dimensions


def refusal(status: int, message: str, code: str | None = None, **headers: str) -> Response:
    """As OpenAI words it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": error}, status, named)


@dataclass
class EmbeddingServer:
    """One that runs: what it was asked, and what it is to answer first; None is as ever."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    script: list[Response | str | None] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append({**body, "authorization": request.headers.get("authorization")})
        if self.script:
            scripted = self.script.pop(0)
            if isinstance(scripted, Response):
                return scripted
            if scripted:
                await asyncio.to_thread(self.released.wait)  # "silence"
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return refusal(
                401, f"Incorrect API key provided: {request.headers.get('authorization')}", "invalid_api_key"
            )
        return self._embedded(body)

    def _embedded(self, body: dict[str, Any]) -> Response:
        texts, model = body["input"], body["model"]
        if model not in MODELS:
            return refusal(404, f"The model `{model}` does not exist", "model_not_found")
        if "dimensions" in body and model not in SHORTENED:
            return refusal(400, "This model does not support specifying dimensions.")
        if not 0 < len(texts) <= 2048 or not all(texts):
            return refusal(400, "'$.input' is invalid.")
        dimensions = body.get("dimensions", MODELS[model])
        rows = [
            {"object": "embedding", "index": index, "embedding": vector(text, dimensions)}
            for index, text in enumerate(texts)
        ]
        rows.reverse()  # whoever relies on the order is mistaken
        tokens = sum(math.ceil(len(text) / 4) for text in texts)
        used = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": rows, "model": model, "usage": used})


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Answers until the block ends."""
    made, app = EmbeddingServer(), FastAPI(openapi_url=None)
    app.add_api_route("/v1/embeddings", made.answer, methods=["POST"], response_model=None)
    with serving_app(app) as url:
        made.url = f"{url}/v1"
        try:
            yield made
        finally:
            made.released.set()
