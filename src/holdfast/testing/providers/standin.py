"""What all stand-ins share: a folder that holds all of one, a script of how it behaves, and how it is asked.

It may be killed and started again at any time. One in another process answers at GET /_ledger what `ledger` returns,
and so for each of its `witnesses`; POST /_script with fields of its script changes how it behaves.
"""

import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from holdfast.engine.task import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.body = body


class StandIn(ABC, Generic[S]):
    """An ASGI app. `behave` changes its script at any time."""

    kind: type[S]
    """The dataclass that its script is; kept in its folder, so that it behaves the same after a restart."""
    witnesses: Sequence[str] = ("ledger",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def script(self) -> S:
        path = self.folder / "script.json"
        return self.kind(**(as_object(path.read_bytes()) if path.exists() else {}))

    def behave(self, **changes: Any) -> S:
        """From now on, behave like this: fields of the script."""
        script = replace(self.script, **changes)
        write(self.folder / "script.json", json.dumps(asdict(script)).encode())
        return script

    @abstractmethod
    def answer(self, request: Request, body: bytes) -> Response | Json:
        """What the vendor answers. Raises Refused."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        try:
            match request.url.path.partition("/_"):
                case "", "/_", "script":
                    found: Response | Json = asdict(self.behave(**as_object(body)))
                case "", "/_", name if name in self.witnesses:
                    found = getattr(self, name)()
                case _:
                    found = self.answer(request, body)
        except Refused as refused:
            found = JSONResponse(refused.body, refused.status)
        response = found if isinstance(found, Response) else JSONResponse(found)
        response.headers["x-request-id"] = f"req_{secrets.token_hex(8)}"
        await response(scope, receive, send)


def as_object(body: bytes) -> dict[str, Any]:
    """The JSON object; an empty one for anything else."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_bytes().splitlines():
            yield as_object(line)


def append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def write(path: Path, content: bytes) -> None:
    """Whole or not at all, however the server ends."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)
