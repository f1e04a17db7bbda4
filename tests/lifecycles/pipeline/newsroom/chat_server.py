"""A server that answers /v1/chat/completions as OpenAI does, by script; without one it repeats the article."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tests.servers import serving_app

KEY = "sk-secret"


def completion(content: str) -> Response:
    """A good status with this as the model's words."""
    return JSONResponse(
        {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60},
        }
    )


@dataclass
class ChatServer:
    """One that runs: what it was asked, and what it is to answer first."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    script: list[Response] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append({**body, "authorization": request.headers.get("authorization")})
        if self.script:
            return self.script.pop(0)
        given = body["messages"][-1]["content"].split("\n")[1]
        return completion(json.dumps(json.loads(given)))


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Answers until the block ends."""
    made, app = ChatServer(), FastAPI(openapi_url=None)
    app.add_api_route("/v1/chat/completions", made.answer, methods=["POST"], response_model=None)
    with serving_app(app) as url:
        made.url = f"{url}/v1"
        yield made
