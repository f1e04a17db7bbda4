"""Calling a server of Holdfast over HTTP: JSON there and back. What it refuses is raised as the class of the same code.

Several servers before one database are as good as one: when one does not answer, or says that it cannot, the next is
asked. What must not happen twice is sent a second time only where the first certainly never arrived.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2

from holdfast import errors
from holdfast.backoff import SYSTEM, backoff
from holdfast.engine.task import Output
from holdfast.errors import (
    HoldfastError,
    KeyRefused,
    ObjectMissing,
    PayloadInvalid,
    RequestInvalid,
    ServerUnreachable,
    TaskBusy,
)
from holdfast.postgres.keepalive import enable_keepalive
from holdfast.remote.certificates import certificates
from holdfast.settings import Settings

calls_at_most = 5
longest_pause_seconds = 1.0
answer_within = timedelta(seconds=60)
connect_within_seconds = 5.0
connections_kept_seconds = 2.0  # a server gives idle ones up after 5; a request at that moment gets no answer

AWAY = (502, 503, 504)
NEVER_ARRIVED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

BY_CODE = {
    kind.http_code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HoldfastError)
}  # fmt: skip


class Server:
    """A server that is there, or one of several, for as long as the block lasts."""

    def __init__(self, settings: Settings, http: httpx2.AsyncClient, *, first: str | None = None) -> None:
        self._addresses = settings.servers
        self._http = http
        if first in self._addresses:
            self._current = self._addresses.index(first)
        else:
            self._current = SYSTEM.randrange(len(self._addresses))  # not all clients at one

    @property
    def address(self) -> str:
        """Whom the next call asks first."""
        return self._addresses[self._current % len(self._addresses)]

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        within: timedelta = answer_within,
    ) -> dict[str, Any]:
        """Its answer. While there is none it is asked again: all that is asked here can be asked twice.

        Raises what the server says.
        """
        headers = {"Idempotency-Key": key} if key else {}
        return dict(await self.request(method, path, body, headers=headers, within=within, busy_again=True) or {})

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        within: timedelta = answer_within,
        repeatable: bool = True,
        busy_again: bool = False,
        calls: int | None = None,
    ) -> Any:
        """The answer's JSON, asked for again of the next server while there is none, so many `calls` at most.

        Not `repeatable`: only as long as the question has certainly not arrived. Raises what the server says.
        """
        content = None if body is None else encode_body(body)
        most = calls or calls_at_most
        pauses = backoff(0.2, longest_pause_seconds)
        for call in range(1, most + 1):
            asked = self._current
            try:
                answer = await self._http.request(
                    method,
                    f"{self.address}{path}",
                    content=content,
                    headers={"Content-Type": "application/json", **(headers or {})},
                    timeout=httpx2.Timeout(within.total_seconds(), connect=connect_within_seconds),
                    extensions={"trace": keep_alive},
                )
            except httpx2.TransportError as error:
                self._pass_on(asked)
                if call == most or not (repeatable or isinstance(error, NEVER_ARRIVED)):
                    raise self.unreachable(error) from error
            except asyncio.CancelledError:  # a caller that stops waiting asks another one next time
                self._pass_on(asked)
                raise
            else:
                is_busy = answer.status_code in AWAY and read_problem(answer).get("code") == TaskBusy.http_code
                if answer.status_code not in AWAY or (is_busy and not busy_again):
                    return read_answer(answer)
                self._pass_on(asked)
                if call == most or not repeatable:
                    return read_answer(answer)
            if call >= len(self._addresses):
                await asyncio.sleep(next(pauses))
        raise self.unreachable(None)  # pragma: no cover - the last call has returned or raised

    def _pass_on(self, asked: int) -> None:
        """Let the next call ask the next server, unless another call has seen to that."""
        if self._current == asked:
            self._current += 1

    async def send(self, link: Mapping[str, Any], body: AsyncIterator[bytes], size: int) -> None:
        """Bring a file by its link. Raises UrlRefused for one that is good no more, or whatever is wrong with it."""
        headers = {**link["headers"], "Content-Length": str(size)}
        asked = self._current
        try:
            answer = await self._http.request(link["method"], link["url"], content=body, headers=headers)
        except httpx2.TransportError as error:
            self._pass_on(asked)
            raise self.unreachable(error) from error
        read_answer(answer, otherwise=errors.UrlRefused)

    @contextlib.asynccontextmanager
    async def fetch(self, url: str, *, at_once: int | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """A file, as it comes, or in parts of a size. Raises ObjectMissing, UrlRefused, or what the server says."""
        asked = self._current
        try:
            async with self._http.stream("GET", url) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    read_answer(answer, otherwise=ObjectMissing if answer.status_code == 404 else errors.UrlRefused)
                yield answer.aiter_bytes(at_once)
        except httpx2.TransportError as error:
            self._pass_on(asked)
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception | None) -> ServerUnreachable:
        return ServerUnreachable(
            f"{', '.join(self._addresses)}: {str(error) or type(error).__name__}.",
            fix="Start it with `holdfast up`, or name another with HOLDFAST_API.",
        )


@contextlib.asynccontextmanager
async def open_server(settings: Settings, *, first: str | None = None) -> AsyncIterator[Server]:
    """The server of these settings; of several, perhaps this one `first`, otherwise any.

    A key is shown to that server only, not to where its links lead.
    """
    key = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}

    own = {place_of(httpx2.URL(address)) for address in settings.servers}

    async def show_key(request: httpx2.Request) -> None:
        if place_of(request.url) in own:
            request.headers.update(key)

    async with httpx2.AsyncClient(
        base_url=settings.servers[0],
        timeout=answer_within.total_seconds(),
        event_hooks={"request": [show_key]},
        limits=httpx2.Limits(keepalive_expiry=connections_kept_seconds),
        verify=certificates(),
    ) as http:
        yield Server(settings, http, first=first)


async def keep_alive(event: str, about: Mapping[str, Any]) -> None:
    """Let no connection outlive the host at its other end, whether that is a server's or a proxy's."""
    if event == "connection.connect_tcp.complete":
        with contextlib.suppress(OSError):  # it is broken already
            enable_keepalive(about["return_value"].get_extra_info("socket"))


def place_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Which server an address leads to, however it is written."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def encode_body(body: object) -> bytes:
    """JSON as it is sent: ids and moments as text, durations as seconds. Raises PayloadInvalid."""
    try:
        try:
            return json.dumps(
                body, default=encode_value, allow_nan=False, ensure_ascii=False, separators=(",", ":")
            ).encode()
        except UnicodeEncodeError:  # half a pair of surrogates: the server is to say what is wrong with it
            return json.dumps(body, default=encode_value, allow_nan=False).encode()
    except (RecursionError, TypeError, ValueError) as error:
        raise PayloadInvalid.of(error) from error


def encode_value(value: object) -> object:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Output():
            return vars(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def read_answer(answer: httpx2.Response, otherwise: type[HoldfastError] = RequestInvalid) -> Any:
    """The answer's JSON. Raises the error that a problem stands for; `otherwise` for one that is not ours."""
    if answer.is_success:
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json and answer.content else {}
    problem = read_problem(answer)
    detail = str(problem.get("detail") or f"{answer.status_code} {answer.reason_phrase}")
    if answer.status_code >= 500:
        otherwise = ServerUnreachable if answer.status_code in AWAY else HoldfastError
    kind = BY_CODE.get(str(problem.get("code")), otherwise)
    fields = [f"{'.'.join(map(str, one['loc']))}: {one['message']}" for one in problem.get("errors") or []]
    if kind is KeyRefused:
        raise KeyRefused(detail, fix="Set HOLDFAST_KEY to a key that counts there.")
    if issubclass(kind, errors.Failure):
        kind = otherwise
    raise kind("\n".join([detail, *fields]))


def read_problem(answer: httpx2.Response) -> dict[str, Any]:
    """The problem that a refusal says; nothing of what is not ours."""
    try:
        return dict(answer.json())
    except (ValueError, TypeError):
        return {}
