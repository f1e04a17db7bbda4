"""What every place for objects promises, by the same tests.

A folder, a real S3 server, what speaks like Azure; and a server of Holdfast before a folder and before S3.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from holdfast.errors import ObjectMissing, RequestInvalid, UploadTooLarge
from holdfast.objects import Found, Objects, Upload, UploadSpec, open_objects
from holdfast.remote.objects import ServerObjects
from holdfast.settings import Settings
from tests.objects.servers import BUCKET
from tests.tiers import deep

BODY = b"a,b\n1,2\n"
VARIABLES = {"s3": "seaweed", "azure": "azurite", "server-s3": "seaweed"}
SCHEMES = {"s3": "s3", "azure": "az", "server-s3": "s3"}


@dataclass
class Place:
    """A place, and who signs there."""

    kind: str
    objects: Objects
    server: str
    now: datetime

    async def upload(self, key: str, body: bytes, **promise: Any) -> Upload:
        fields = {"content_type": "text/csv", "size": len(body), "most_bytes": 1 << 30, **promise}
        upload, lasting = UploadSpec(key, **fields), timedelta(minutes=5)
        return await self.objects.sign_upload(upload, now=self.now, lasting=lasting, server=self.server)

    async def send(self, http: httpx2.AsyncClient, key: str, body: bytes = BODY, **promise: Any) -> httpx2.Response:
        link = await self.upload(key, body, **promise)
        return await http.request(link.method, link.url, content=body, headers=link.headers)


@pytest.fixture(params=["folder", deep("s3"), deep("azure"), "server-folder", deep("server-s3")])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "folder":
        called = "http" in request.fixturenames  # a server is started only for those who call it
        server = request.getfixturevalue("server") if called else "http://unused"
        return Place(
            "folder", request.getfixturevalue("folder"), server, datetime(2030, 1, 1, tzinfo=UTC)
        )  # where the clock stands in tests
    if request.param == "server-folder":
        own: Objects = request.getfixturevalue("folder")
    else:
        for name, value in request.getfixturevalue(VARIABLES[request.param]).items():
            monkeypatch.setenv(name, value)
        own = open_objects(Settings(objects=f"{SCHEMES[request.param]}://{BUCKET}/{uuid4().hex}"))
    if request.param in ("server-folder", "server-s3"):
        address, objects = request.getfixturevalue("behind")
        objects.now = own
        own = ServerObjects(Settings(api=address))
    return Place(request.param, own, "http://unused", datetime.now(UTC))


async def test_what_a_client_sends_is_there(place: Place, http: httpx2.AsyncClient) -> None:
    assert await place.objects.find("users/ada/in/a b+ü.csv") is None
    answer = await place.send(http, "users/ada/in/a b+ü.csv")
    assert answer.status_code in (200, 201), answer.text
    assert await place.objects.find("users/ada/in/a b+ü.csv") == Found("users/ada/in/a b+ü.csv", len(BODY))
    assert await place.objects.sha256("users/ada/in/a b+ü.csv") == hashlib.sha256(BODY).hexdigest()


async def test_a_copy_is_a_snapshot(place: Place, http: httpx2.AsyncClient) -> None:
    await place.send(http, "users/ada/in/a")
    await place.objects.copy("users/ada/in/a", "users/ada/frozen/a")
    assert (await place.send(http, "users/ada/in/a", b"else")).is_success
    assert await place.objects.sha256("users/ada/frozen/a") == hashlib.sha256(BODY).hexdigest()
    await place.objects.copy("users/ada/in/a", "users/ada/frozen/a")
    assert await place.objects.sha256("users/ada/frozen/a") == hashlib.sha256(b"else").hexdigest()
    await place.objects.copy("users/ada/in/a", "users/ada/frozen/a")
    await place.objects.delete("users/ada/in")
    assert await place.objects.find("users/ada/frozen/a") == Found("users/ada/frozen/a", 4)


@pytest.mark.parametrize("size", [0, 3, 20 << 20])
async def test_files_go_in_and_out_whole(place: Place, tmp_path: Path, size: int) -> None:
    given, got = tmp_path / "given", tmp_path / "got"
    given.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    assert await place.objects.put("users/ada/out/a", given, content_type="text/html") == Found("users/ada/out/a", size)
    await place.objects.fetch("users/ada/out/a", got)
    assert got.read_bytes() == given.read_bytes()
    got.write_bytes(b"scribbled")
    assert (await place.objects.sha256("users/ada/out/a")) == hashlib.sha256(given.read_bytes()).hexdigest()


async def test_a_put_takes_the_place_of_what_was_there(place: Place, tmp_path: Path) -> None:
    for text in ("one", "another"):
        (tmp_path / "given").write_text(text)
        await place.objects.put("a/b", tmp_path / "given", content_type="text/plain")
    assert await place.objects.find("a/b") == Found("a/b", 7)


async def test_everything_below_a_prefix_goes_and_nothing_beside_it(place: Place, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(BODY)
    for key in ("u/1/in/a", "u/1/in/deep/b", "u/1/inputs", "u/10/in/a", "v"):
        await place.objects.put(key, tmp_path / "given", content_type="text/csv")
    assert [one.key for one in await place.objects.keys("u/1")] == ["u/1/in/a", "u/1/in/deep/b", "u/1/inputs"]
    assert await place.objects.delete("u/1/in") == 2
    assert await place.objects.delete("u/1/in") == 0
    assert [one.key for one in await place.objects.keys("u")] == ["u/1/inputs", "u/10/in/a"]
    assert await place.objects.delete("u") == 2
    assert await place.objects.keys("u") == []
    assert await place.objects.find("v")


async def test_a_missing_object_is_reported_as_missing(place: Place, tmp_path: Path) -> None:
    objects, got = place.objects, tmp_path / "got"
    for attempt in (objects.sha256("a/none"), objects.copy("a/none", "a/b"), objects.fetch("a/none", got)):
        with pytest.raises(ObjectMissing):
            await attempt
    assert not got.exists()
    assert await objects.keys("a") == []


async def test_a_client_fetches_by_a_link(place: Place, tmp_path: Path, http: httpx2.AsyncClient) -> None:
    (tmp_path / "given").write_bytes(BODY)
    await place.objects.put("a/b.csv", tmp_path / "given", content_type="text/csv")
    link = await place.objects.sign_download(
        "a/b.csv", filename="Zahlen & ü.csv", content_type="application/x-own", now=place.now,
        lasting=timedelta(minutes=5), server=place.server,
    )  # fmt: skip
    answer = await http.get(link.url)
    assert (answer.status_code, answer.content) == (200, BODY)
    assert answer.headers["content-type"] == "application/x-own"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"Zahlen & _.csv\"; filename*=UTF-8''Zahlen%20%26%20%C3%BC.csv"
    )


NO_KEYS = [
    "", "/", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a/.", ".signing-key", ".used/x", "a\0b", "a\nb",
    "a" * 256, "a/" * 460 + "a",
]  # fmt: skip


async def test_what_could_leave_its_place_is_no_key(place: Place, tmp_path: Path) -> None:
    objects = place.objects
    (tmp_path / "given").write_bytes(BODY)
    terms: dict[str, Any] = {"content_type": "a/b", "now": place.now, "lasting": timedelta(minutes=1), "server": ""}
    for key in NO_KEYS:
        for attempt in (
            place.upload(key, BODY),
            objects.sign_download(key, filename="x", **terms),
            objects.find(key),
            objects.sha256(key),
            objects.copy(key, "a/b"),
            objects.copy("a/b", key),
            objects.fetch(key, tmp_path / "got"),
            objects.put(key, tmp_path / "given", content_type="text/csv"),
            objects.delete(key),
            objects.keys(key),
        ):
            with pytest.raises(RequestInvalid):
                await attempt


async def test_nothing_is_signed_that_was_not_allowed(place: Place) -> None:
    with pytest.raises(UploadTooLarge):
        await place.upload("a/b", BODY, most_bytes=7)
    with pytest.raises(RequestInvalid):
        await place.upload("a/b", BODY, content_type="text/csv\r\nX-Other: 1")
    with pytest.raises(RequestInvalid):
        await place.objects.sign_download(
            "a/b", filename="x", content_type="a/b", now=place.now, lasting=timedelta(days=8), server="http://x"
        )
