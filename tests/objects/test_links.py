"""A link of the local folder does what it was made for, once, in time, and nothing else; what fails leaves nothing."""

import asyncio
import hashlib
import socket
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from itsdangerous import URLSafeSerializer

from holdfast.engine.store.commands import Store
from holdfast.errors import RequestInvalid, UploadTooLarge
from holdfast.objects import Upload, UploadSpec
from holdfast.objects.local import Folder
from holdfast.testing import Clock
from tests.eventually import eventually_sync

KEY = "users/ada/tasks/7/inputs/table.csv"
BODY = b"a,b\n1,2\n"
SHA256 = hashlib.sha256(BODY).hexdigest()


class Harness:
    """Signs links as a server would."""

    def __init__(self, folder: Folder, store: Store, server: str) -> None:
        self.folder, self.store, self.server = folder, store, server

    async def upload(self, key: str = KEY, **promise: Any) -> Upload:
        upload = UploadSpec(key, **{"content_type": "text/csv", "size": len(BODY), "most_bytes": 1000, **promise})
        now = await self.store.now()
        return await self.folder.sign_upload(upload, now=now, lasting=timedelta(minutes=15), server=self.server)

    async def download(self, key: str = KEY, **fields: Any) -> str:
        kind = {"filename": "table.csv", "content_type": "text/csv"} | fields
        now = await self.store.now()
        link = await self.folder.sign_download(key, **kind, now=now, lasting=timedelta(minutes=15), server=self.server)
        return link.url


@pytest.fixture
def harness(folder: Folder, store: Store, server: str) -> Harness:
    return Harness(folder, store, server)


async def send(http: httpx2.AsyncClient, link: Upload, body: Any = BODY, **headers: str) -> httpx2.Response:
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.request(link.method, link.url, content=body, headers=link.headers | extra)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def left(folder: Folder) -> list[Path]:
    """Every file that is neither an object's own nor the folder's."""
    return [path for path in folder.folder.rglob("*") if path.is_file() and path.parent.name == ".incoming"]


async def test_what_was_promised_is_taken_and_given_back(harness: Harness, http: httpx2.AsyncClient) -> None:
    link = await harness.upload(sha256=SHA256)
    answer = await send(http, link)
    assert (answer.status_code, answer.json()) == (200, {"bytes": len(BODY), "sha256": SHA256})
    fetched = await http.get(await harness.download(filename='Umsätze/"2030".csv'))
    assert (fetched.status_code, fetched.content) == (200, BODY)
    assert fetched.headers["content-type"].startswith("text/csv")
    assert fetched.headers["content-disposition"] == (
        "attachment; filename=\"Ums_tze__2030_.csv\"; filename*=UTF-8''Ums%C3%A4tze__2030_.csv"
    )


async def test_who_has_the_link_needs_no_key(harness: Harness, http: httpx2.AsyncClient, store: Store) -> None:
    await store.keys.make("ada", ["user"])
    assert (await send(http, await harness.upload())).status_code == 200
    assert (await http.get(await harness.download())).content == BODY


async def test_a_name_that_the_server_does_not_go_by_is_refused_here_too(
    harness: Harness, http: httpx2.AsyncClient
) -> None:
    link = await harness.upload()
    assert problem(await send(http, link, host="evil.example")) == (403, "host-refused")
    assert problem(await send(http, link, origin="https://evil.example")) == (403, "origin-refused")


async def test_a_link_is_good_up_to_its_last_moment(harness: Harness, http: httpx2.AsyncClient, clock: Clock) -> None:
    link, other, out = await harness.upload(), await harness.upload(), await harness.download()
    clock.advance(minutes=15)
    assert (await send(http, link)).status_code == 200
    assert (await http.get(out)).status_code == 200
    clock.advance(seconds=0.001)
    late = await send(http, other)
    assert problem(late) == (403, "url-refused")
    assert "expired" in late.json()["detail"]
    assert "POST /tasks/{id}/upload-urls" in late.json()["detail"]
    assert problem(await http.get(out)) == (403, "url-refused")


async def test_a_forged_link_is_refused(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    link = await harness.upload()
    address, _, token = link.url.rpartition("/")
    payload, _, signature = token.rpartition(".")
    guess = URLSafeSerializer("guessed", salt="holdfast.objects")
    fields = guess.load_payload(payload.encode())
    changes = {
        "id": "0" * 32, "method": "GET", "key": "users/bob/x", "content_type": "text/html", "size": 9,
        "expires_at": "2099-01-01T00:00:00+00:00", "most_bytes": 10**9,
    }  # fmt: skip
    assert changes.keys() <= fields.keys() | {"filename", "sha256"}
    forged = [f"{guess.dump_payload({**fields, name: value}).decode()}.{signature}" for name, value in changes.items()]
    forged += [payload, f"{payload}.", f".{signature}", token[:-2], f"{payload}.{signature[::-1]}", "x", "%00", "ü"]
    forged += [str(guess.dumps(fields))]
    for one in forged:
        answer = await send(http, Upload(f"{address}/{one}", "PUT", link.headers, link.expires_at))
        assert problem(answer) == (403, "url-refused"), one
        assert "not made here" in answer.json()["detail"]
    assert await folder.keys("users") == []
    assert (await send(http, link)).status_code == 200


async def test_a_link_works_once(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    link = await harness.upload()
    assert (await send(http, link)).status_code == 200
    again = await send(http, link, b"x,y\n1,2\n")
    assert problem(again) == (403, "url-refused")
    assert "used already" in again.json()["detail"]
    assert await folder.sha256(KEY) == SHA256
    assert (await send(http, await harness.upload(), b"x,y\n1,2\n")).status_code == 200
    assert await folder.sha256(KEY) != SHA256


async def test_that_a_link_was_used_outlives_the_server(
    harness: Harness, http: httpx2.AsyncClient, folder: Folder
) -> None:
    link = await harness.upload()
    assert (await send(http, link)).status_code == 200
    reopened = Folder(folder.folder).open()
    opened = reopened.read_link(link.url.rpartition("/")[2], "PUT")
    assert opened.key == KEY
    assert problem(await send(http, link)) == (403, "url-refused")


async def test_a_link_is_for_one_direction(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    link, out = await harness.upload(), await harness.download()
    assert problem(await send(http, Upload(out, "PUT", link.headers, link.expires_at))) == (403, "url-refused")
    assert problem(await http.get(link.url)) == (403, "url-refused")
    assert await folder.find(KEY) is None


async def chunks(body: bytes, size: int = 3) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize(
    ("promise", "wrong", "refused", "right"),
    [
        ({}, BODY + b"3", (413, "upload-too-large"), BODY),
        ({"size": None, "most_bytes": 7}, BODY, (413, "upload-too-large"), BODY[:7]),
        ({}, BODY[:-1], (422, "upload-incomplete"), BODY),
        ({"sha256": SHA256}, BODY[::-1], (422, "upload-incomplete"), BODY),
    ],
)
async def test_what_was_not_promised_is_refused_and_may_be_sent_right(
    harness: Harness, http: httpx2.AsyncClient, folder: Folder, promise: dict[str, Any], wrong: bytes,
    refused: tuple[int, str], right: bytes,
) -> None:  # fmt: skip
    link = await harness.upload(**promise)
    for body in (wrong, chunks(wrong)):
        assert problem(await send(http, link, body)) == refused
        assert (await folder.find(KEY), left(folder)) == (None, [])
    assert (await send(http, link, right)).status_code == 200


async def test_who_sends_much_too_much_still_hears_why(
    harness: Harness, http: httpx2.AsyncClient, folder: Folder
) -> None:
    link, much = await harness.upload(), b"x" * (40 << 20)
    for body in (much, chunks(much, 1 << 20)):
        assert problem(await send(http, link, body)) == (413, "upload-too-large")
    assert left(folder) == []


async def test_another_type_is_refused(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    link = await harness.upload()
    for given in ("text/html", "text/csv; charset=utf-8", "", "TEXT/CSVX"):
        assert problem(await send(http, link, Content_Type=given)) == (415, "upload-type-wrong")
    assert await folder.find(KEY) is None
    assert (await send(http, link)).status_code == 200


async def test_an_empty_file_is_a_file(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    link = await harness.upload(size=0)
    assert (await send(http, link, b"")).json() == {"bytes": 0, "sha256": hashlib.sha256().hexdigest()}
    assert problem(await send(http, link, b"")) == (403, "url-refused")
    assert (await http.get(await harness.download())).content == b""


async def test_too_much_is_refused_before_it_is_sent(harness: Harness) -> None:
    link = await harness.upload()
    parts = urlsplit(link.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as line:
        head = f"PUT {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: text/csv\r\n"
        line.sendall(f"{head}Content-Length: 9000000000\r\n\r\n".encode())
        assert (await asyncio.to_thread(line.recv, 20)).startswith(b"HTTP/1.1 413 ")


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    harness: Harness, http: httpx2.AsyncClient, folder: Folder
) -> None:
    size = 5 << 20
    link = await harness.upload(size=size, most_bytes=size)
    parts = urlsplit(link.url)
    head = (
        f"PUT {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: text/csv\r\nContent-Length: {size}\r\n\r\n"
    )

    def break_off() -> None:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as line:
            line.sendall(head.encode() + b"x" * (2 << 20))
            eventually_sync(lambda: left(folder))

    await asyncio.to_thread(break_off)
    await asyncio.to_thread(eventually_sync, lambda: not left(folder))
    assert await folder.keys("users") == []
    assert (await send(http, link, b"y" * size)).status_code == 200


async def test_of_two_at_once_by_one_link_one_wins_and_is_whole(
    harness: Harness, http: httpx2.AsyncClient, folder: Folder
) -> None:
    size = 3 << 20
    for round_number in range(5):
        key = f"users/ada/{round_number}"
        link = await harness.upload(key, size=size, most_bytes=size)
        bodies = [bytes([letter]) * size for letter in b"ab"]
        answers = await asyncio.gather(*(send(http, link, chunks(body, 1 << 19)) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 403]
        won = next(answer.json()["sha256"] for answer in answers if answer.status_code == 200)
        assert await folder.sha256(key) == won
        assert won in [hashlib.sha256(body).hexdigest() for body in bodies]
    assert left(folder) == []


async def test_what_is_fetched_cannot_act_as_a_page_of_ours(harness: Harness, http: httpx2.AsyncClient) -> None:
    body = b"<h1 style='color: red'>hi</h1><svg></svg><script>alert(1)</script>"
    assert (await send(http, await harness.upload(content_type="text/html", size=len(body)), body)).status_code == 200
    url = await harness.download(content_type="text/html", filename="report.html")
    for answer in (await http.get(url), await http.head(url)):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'; style-src 'unsafe-inline'")
        assert "script" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["content-length"] == str(len(body))


async def test_a_part_can_be_fetched(harness: Harness, http: httpx2.AsyncClient) -> None:
    await send(http, await harness.upload())
    part = await http.get(await harness.download(), headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, BODY[2:5])


async def test_what_is_gone_is_missing(harness: Harness, http: httpx2.AsyncClient) -> None:
    assert problem(await http.get(await harness.download())) == (404, "object-missing")


async def test_files_are_for_their_owner_only(harness: Harness, http: httpx2.AsyncClient, folder: Folder) -> None:
    assert (await send(http, await harness.upload())).status_code == 200
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder.folder, *folder.folder.rglob("*"))}
    assert {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


async def test_nothing_is_signed_that_could_not_be_kept(harness: Harness) -> None:
    with pytest.raises(UploadTooLarge):
        await harness.upload(size=1001)
    for promise in ({"sha256": "A" * 64}, {"size": -1}, {"content_type": "text/csv\r\nX: y"}, {"content_type": "csv"}):
        with pytest.raises(RequestInvalid):
            await harness.upload(**promise)
