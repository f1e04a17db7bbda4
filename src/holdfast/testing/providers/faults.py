"""Faults: what goes wrong between two machines, put in front of any ASGI app and scripted by a test.

A rule names requests and the fault that meets them; whatever no rule names goes through untouched. Every request is
written into a ledger with what became of it. Rules live as long as the process, the ledger as long as its file.

    faults = Faults(app, ledger=folder / "requests.jsonl")
    faults.add("POST", r"/v1/batches$", lost_answer())
    faults.add("GET", r"/v1/batches/", status(503), nth=2, times=3)

A server in another process takes the same over HTTP: POST /_faults with a rule as JSON (or a list of them), DELETE
/_faults forgets them all, GET /_faults shows them, GET /_faults/requests the ledger.
"""

import asyncio
import contextlib
import gzip
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.testing.providers.ledger import read_lines

Kind = Literal["lost_answer", "dropped", "status", "delay", "drip", "truncated", "gzip", "rewrite", "change"]
DROP = "holdfast.drop"
"""The extension of ASGI that closes the connection; `Server` has it."""
PAGE = "<!DOCTYPE html><html><head><title>Bad gateway</title></head><body><h1>It works again soon</h1></body></html>"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong. Made by the functions below."""

    kind: Kind
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    seconds: float = 0
    part: float = 0
    rewrite: Callable[[Any], Any] | None = None
    remove: Sequence[str] = ()


def lost_answer() -> Fault:
    """The work is done; then the connection closes without an answer."""
    return Fault("lost_answer")


def dropped() -> Fault:
    """The connection closes before anything is done."""
    return Fault("dropped")


def status(status: int, headers: Mapping[str, str] | None = None, body: Any = None) -> Fault:
    """This answer, and nothing is done. A body that is no string is sent as JSON."""
    return Fault("status", status=status, headers=headers or {}, body={"error": {}} if body is None else body)


def html(status: int = 200) -> Fault:
    """A page for people, as a gateway gives it; nothing is done."""
    return Fault("status", status=status, headers={"content-type": "text/html; charset=utf-8"}, body=PAGE)


def delay(seconds: float) -> Fault:
    """The work is done; the answer comes this much later."""
    return Fault("delay", seconds=seconds)


def drip(seconds: float) -> Fault:
    """The answer comes byte by byte, with this much time after each."""
    return Fault("drip", seconds=seconds)


def truncated(part: float = 0.5) -> Fault:
    """Only this part of the body comes; then the connection closes."""
    return Fault("truncated", part=part)


def gzipped() -> Fault:
    """The answer comes compressed, whether that was asked for or not."""
    return Fault("gzip")


def rewrite(change: Callable[[Any], Any]) -> Fault:
    """The JSON of the answer is what this makes of it. Only for a server in the same process."""
    return Fault("rewrite", rewrite=change)


def change(fields: Mapping[str, Any], *, remove: Sequence[str] = ()) -> Fault:
    """The JSON object of the answer has these fields instead, and lacks those; can be sent over HTTP."""
    return Fault("change", body=dict(fields), remove=tuple(remove))


@dataclass
class Rule:
    """Which requests a fault meets: the matching ones from the nth on, counted since the rule was added."""

    method: str
    path: str
    """A regular expression that is searched in the path, without the query."""
    fault: Fault
    nth: int = 1
    times: int | None = 1
    """How many of them; None for all that follow."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions that headers must match too."""
    seen: int = 0

    def meets(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Count a request; whether the fault is for it."""
        wanted = self.headers.items()
        if self.method not in ("*", method) or not re.search(self.path, path):
            return False
        if not all(re.search(pattern, headers.get(name.lower(), "")) for name, pattern in wanted):
            return False
        self.seen += 1
        return self.nth <= self.seen and (self.times is None or self.seen < self.nth + self.times)


@dataclass(frozen=True)
class Seen:
    """A line of the ledger: a request, and what became of it."""

    method: str
    path: str
    query: str
    status: int | None
    """What the app answered; None if it was not asked, or has not answered."""
    fault: str | None
    at: str
    noted: Mapping[str, str] = field(default_factory=dict)
    """The headers that the ledger notes."""


class Faults:
    """An ASGI app that stands before another one and lets go wrong what its rules name."""

    def __init__(self, app: ASGIApp, *, ledger: Path | None = None, note: Sequence[str] = ()) -> None:
        """`note` names request headers that go into the ledger, such as x-amz-target; never one with a secret."""
        self.app = app
        self.ledger = ledger
        self.note = tuple(name.lower() for name in note)
        self._rules: list[Rule] = []
        self._seen: list[Seen] = []
        self._lock = threading.Lock()
        if ledger:
            ledger.parent.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        method: str,
        path: str,
        fault: Fault,
        *,
        nth: int = 1,
        times: int | None = 1,
        headers: Mapping[str, str] | None = None,
    ) -> Rule:
        """From now on, this fault for these requests; of several rules that meet one, the first added counts."""
        rule = Rule(method, path, fault, nth, times, headers or {})
        re.compile(path)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget all rules; the ledger stays."""
        with self._lock:
            self._rules.clear()

    def requests(self, method: str = "*", path: str = "") -> list[Seen]:
        """The requests so far, oldest first; those of earlier processes too if there is a file."""
        seen = [Seen(**line) for line in read_lines(self.ledger)] if self.ledger else list(self._seen)
        return [one for one in seen if method in ("*", one.method) and re.search(path, one.path)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/_faults"):
            await (await self._control(Request(scope, receive)))(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"].startswith("/_"):  # between a test and its stand-in
            await self.app(scope, receive, send)
            return
        headers = headers_of(scope)
        with self._lock:
            met = [rule for rule in self._rules if rule.meets(scope["method"], scope["path"], headers)]
        fault = met[0].fault if met else None

        async def record_message(message: Message) -> None:
            if message["type"] == "http.response.start":  # written before the client can know of it
                self._write(scope, headers, message["status"], None)
            await send(message)

        if fault is None:
            await self.app(scope, receive, record_message)
        elif fault.kind in ("dropped", "status"):
            self._write(scope, headers, None, fault)
            await (drop(scope, receive) if fault.kind == "dropped" else made_up_answer(fault)(scope, receive, send))
        else:
            answer = await answer_of(self.app, scope, receive)
            self._write(scope, headers, answer.status_code, fault)
            await go_wrong(fault, answer, scope, receive, send)

    def _write(self, scope: Scope, headers: Mapping[str, str], status: int | None, fault: Fault | None) -> None:
        noted = {name: headers[name] for name in self.note if name in headers}
        at = datetime.now(UTC).isoformat()
        query = scope["query_string"].decode("latin-1")
        seen = Seen(scope["method"], scope["path"], query, status, fault.kind if fault else None, at, noted)
        with self._lock:
            self._seen.append(seen)
            if self.ledger:
                with self.ledger.open("a") as file:
                    file.write(json.dumps(asdict(seen)) + "\n")

    async def _control(self, request: Request) -> Response:
        match request.method, request.url.path:
            case "GET", "/_faults/requests":
                return JSONResponse([asdict(one) for one in self.requests()])
            case "POST", "/_faults":
                rules = await request.json()
                for rule in rules if isinstance(rules, list) else [rules]:
                    self.add(**{**rule, "fault": Fault(**rule["fault"])})
            case "DELETE", "/_faults":
                self.clear()
        with self._lock:
            rules = [{**asdict(rule), "fault": rule.fault.kind} for rule in self._rules]
        return JSONResponse(rules)


def made_up_answer(fault: Fault) -> Response:
    text = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
    headers = {name.lower(): value for name, value in fault.headers.items()}
    return Response(text, fault.status, {"content-type": "application/json", **headers})


async def answer_of(app: ASGIApp, scope: Scope, receive: Receive) -> Response:
    """Let the app do its work, and keep its answer."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    headers = headers_of(messages[0])
    headers.pop("content-length", None)
    return Response(b"".join(message.get("body", b"") for message in messages[1:]), messages[0]["status"], headers)


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message.get("headers", ())}


def replace_body(answer: Response, body: bytes) -> None:
    answer.body = body
    answer.headers["content-length"] = str(len(body))


async def go_wrong(fault: Fault, answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send what the fault makes of the answer."""
    start = {"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
    body = bytes(answer.body)
    match fault.kind:
        case "lost_answer":
            await drop(scope, receive)
            return
        case "delay":
            if await has_disconnected(receive, fault.seconds):
                return
        case "drip":
            await send(start)
            for at in range(len(body)):
                if await has_disconnected(receive, fault.seconds):
                    return
                last = at == len(body) - 1
                await send({"type": "http.response.body", "body": body[at : at + 1], "more_body": not last})
            return
        case "truncated":
            await send(start)
            await send({"type": "http.response.body", "body": body[: int(len(body) * fault.part)], "more_body": True})
            await drop(scope, receive, at_once=False)
            return
        case "gzip":
            answer.headers["content-encoding"] = "gzip"
            replace_body(answer, gzip.compress(body))
        case _:
            value = json.loads(body)
            if fault.rewrite:
                value = fault.rewrite(value)
            else:
                changed = {**value, **fault.body}
                value = {name: one for name, one in changed.items() if name not in fault.remove}
            replace_body(answer, json.dumps(value).encode())
    await answer(scope, receive, send)


async def drop(scope: Scope, receive: Receive, *, at_once: bool = True) -> None:
    """Close the connection as it is; what was written may still go out if it is not to happen at once."""
    close = scope.get("extensions", {}).get(DROP, {}).get("close")
    if close is None:
        raise RuntimeError("This server cannot drop a connection. Run the app with holdfast.testing.providers.Server.")
    close(at_once)
    while (await receive())["type"] != "http.disconnect":
        pass


async def has_disconnected(receive: Receive, seconds: float) -> bool:
    """Wait this long; true as soon as the client has gone."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False
