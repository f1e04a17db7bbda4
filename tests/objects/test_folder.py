"""The folder: shared by many, killed at any moment, full or closed; what is in it stays whole."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import psutil
import pytest

from holdfast.api import make_app
from holdfast.errors import ObjectsUnreachable, SettingInvalid, UrlRefused
from holdfast.objects import UploadSpec, local, open_objects
from holdfast.objects.cloud import Bucket
from holdfast.objects.local import Folder
from holdfast.objects.signed_links import FolderLink, read_secret
from holdfast.postgres.connections import Address, open_pool
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.http.conftest import client

NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def parts(*given: bytes) -> AsyncIterator[bytes]:
    for part in given:
        yield part


def unused_link() -> FolderLink:
    return FolderLink("0" * 32, "PUT", "a/b", "text/csv", NOW, most_bytes=1 << 30)


def test_by_default_it_is_in_the_home_folder(tmp_path: Path) -> None:
    objects = open_objects(Settings(home=tmp_path / "home"))
    assert objects.label == f"the folder {tmp_path}/home/objects"
    assert (tmp_path / "home/objects/.signing-key").stat().st_mode & 0o777 == 0o600


def test_an_address_of_a_file_names_a_folder(tmp_path: Path) -> None:
    assert open_objects(Settings(objects=f"file://{tmp_path}/my%20files")).label == f"the folder {tmp_path}/my files"


def test_a_folder_that_cannot_be_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingInvalid, match="HOLDFAST_OBJECTS=file:///var/lib/holdfast"):
        Folder(tmp_path / "file").open()


def test_all_who_come_at_once_get_one_secret(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / str(number)
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(lambda _, path=path: read_secret(path), range(8)))
        assert len(found) == 1
    (tmp_path / "broken").write_text("short")
    assert len(read_secret(tmp_path / "broken")) == 64


def test_what_a_killed_server_left_is_removed_in_time(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    left, mark = folder.folder / ".incoming/left", folder.folder / ".used/left"
    for path in (left, mark):
        path.write_bytes(b"x")
    now = time.time()

    def open_after(age: timedelta) -> None:
        monkeypatch.setattr(time, "time", lambda: now + age.total_seconds())
        Folder(folder.folder).open()

    for age, there in ((timedelta(minutes=50), [True, True]), (timedelta(minutes=61), [False, True])):
        open_after(age)
        assert [path.exists() for path in (left, mark)] == there
    open_after(timedelta(days=8, minutes=1))
    assert not mark.exists()


async def test_a_crash_before_the_answer_lets_the_client_send_it_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    appear = folder._appear

    def die(path: Path, key: str) -> None:
        appear(path, key)
        raise OSError(errno.EIO, "the power went")

    monkeypatch.setattr(folder, "_appear", die)
    with pytest.raises(ObjectsUnreachable):
        await folder.receive(unused_link(), parts(b"one"))
    monkeypatch.undo()
    await folder.check_unused(unused_link())
    assert (await folder.receive(unused_link(), parts(b"one"))).bytes == 3
    with pytest.raises(UrlRefused):
        await folder.receive(unused_link(), parts(b"two"))


async def test_without_hard_links_a_copy_is_a_real_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    await folder.receive(unused_link(), parts(b"one"))
    monkeypatch.setattr(os, "link", refuse)
    await folder.copy("a/b", "c/d")
    assert (folder.path("c/d").read_bytes(), folder.path("c/d").stat().st_nlink) == (b"one", 1)


async def test_a_full_disk_is_reported_and_leaves_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local, "write_all", full)
    with pytest.raises(ObjectsUnreachable, match="No space left"):
        await folder.receive(unused_link(), parts(b"one"))
    assert await folder.find("a/b") is None
    assert list((folder.folder / ".incoming").iterdir()) == []


async def test_who_is_cancelled_in_the_middle_leaves_nothing(folder: Folder) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * local.written_at_once
            begun.set()
            await asyncio.Event().wait()

    upload = asyncio.create_task(folder.receive(unused_link(), endless()))
    await begun.wait()
    assert len(list((folder.folder / ".incoming").iterdir())) == 1
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert list((folder.folder / ".incoming").iterdir()) == []


async def test_writing_beside_a_delete_loses_nothing(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"x")

    async def write() -> None:
        for number in range(30):
            await folder.put(f"u/deep/er/{number}", tmp_path / "given", content_type="a/b")

    writing = asyncio.create_task(write())
    gone = 0
    while not writing.done():
        gone += await folder.delete("u")
    await writing
    assert gone + len(await folder.keys("u")) == 30


async def test_a_bucket_has_no_links_here(database: Database) -> None:
    bucket = Bucket.__new__(Bucket)
    async with (
        open_pool(Address(given=database.url), connections=2) as pool,
        client(make_app(pool, database="", objects=bucket)) as http,
    ):
        for method in ("PUT", "GET", "HEAD"):
            assert (await http.request(method, "/objects/x")).status_code == 404


SERVER = """
import asyncio, sys, uvicorn
from pathlib import Path
from holdfast.api import make_app
from holdfast.postgres.connections import Address, open_pool
from holdfast.objects.local import Folder

async def serve(url, folder, port):
    async with open_pool(Address(given=url), connections=2) as pool:
        app = make_app(pool, database="", objects=Folder(Path(folder)).open())
        server = uvicorn.Server(uvicorn.Config(app, port=int(port), log_config=None, access_log=False))
        await server.serve()

asyncio.run(serve(*sys.argv[1:]))
"""


class Apart:
    """A server in a process of its own."""

    def __init__(self, database: Database, folder: Folder, port: int) -> None:
        command = [sys.executable, "-c", SERVER, database.url, str(folder.folder), str(port)]
        self.process = subprocess.Popen(command)
        self.url = f"http://127.0.0.1:{port}"
        while True:
            try:
                httpx2.get(f"{self.url}/health")
                return
            except httpx2.HTTPError:
                assert self.process.poll() is None
                threading.Event().wait(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(30)

    @property
    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


@pytest.mark.long
async def test_any_size_needs_the_same_memory_and_a_kill_leaves_no_object(
    database: Database, folder: Folder, unused_port: int, http: httpx2.AsyncClient
) -> None:
    size, part = 200 << 20, b"x" * (1 << 20)
    apart = Apart(database, folder, unused_port)

    async def sign(key: str, size: int = size) -> str:
        link = await folder.sign_upload(
            UploadSpec(key, "a/b", size, size), now=NOW, lasting=timedelta(hours=1), server=apart.url
        )
        return link.url

    try:
        await http.put(await sign("u/small", 0), content=b"", headers={"Content-Type": "a/b"})
        before, most = apart.rss, 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal most
            for _ in range(200):
                most = max(most, apart.rss)
                yield part

        answer = await http.put(await sign("u/large"), content=body(), headers={"Content-Type": "a/b"})
        assert answer.json()["bytes"] == size
        assert most - before < 30 << 20

        async def broken() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield part
            apart.stop(signal.SIGKILL)
            yield part

        again = await sign("u/killed", 40 << 20)
        with pytest.raises(httpx2.HTTPError):
            await http.put(again, content=broken(), headers={"Content-Type": "a/b"})
        assert [one.key for one in await folder.keys("u")] == ["u/large", "u/small"]
        apart = Apart(database, folder, unused_port)
        assert (await http.put(again, content=part * 40, headers={"Content-Type": "a/b"})).status_code == 200
    finally:
        apart.stop()
