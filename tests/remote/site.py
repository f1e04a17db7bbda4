"""A real web server whose answers a test writes down, path by path."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

from tests.servers import QuietHandler, QuietServer, running

Answer = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """What it answers, and what it was asked: the path, the headers, and at which address."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str], str]] = []

    def forget(self) -> None:
        self.answers.clear()
        self.asked.clear()

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def answer(self, path: str, body: bytes = b"", status: int = 200, **headers: str) -> str:
        """Answer this there, with its length; the address of it. An underscore in a header is a dash."""

        def write(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response_only(status)
            for name, value in {"Content_Length": str(len(body)), **headers}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = write
        return self.url(path)

    def raw(self, path: str, *pieces: bytes) -> str:
        """Answer just these bytes there, then close the connection."""

        def write(handler: BaseHTTPRequestHandler) -> None:
            for piece in pieces:
                handler.wfile.write(piece)
            handler.close_connection = True

        self.answers[path] = write
        return self.url(path)


@contextlib.contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site that answers until the block ends, at every address of loopback."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # noqa: N802 - http.server calls it so
            site.asked.append((self.path, dict(self.headers.items()), self.connection.getsockname()[0]))
            with contextlib.suppress(ConnectionError):
                site.answers[self.path](self)

    class Server(QuietServer):
        def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
            connection, peer = super().get_request()
            connection.settimeout(60)
            return (tls.wrap_socket(connection, server_side=True) if tls else connection), peer

    with running(Server(("0.0.0.0", 0), Handler)) as port:  # noqa: S104 - loopback has many addresses
        site = Site(port)
        yield site
