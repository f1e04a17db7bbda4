"""Every request has an id, which its answer and its log lines carry, and is counted by route and status.

The id is the client's own, if it sent a sane one as X-Request-Id. The counters are this process's.
"""

import re
import time
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.engine.logs import log_with

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SANE = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Measured:
    """Names, counts and times requests."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self.app = app
        self.count = Counter(
            "holdfast_http_requests", "Requests answered", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "holdfast_http_request_seconds", "Time until the answer began", ["route"], registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
        request_id = given if SANE.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.perf_counter()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in METHODS else "other"  # a client may send any word
                self.count.labels(method, route, message["status"]).inc()
                self.seconds.labels(route).observe(time.perf_counter() - began)
            await send(message)

        with log_with(request_id=request_id):
            await self.app(scope, receive, answer)
