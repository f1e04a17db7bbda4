"""A real endpoint: it keeps what it was sent, and answers as a test says."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

from standardwebhooks.webhooks import Webhook

from tests.servers import QuietHandler, QuietServer, running

Answer = int | tuple[int, dict[str, str]]


class Receiver:
    """What came, path by path; and what is answered there: one after the other, then 200."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.came: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, list[Answer]] = {}
        self.silent: set[str] = set()
        """Where no answer comes while the test lasts."""
        self.over = threading.Event()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str = "/hook") -> list[tuple[dict[str, str], bytes]]:
        return [(headers, body) for where, headers, body in self.came if where == path]

    def ids(self, path: str = "/hook") -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.at(path)]

    def verified(self, secret: str, path: str = "/hook") -> list[dict[str, Any]]:
        """All that came there, as the library of the receivers reads it."""
        return [Webhook(secret).verify(body, headers) for headers, body in self.at(path)]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    server = QuietServer(("127.0.0.1", 0), Handler)
    with running(server) as port:
        Handler.receivers[port] = receiver = Receiver(port)
        try:
            yield receiver
        finally:
            receiver.over.set()


class Handler(QuietHandler):
    receivers: ClassVar[dict[int, Receiver]] = {}

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it so
        receiver = self.receivers[self.server.server_address[1]]  # type: ignore[index]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if self.path in receiver.silent:
            receiver.over.wait()
        answers = receiver.answers.get(self.path)
        answer = answers.pop(0) if answers else 200
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in {"Content-Length": "2", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"ok")
