"""HTTP as all providers speak it: one request, one answer or one of the four categories.

Nothing is tried again here. For what must not happen twice, RateLimited, SchemaInvalid and Fatal are the server's own
answer that it did not happen; Transient leaves it open, since the answer was lost, late, unreadable, or did not tell.
No message holds what the request was authorised with, nor what a link is signed with.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from holdfast.engine.task import Json
from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.remote.certificates import certificates
from holdfast.remote.http_errors import as_json, redact, refusal
from holdfast.remote.retry_after import retry_after

if TYPE_CHECKING:
    import httpx2

redirects_most = 5
refusal_most_bytes = 1 << 16


@dataclass(frozen=True)
class Patience:
    """How long a server may take: to be reached, between two pieces of its answer, and for all of it."""

    connect: timedelta = timedelta(seconds=10)
    read: timedelta = timedelta(seconds=60)
    whole: timedelta = timedelta(minutes=2)


@dataclass(frozen=True)
class Answer:
    """A good answer, or one with a status that was asked for."""

    status: int
    json: Json = field(repr=False)
    again_in: timedelta | None
    """When to ask again, if the server says so."""


@dataclass(frozen=True)
class Line:
    """A line of JSON. One that cannot be read has no value; if it is the last one, and not ended, it was cut off."""

    text: bytes = field(repr=False)
    json: Json = None
    cut: bool = False


class Transport:
    """Requests to one server."""

    def __init__(
        self,
        url: str,
        authorisation: Callable[[], Mapping[str, str]] = dict,
        *,
        patience: Patience | None = None,
        most_bytes: int = 16 << 20,
        line_most_bytes: int = 64 << 20,
    ) -> None:
        """`authorisation` gives the headers that let in; asked each time, since keys change. All in them is secret."""
        self.url = url.rstrip("/")
        self.patience = patience or Patience()
        self.most_bytes = most_bytes
        self.line_most_bytes = line_most_bytes
        self._authorisation = authorisation
        self._client: tuple[asyncio.AbstractEventLoop, httpx2.AsyncClient] | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        json: Json = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        expect: Collection[int] = (),
        signed: bool = False,
        whole: timedelta | None = None,
    ) -> Answer:
        """The answer, if it is one of 2xx or of those expected. Raises a Failure.

        `signed` is for an address that lets in by itself: nothing is added to it.
        """
        parts = {"json": json, "data": form, "files": files, "content": content, "params": params}
        time = asyncio.timeout((whole or self.patience.whole).total_seconds())
        async with self._translate_failures(path), time, self._ask(method, path, parts, signed=signed) as answer:
            body = await self._body(answer)
            if not answer.is_success and answer.status_code not in expect:
                raise self._refusal(path, answer, body)
            value = as_json(body) if body.strip() else None
            if answer.is_success and value is None and body.strip():
                raise self._unreadable(path, answer)
            return Answer(answer.status_code, value, retry_after(answer.headers))

    async def lines(
        self,
        path: str,
        *,
        signed: bool = False,
        whole: timedelta = timedelta(hours=1),
    ) -> AsyncGenerator[Line, None]:
        """The lines of a file of JSON, as they come; empty ones left out. Follows redirects. Raises a Failure."""
        left = whole.total_seconds()  # for the server alone: the reader of the lines takes the time that it needs
        clock = asyncio.get_running_loop().time
        async with self._translate_failures(path), self._ask("GET", path, {}, signed=signed, follow=True) as answer:
            if not answer.is_success:
                raise self._refusal(path, answer, await self._body(answer))
            if "html" in answer.headers.get("content-type", ""):
                raise self._unreadable(path, answer)
            pieces = answer.aiter_bytes()
            held = bytearray()
            while True:
                began = clock()
                async with asyncio.timeout(left):
                    piece = await anext(pieces, None)
                left -= clock() - began
                if piece is None:
                    break
                searched, start = len(held), 0
                held += piece
                while (end := held.find(b"\n", max(start, searched))) >= 0:
                    if text := bytes(held[start:end]).strip():
                        yield Line(text, as_json(text))
                    start = end + 1
                del held[:start]
                if len(held) > self.line_most_bytes:
                    raise SchemaInvalid(
                        f"{self._display_address(path)} has a line of more than {self.line_most_bytes} bytes."
                    )
            if text := bytes(held).strip():
                value = as_json(text)
                yield Line(text, value, cut=value is None)

    async def close(self) -> None:
        """Give back the connections; the next request opens new ones."""
        if self._client:
            _, client = self._client
            self._client = None
            await client.aclose()

    @contextlib.asynccontextmanager
    async def _ask(
        self,
        method: str,
        path: str,
        parts: Mapping[str, Any],
        *,
        signed: bool,
        follow: bool = False,
    ) -> AsyncIterator["httpx2.Response"]:
        url = self._address(path)
        own = {} if signed else dict(self._authorisation())
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(redirects_most):
                answer = await stack.enter_async_context(self._open().stream(method, url, headers=own, **parts))
                if not (follow and answer.has_redirect_location):
                    yield answer
                    return
                target = urljoin(url, answer.headers["location"])
                own = own if origin(target) == origin(url) else {}  # the key is for this server alone
                if url.startswith("https:") and not target.startswith("https:"):
                    raise Fatal(f"{self._display_address(path)} leads away from https.")
                url = target
            raise Fatal(f"{self._display_address(path)} leads on and on.")

    def _open(self) -> "httpx2.AsyncClient":
        """The client of this event loop; one of a loop that has gone is of no use."""
        import httpx2  # takes its time, and most processes send no request

        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            read, connect = self.patience.read.total_seconds(), self.patience.connect.total_seconds()
            limits = httpx2.Limits(max_connections=64, max_keepalive_connections=16)
            timeout = httpx2.Timeout(read, connect=connect)
            self._client = loop, httpx2.AsyncClient(timeout=timeout, limits=limits, verify=certificates())
        return self._client[1]

    @contextlib.asynccontextmanager
    async def _translate_failures(self, path: str) -> AsyncIterator[None]:
        """What goes wrong on the way, as Transient."""
        import httpx2

        try:
            yield
        except TimeoutError:
            raise Transient(f"{self._display_address(path)} took too long to answer.") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise Fatal(
                f"{self._display_address(path)} is not an address: {redact(str(error), self._secrets())}."
            ) from None
        except httpx2.RequestError as error:  # its text may hold the whole address
            raise Transient(f"{self._display_address(path)} does not answer: {type(error).__name__}.") from None

    async def _body(self, answer: "httpx2.Response") -> bytes:
        """The body, of a refusal only as much as is reported. Raises Transient if it is too large."""
        held = bytearray()
        async for piece in answer.aiter_bytes():
            held += piece
            if not answer.is_success and len(held) > refusal_most_bytes:
                break
            if len(held) > self.most_bytes:
                raise Transient(f"{self._display_address(str(answer.url))} answers more than {self.most_bytes} bytes.")
        return bytes(held)

    def _refusal(self, path: str, answer: "httpx2.Response", body: bytes) -> Exception:
        return refusal(self._display_address(path), answer.status_code, answer.headers, body, secrets=self._secrets())

    def _unreadable(self, path: str, answer: "httpx2.Response") -> Transient:
        kind = answer.headers.get("content-type", "").partition(";")[0] or "something"
        return Transient(
            f"{self._display_address(path)} answers {answer.status_code}, but with {kind} instead of JSON."
        )

    def _address(self, path: str) -> str:
        return path if path.startswith(("http://", "https://")) else f"{self.url}/{path.lstrip('/')}"

    def _display_address(self, path: str) -> str:
        """The address for people: without what follows the question mark."""
        return redact(self._address(path).partition("?")[0], self._secrets())

    def _secrets(self) -> Iterator[str]:
        for value in self._authorisation().values():
            yield value
            yield value.rpartition(" ")[2]


def origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
