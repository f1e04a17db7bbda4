"""Servers in a thread of the test's own process, for as long as a block lasts."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import uvicorn
from starlette.types import ASGIApp


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no log."""

    def log_message(self, *_: object) -> None:
        """Tests look at what was asked, not at a log."""


class QuietServer(ThreadingHTTPServer):
    """Ends with its process, takes many connections at once, and forgives clients that go away."""

    daemon_threads = True
    request_queue_size = 200  # a client that finds the queue full tries again only after a second

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is not an error of ours."""


@contextlib.contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[int]:
    """The port at which it answers until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


@contextlib.contextmanager
def serving_app(app: ASGIApp) -> Iterator[str]:
    """The address of an ASGI application. Its answers have no date unless it writes one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, date_header=False))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
