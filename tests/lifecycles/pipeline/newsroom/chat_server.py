"""A server that answers /v1/chat/completions as OpenAI does, by script; without one it repeats the article."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

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
        told = body["messages"][-1]["content"].split("\n")[1]
        return completion(json.dumps(json.loads(told)))


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Answers until the block ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    made = ChatServer(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    app = FastAPI(openapi_url=None)
    app.add_api_route("/v1/chat/completions", made.answer, methods=["POST"], response_model=None)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, date_header=False))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(60)
        loop.close()
        listening.close()
