"""Calling the server over HTTP: JSON there and back. What it refuses is raised as the class of the same code."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import httpx

from holdfast import errors
from holdfast.errors import HoldfastError, KeyRefused, RequestInvalid, ServerUnreachable
from holdfast.kernel.settings import Settings

calls_at_most = 5
silence_most = timedelta(seconds=60)

BY_CODE = {
    kind.http_code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HoldfastError)
}  # fmt: skip


class Server:
    """A server that is there, for as long as the block lasts."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self.address = settings.server
        self._http = http

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        within: timedelta = timedelta(seconds=60),
    ) -> dict[str, Any]:
        """Its answer. While there is none it is asked again: all that is asked here can be asked twice.

        Raises what the server says.
        """
        headers = {"Idempotency-Key": key} if key else {}
        for call in range(1, calls_at_most + 1):
            try:
                answer = await self._http.request(
                    method, path, json=body, headers=headers, timeout=within.total_seconds()
                )
            except httpx.TransportError as error:
                if call == calls_at_most:
                    raise self.unreachable(error) from error
            else:
                if answer.status_code != 503 or call == calls_at_most:
                    return checked(answer)
            await asyncio.sleep(0.1 * 2**call)
        raise self.unreachable(None)  # pragma: no cover - the last call has returned or raised

    async def send(self, link: Mapping[str, Any], body: AsyncIterator[bytes], size: int) -> None:
        """Bring a file by its link. Raises UrlRefused for one that is good no more, or whatever is wrong with it."""
        headers = {**link["headers"], "Content-Length": str(size)}
        try:
            answer = await self._http.request(link["method"], link["url"], content=body, headers=headers)
        except httpx.TransportError as error:
            raise self.unreachable(error) from error
        checked(answer, otherwise=errors.UrlRefused)

    @contextlib.asynccontextmanager
    async def fetch(self, url: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """A file, as it comes."""
        try:
            async with self._http.stream("GET", url) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    checked(answer)
                yield answer.aiter_bytes()
        except httpx.TransportError as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception | None) -> ServerUnreachable:
        return ServerUnreachable(
            f"{self.address}: {str(error) or type(error).__name__}.",
            fix="Start it with `holdfast up`, or name another with HOLDFAST_API.",
        )


@contextlib.asynccontextmanager
async def calling(settings: Settings) -> AsyncIterator[Server]:
    """The server of these settings. A key is shown to that server only, not to where its links lead."""
    key = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}

    own = place_of(httpx.URL(settings.server))

    async def show_key(request: httpx.Request) -> None:
        if place_of(request.url) == own:
            request.headers.update(key)

    async with httpx.AsyncClient(
        base_url=settings.server, timeout=silence_most.total_seconds(), event_hooks={"request": [show_key]}
    ) as http:
        yield Server(settings, http)


def place_of(url: httpx.URL) -> tuple[str, str, int | None]:
    """Which server an address leads to, however it is written."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def checked(answer: httpx.Response, otherwise: type[HoldfastError] = RequestInvalid) -> dict[str, Any]:
    """The answer's JSON. Raises the error that a problem stands for; `otherwise` for one that is not ours."""
    if answer.is_success:
        return dict(answer.json()) if answer.headers.get("content-type", "").startswith("application/json") else {}
    try:
        problem = dict(answer.json())
    except ValueError:
        problem = {}
    detail = str(problem.get("detail") or f"{answer.status_code} {answer.reason_phrase}")
    kind = BY_CODE.get(str(problem.get("code")), otherwise)
    fields = [f"{'.'.join(map(str, one['loc']))}: {one['message']}" for one in problem.get("errors") or []]
    if kind is KeyRefused:
        raise KeyRefused(detail, fix="Set HOLDFAST_KEY to a key that counts there.")
    if issubclass(kind, errors.Failure):
        kind = otherwise
    raise kind("\n".join([detail, *fields]))
