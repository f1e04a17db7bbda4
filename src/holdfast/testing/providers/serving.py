"""Servers on this machine: an ASGI app on a port of loopback, in a thread or as a process.

Both start again on the same port, and a process can be killed. Connections can be dropped without an answer.
"""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx2
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.testing.providers.faults import DROP

OF_A_CONNECTION = (b"transfer-encoding", b"connection", b"keep-alive")


class Droppable(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, where the app may close the connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {DROP: {"close": self._drop}}

    def _drop(self, at_once: bool) -> None:
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()


def listen(port: int = 0) -> socket.socket:
    """A socket on this port of loopback, or on a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def make_server(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            interface="asgi3",
            http=Droppable,
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
    )


class Server:
    """An ASGI app on a port of loopback, in a thread. `with Server(app) as server: ... server.url`.

    `app` may be changed while it runs: the next request goes to the new one.
    """

    def __init__(self, app: ASGIApp, *, port: int = 0) -> None:
        self.app = app
        self.port = port
        self._running: tuple[uvicorn.Server, threading.Thread, socket.socket] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Listen; on the same port as before if it was started before. A client that is too early waits."""
        listener = listen(self.port)
        self.port = listener.getsockname()[1]
        server = make_server(lambda scope, receive, send: self.app(scope, receive, send))
        thread = threading.Thread(target=server.run, args=([listener],), name="stand-in", daemon=True)
        thread.start()
        self._running = server, thread, listener
        return self

    def stop(self) -> None:
        """Listen no more: connections are refused."""
        if self._running:
            server, thread, listener = self._running
            server.should_exit = True
            thread.join()
            listener.close()
            self._running = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()


def launch(command: Sequence[str], **streams: Any) -> "tuple[subprocess.Popen[str], str]":
    """A server as a process, which prints its address once it listens; and that. Raises RuntimeError if it does not."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **streams)
    assert process.stdout is not None  # noqa: S101 - for the types
    url = process.stdout.readline().strip()
    if not url.startswith("http://"):
        process.kill()
        process.communicate()
        raise RuntimeError(f"{' '.join(command)} did not start.")
    return process, url


class ServerProcess:
    """A stand-in as a process of its own, which can be killed and started again on its folder and port."""

    def __init__(self, name: str, folder: Path, *, port: int = 0) -> None:
        """`name` is what `python -m holdfast.testing.providers` calls it."""
        self.name = name
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "holdfast.testing.providers", self.name]
        self._process, url = launch([*command, "--port", str(self.port), "--folder", str(self.folder)])
        self.port = int(url.rpartition(":")[2])
        return self

    def kill(self) -> None:
        """Stop it as a power cut does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(number)
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.kill()


class Forward:
    """An ASGI app that passes every request on to a real server, so that faults can stand before that."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await Request(scope, receive).body()
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        url = f"{self.url}{path}" + (f"?{query}" if query else "")
        headers = [one for one in scope["headers"] if one[0] not in OF_A_CONNECTION]
        async with (
            httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as client,
            client.stream(scope["method"], url, headers=headers, content=body) as answer,
        ):
            raw = b"".join([part async for part in answer.aiter_raw()])
        kept = [one for one in answer.headers.raw if one[0].lower() not in (*OF_A_CONNECTION, b"content-length")]
        kept.append((b"content-length", answer.headers.get("content-length", str(len(raw))).encode()))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
        await send({"type": "http.response.body", "body": raw})
