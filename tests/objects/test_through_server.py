"""Files through a server: what breaks off, servers that are away, keys that do not count. test_places has the rest."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.api import worker_objects
from holdfast.engine.store.commands import Store
from holdfast.errors import ObjectsUnreachable, RequestInvalid, UploadTooLarge
from holdfast.objects import Objects, UploadSpec, open_objects
from holdfast.objects.local import Folder
from holdfast.remote import objects as remote
from holdfast.remote.objects import ServerObjects
from holdfast.remote.places import objects_of
from holdfast.remote.server import open_server
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.eventually import eventually
from tests.http.apps import Changing
from tests.http.conftest import keys
from tests.http.serving import serving
from tests.objects.cutting import cutting

SIZE = 3 << 20
BODY = bytes(range(256)) * (SIZE // 256)
KEY = "tables/7/catch.parquet"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "pause_seconds", 0.0)


@pytest.fixture
def server(behind: tuple[str, Changing], folder: Folder) -> str:
    """The address of a server on a folder of the test's own."""
    address, place = behind
    place.now = folder
    return address


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "given"
    path.write_bytes(BODY)
    return path


async def nothing_half(folder: Folder) -> None:
    """What broke off is removed as soon as the server has noticed."""

    async def look() -> bool:
        return not list((folder.folder / ".incoming").iterdir())

    await eventually(look, "no half of a file")


async def test_a_put_that_is_cut_off_is_sent_again_by_a_new_link(server: str, folder: Folder, given: Path) -> None:
    async with cutting(server, cuts=2) as (address, line):
        await ServerObjects(Settings(api=address)).put(KEY, given, content_type="a/b")
    assert len(line.links) == len(set(line.links)) == 3
    assert folder.path(KEY).read_bytes() == BODY
    await nothing_half(folder)


async def test_a_put_whose_answer_was_lost_is_sent_again_by_a_new_link(
    server: str, folder: Folder, given: Path
) -> None:
    async with cutting(server, cuts=1, after_bytes=None) as (address, line):
        await ServerObjects(Settings(api=address)).put(KEY, given, content_type="a/b")
    assert len(set(line.links)) == 2
    assert folder.path(KEY).read_bytes() == BODY


async def test_a_put_that_is_always_cut_off_leaves_what_was_there(server: str, folder: Folder, given: Path) -> None:
    (given.parent / "old").write_bytes(b"old")
    await folder.put(KEY, given.parent / "old", content_type="a/b")
    async with cutting(server, cuts=100) as (address, line):
        objects = ServerObjects(Settings(api=address))
        with pytest.raises(ObjectsUnreachable, match="the files of http"):
            await objects.put(KEY, given, content_type="a/b")
        assert len(line.links) == remote.tries
        assert await objects.sha256(KEY) == await folder.sha256(KEY)
    assert folder.path(KEY).read_bytes() == b"old"
    await nothing_half(folder)


async def test_a_fetch_that_is_cut_off_begins_anew(server: str, folder: Folder, given: Path, tmp_path: Path) -> None:
    await folder.put(KEY, given, content_type="a/b")
    async with cutting(server, cuts=1) as (address, line):
        await ServerObjects(Settings(api=address)).fetch(KEY, tmp_path / "got")
    assert len(line.links) == 2
    assert (tmp_path / "got").read_bytes() == BODY


async def test_a_fetch_that_is_always_cut_off_leaves_no_file(
    server: str, folder: Folder, given: Path, tmp_path: Path
) -> None:
    await folder.put(KEY, given, content_type="a/b")
    async with cutting(server, cuts=100) as (address, _):
        with pytest.raises(ObjectsUnreachable):
            await ServerObjects(Settings(api=address)).fetch(KEY, tmp_path / "got")
    assert not (tmp_path / "got").exists()


async def test_one_server_of_two_is_enough(server: str, given: Path, tmp_path: Path, unused_port: int) -> None:
    dead = f"http://127.0.0.1:{unused_port}"
    for api in (f"{dead},{server}", f"{server},{dead}"):
        objects = ServerObjects(Settings(api=api))
        for number in range(4):
            await objects.put(f"a/{number}", given, content_type="a/b")
            await objects.fetch(f"a/{number}", tmp_path / "got")
            assert (tmp_path / "got").stat().st_size == SIZE
    assert len(await objects.keys("a")) == 4


async def test_no_server_at_all_is_reported(unused_port: int, given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.remote.server.longest_pause_seconds", 0.0)
    monkeypatch.setattr(remote, "tries", 1)
    objects = ServerObjects(Settings(api=f"http://127.0.0.1:{unused_port}"))
    for attempt in (objects.find("a"), objects.put("a", given, content_type="a/b"), objects.fetch("a", given)):
        with pytest.raises(ObjectsUnreachable, match="The server does not answer"):
            await attempt


async def test_files_are_for_workers_only(database: Database, store: Store, given: Path, folder: Folder) -> None:
    with serving(database, folder) as address:
        await try_keys(address, await keys(store), given)
    assert await folder.find(KEY)


async def try_keys(server: str, secrets: dict[str, str], given: Path) -> None:
    unfit = {secrets["user"]: "role worker", secrets["operator"]: "role worker", "hf_none": "HOLDFAST_KEY"}
    for secret, says in unfit.items():
        objects = ServerObjects(Settings(api=server, key=secret))
        with pytest.raises(ObjectsUnreachable, match=says) as refused:
            await objects.put(KEY, given, content_type="a/b")
        assert secret not in str(refused.value)
        with pytest.raises(ObjectsUnreachable, match=says):
            await objects.find(KEY)
    await ServerObjects(Settings(api=server, key=secrets["worker"])).put(KEY, given, content_type="a/b")


async def test_links_lead_where_the_server_was_reached(server: str) -> None:
    later = datetime(2099, 1, 1, tzinfo=UTC)
    terms: dict[str, Any] = {"now": later, "lasting": timedelta(minutes=1), "server": "http://elsewhere"}
    for reached in (server, server.replace("127.0.0.1", "localhost")):
        objects = ServerObjects(Settings(api=reached))
        down = await objects.sign_download(KEY, filename="x", content_type="a/b", **terms)
        up = await objects.sign_upload(UploadSpec(KEY, "a/b", most_bytes=9), **terms)
        assert down.url.startswith(f"{reached}/objects/")
        assert up.url.startswith(f"{reached}/objects/")
        assert max(up.expires_at, down.expires_at) < later, "by the clock of the database"


async def test_a_list_of_any_length_comes_whole(
    server: str, folder: Folder, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_objects, "keys_in_a_page", 2)
    for number in range(5):
        await folder.put(f"a/{number}", given, content_type="a/b")
    objects = ServerObjects(Settings(api=server))
    assert [one.key for one in await objects.keys("a")] == [f"a/{number}" for number in range(5)]
    assert [one.key for one in await objects.keys("a/b")] == []


async def test_more_than_a_bucket_takes_by_one_link_is_refused_before_it_is_sent(
    behind: tuple[str, Changing], given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "x", "ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with given.open("wb") as file:
        file.truncate((5 << 30) + 1)
    behind[1].now = open_objects(Settings(objects="s3://mine"))
    with pytest.raises(UploadTooLarge, match="5368709120 by one link"):
        await ServerObjects(Settings(api=behind[0])).put("a/b", given, content_type="a/b")


async def test_a_link_for_a_file_of_no_size_is_not_signed(server: str) -> None:
    async with open_server(Settings(api=server)) as asked:
        with pytest.raises(RequestInvalid, match="most_bytes"):
            await asked.request("POST", f"{remote.UNDER}/upload-url", {"key": "a/b"})


def test_one_place_serves_any_event_loop(server: str, given: Path, tmp_path: Path) -> None:
    objects: Objects = objects_of(Settings(api=server))
    assert objects is objects_of(Settings(api=server))
    for _ in range(3):
        asyncio.run(objects.put("a/b", given, content_type="a/b"))
        asyncio.run(objects.fetch("a/b", tmp_path / "got"))
    assert (tmp_path / "got").stat().st_size == SIZE


def test_a_place_that_is_named_counts_also_without_a_database(tmp_path: Path) -> None:
    named = Settings(api="http://127.0.0.1:1", objects=f"file://{tmp_path}/shared")
    assert isinstance(objects_of(named), Folder)
    assert isinstance(objects_of(Settings(api="http://127.0.0.1:1", url="postgresql:///x", home=tmp_path)), Folder)
    assert isinstance(objects_of(Settings(home=tmp_path)), Folder)
    assert isinstance(objects_of(Settings(api="http://127.0.0.1:1", home=tmp_path / "own")), ServerObjects)
    assert not (tmp_path / "own").exists()
