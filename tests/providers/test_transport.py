"""One request, one answer or one category: against a server that goes wrong in every way."""

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from holdfast.apps.providers.transport import Line, Patience, Transport
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.testing.providers import (
    Fault,
    Faults,
    Server,
    delay,
    drip,
    dropped,
    gzipped,
    html,
    lost_answer,
    status,
    truncated,
)

SECRET = "sk-very-secret"
HASTY = Patience(connect=timedelta(seconds=5), read=timedelta(seconds=2), whole=timedelta(seconds=10))


class Shelf:
    """Answers a file of lines at /lines, leads from /away to `elsewhere`, echoes everything else."""

    def __init__(self) -> None:
        self.lines = b""
        self.packed = False
        self.elsewhere = ""
        self.keys: list[str | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        self.keys.append(request.headers.get("authorization"))
        match request.url.path:
            case "/lines":
                packed = {"content-encoding": "gzip"} if self.packed else {}
                answer = Response(gzip.compress(self.lines) if self.packed else self.lines, headers=packed)
            case "/away":
                answer = RedirectResponse(self.elsewhere)
            case "/nothing":
                answer = Response(status_code=204)
            case _:
                sent = (await request.body()).decode()
                answer = Response(json.dumps({"sent": sent}), headers={"retry-after": "9"})
        await answer(scope, receive, send)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture(scope="module")
def listening() -> Iterator[Server]:
    with Server(Shelf()) as server:
        yield server


@pytest.fixture
def faults(listening: Server, shelf: Shelf, tmp_path: Path) -> Faults:
    listening.app = Faults(shelf, ledger=tmp_path / "requests.jsonl")
    return listening.app


@pytest.fixture
def server(listening: Server, faults: Faults) -> Server:
    return listening


@pytest.fixture
async def transport(server: Server) -> AsyncIterator[Transport]:
    transport = Transport(server.url, lambda: {"Authorization": f"Bearer {SECRET}"}, most_bytes=100_000)
    yield transport
    await transport.close()


async def failure_of(transport: Transport, method: str = "POST", path: str = "jobs", **more: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await transport.ask(method, path, json={"a": 1}, **more)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    return caught.value


async def test_a_good_answer_is_its_json_and_may_ask_to_wait(transport: Transport) -> None:
    answer = await transport.ask("POST", "jobs", json={"a": 1})
    assert json.loads(answer.json["sent"]) == {"a": 1}
    assert answer.again_in == timedelta(seconds=9)
    assert (await transport.ask("DELETE", "/nothing")).json is None
    assert SECRET not in repr(transport)


GOOGLE = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "13.5s"}]}}


@pytest.mark.parametrize(
    ("fault", "category", "wait"),
    [
        (status(429, {"Retry-After": "7"}), RateLimited, 7),
        (status(429, {"retry-after-ms": "1500", "Retry-After": "7"}), RateLimited, 1.5),
        (status(429, {}, GOOGLE), RateLimited, 13.5),
        (status(429, {"x-ratelimit-reset": "21"}), RateLimited, 21),
        (status(429), RateLimited, None),
        *((status(429, {"Retry-After": "7"}, {"error": {"code": code}}), Fatal, None)
          for code in ("insufficient_quota", "insufficient_quota_error", "enforced_spend_limit_reached")),
        (status(503, {"Retry-After": "7"}), Transient, 7),
        *((status(number), Transient, None) for number in (408, 409, 425, 500, 502, 504, 529)),
        *((status(number), SchemaInvalid, None) for number in (400, 413, 415, 422)),
        *((status(number), Fatal, None) for number in (401, 402, 403, 404, 405, 410, 301)),
        (html(502), Transient, None),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else "",
)  # fmt: skip
async def test_every_refusal_has_its_category_and_its_wait(
    transport: Transport, faults: Faults, fault: Fault, category: type[Failure], wait: float | None
) -> None:
    faults.add("POST", "/jobs", fault)
    failure = await failure_of(transport)
    assert type(failure) is category
    assert failure.retry_after == (None if wait is None else timedelta(seconds=wait))
    assert len(faults.requests()) == 1  # nothing is tried again


async def test_a_wait_can_be_a_moment(transport: Transport, faults: Faults) -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    faults.add("POST", "/jobs", status(429, {"Retry-After": format_datetime(in_an_hour, usegmt=True)}))
    faults.add("POST", "/jobs", status(429, {"x-ratelimit-reset": str(int(in_an_hour.timestamp()))}), nth=2)
    for _ in range(2):
        wait = (await failure_of(transport)).retry_after
        assert isinstance(wait, timedelta)
        assert timedelta(minutes=50) < wait <= timedelta(minutes=61)


@pytest.mark.parametrize("fault", [lost_answer(), dropped(), truncated(), html(200), status(200, {}, "{"), drip(5)])
async def test_what_is_not_answered_is_open(transport: Transport, faults: Faults, fault: Fault) -> None:
    transport.patience = HASTY
    faults.add("POST", "/jobs", fault)
    assert type(await failure_of(transport)) is Transient
    assert len(faults.requests()) == 1


async def test_a_server_that_never_ends_is_left_after_the_whole_time(transport: Transport, faults: Faults) -> None:
    faults.add("POST", "/jobs", drip(0.05))
    failure = await failure_of(transport, whole=timedelta(seconds=0.2))
    assert type(failure) is Transient
    assert "took too long" in failure.message


async def test_a_server_that_is_silent_is_left(transport: Transport, faults: Faults) -> None:
    transport.patience = HASTY
    faults.add("POST", "/jobs", delay(30))
    assert "ReadTimeout" in (await failure_of(transport, whole=timedelta(seconds=20))).message


async def test_a_server_that_is_not_there_is_transient(transport: Transport, server: Server) -> None:
    server.stop()
    try:
        assert "ConnectError" in (await failure_of(transport)).message
    finally:
        server.start()


async def test_no_message_holds_a_key_or_a_signature(transport: Transport, faults: Faults, server: Server) -> None:
    text = f"Wrong key {SECRET} (Bearer abcdefgh.ijk), see https://x.example/a?sig=c2VjcmV0&se=1 and sk-other-123"
    faults.add("POST", "/jobs", status(401, {}, {"error": {"message": text}}))
    message = (await failure_of(transport)).message
    assert message.endswith("Wrong key *** (Bearer ***), see https://x.example/a?*** and ***")
    faults.add("PUT", "/blob", dropped())
    message = (await failure_of(transport, "PUT", f"{server.url}/blob?sig=c2VjcmV0", signed=True)).message
    assert "c2VjcmV0" not in message
    assert "/blob does not answer" in message


async def test_a_secret_at_the_cut_of_a_long_message_is_left_out(transport: Transport, faults: Faults) -> None:
    faults.add("POST", "/jobs", status(400, {}, {"error": {"message": "x" * 290 + SECRET}}))
    assert "sk-" not in (await failure_of(transport)).message


async def test_a_signed_address_gets_no_key(transport: Transport, shelf: Shelf, server: Server) -> None:
    await transport.ask("PUT", f"{server.url}/blob", content=b"x", signed=True)
    await transport.ask("PUT", "blob", content=b"x")
    assert shelf.keys == [None, f"Bearer {SECRET}"]


async def test_a_body_is_bounded(transport: Transport) -> None:
    with pytest.raises(Transient, match="more than 100000 bytes"):
        await transport.ask("POST", "jobs", content=b"x" * 200_000)


async def test_a_status_that_is_expected_is_an_answer(transport: Transport, faults: Faults) -> None:
    faults.add("POST", "/jobs", html(404))
    answer = await transport.ask("POST", "jobs", expect=(404,))
    assert (answer.status, answer.json) == (404, None)


async def lines_of(transport: Transport, path: str = "lines") -> list[Line]:
    return [line async for line in transport.lines(path)]


@pytest.mark.parametrize("packed", [False, True])
async def test_lines_are_read_whatever_their_length(transport: Transport, shelf: Shelf, packed: bool) -> None:
    rows = [{"at": 0}, {"at": 1, "text": "x" * 3_000_000}, {"at": 2, "text": "\u2028ü"}]
    shelf.packed = packed
    shelf.lines = b"\r\n\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows)
    assert [line.json for line in await lines_of(transport)] == rows


async def test_a_line_that_is_cut_off_is_marked(transport: Transport, shelf: Shelf) -> None:
    shelf.lines = b'{"a": 1}\nnonsense\n{"a": 2}\n{"a"'
    found = await lines_of(transport)
    assert [(line.json, line.cut) for line in found] == [
        ({"a": 1}, False), (None, False), ({"a": 2}, False), (None, True),
    ]  # fmt: skip
    assert found[3].text == b'{"a"'


async def test_lines_that_end_with_the_connection_are_no_file(
    transport: Transport, faults: Faults, shelf: Shelf
) -> None:
    shelf.lines = b'{"a": 1}\n' * 1000
    faults.add("GET", "/lines", truncated())
    faults.add("GET", "/lines", html(), nth=2)
    faults.add("GET", "/lines", status(404), nth=3)
    faults.add("GET", "/lines", gzipped(), nth=4)
    with pytest.raises(Transient):
        await lines_of(transport)
    with pytest.raises(Transient, match="text/html instead of JSON"):
        await lines_of(transport)
    with pytest.raises(Fatal):
        await lines_of(transport)
    assert len(await lines_of(transport)) == 1000


async def test_a_file_that_drips_is_left_after_its_time(transport: Transport, faults: Faults, shelf: Shelf) -> None:
    shelf.lines = b'{"a": 1}\n' * 1000
    faults.add("GET", "/lines", drip(0.02))
    with pytest.raises(Transient, match="took too long"):
        async for _ in transport.lines("lines", whole=timedelta(seconds=0.2)):
            pass


async def test_a_line_without_end_is_refused(transport: Transport, shelf: Shelf) -> None:
    transport.line_most_bytes = 100_000
    shelf.lines = b"x" * 1_000_000
    with pytest.raises(SchemaInvalid, match="a line of more than"):
        await lines_of(transport)


async def test_a_redirect_to_another_server_does_not_get_the_key(transport: Transport, shelf: Shelf) -> None:
    other = Shelf()
    other.lines = b'{"a": 1}\n'
    with Server(other) as elsewhere:
        shelf.elsewhere = f"{elsewhere.url}/lines"
        assert [line.json for line in await lines_of(transport, "away")] == [{"a": 1}]
    assert other.keys == [None]
    assert shelf.keys == [f"Bearer {SECRET}"]
    shelf.elsewhere = "/away"
    with pytest.raises(Fatal, match="on and on"):
        await lines_of(transport, "away")
