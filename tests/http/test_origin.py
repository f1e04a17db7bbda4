"""A browser cannot be made to call the server under a foreign name, or from a foreign page."""

from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.api import make_app
from holdfast.engine.store.commands import Store
from holdfast.errors import SettingInvalid
from holdfast.http.access import refuse_open_server
from holdfast.objects.local import Folder
from holdfast.postgres.connections import Address, open_pool
from holdfast.testing import Database
from tests.http.conftest import client


@pytest.mark.parametrize(
    ("host", "let_in"),
    [
        ("localhost:7777", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:7777", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.nip.io:7777", False),
        ("127.0.0.2", False),
        ("localhost@evil.example", False),
        ("evil.example#localhost", False),
        ("localhost:x", False),
        ("[::1", False),
        ("", False),
    ],
)
async def test_on_loopback_only_the_names_of_loopback_count(http: httpx2.AsyncClient, host: str, let_in: bool) -> None:
    for path in ("/", "/health", "/api/v1/tasks"):
        answer = await http.get(path, headers={"Host": host})
        assert answer.status_code == (200 if let_in else 403)
        if not let_in:
            assert answer.json()["code"] == "host-refused"


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [
        ("http://localhost:7777", True),
        ("http://LOCALHOST:7777", True),
        ("http://localhost:3000", False),
        ("http://127.0.0.1:7777", False),
        ("http://evil.example", False),
        ("https://localhost.evil.example:7777", False),
        ("http://localhost:7777@evil.example", False),
        ("null", False),
        ("", False),
        ("file://", False),
    ],
)
async def test_a_page_may_call_only_the_server_it_came_from(
    http: httpx2.AsyncClient, origin: str, let_in: bool
) -> None:
    answer = await http.post("/dispatch/tasks", json={"task": "mail"}, headers={"Origin": origin})
    assert answer.status_code == (201 if let_in else 403)
    if not let_in:
        assert answer.json()["code"] == "origin-refused"


async def test_no_page_of_another_site_may_read(http: httpx2.AsyncClient) -> None:
    answer = await http.options("/api/v1/tasks", headers={"Access-Control-Request-Method": "POST"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.deep
async def test_bound_elsewhere_the_configured_names_count(database: Database, store: Store, tmp_path: Path) -> None:
    objects = Folder(tmp_path)
    key = await store.keys.make("ada", ["user"])
    async with open_pool(Address(given=database.url), connections=2) as pool:
        named = make_app(pool, database="", objects=objects, loopback=False, hosts=["tasks.example"])
        assert await statuses(named, key.secret) == {"tasks.example": 200, "localhost": 403, "other.example": 403}
        unnamed = make_app(pool, database="", objects=objects, loopback=False)
        assert set((await statuses(unnamed, key.secret)).values()) == {200}
        added = make_app(pool, database="", objects=objects, hosts=["tasks.example"])
        assert await statuses(added, key.secret) == {"tasks.example": 200, "localhost": 200, "other.example": 403}


async def statuses(app: FastAPI, key: str) -> dict[str, int]:
    answers = {}
    for host in ("tasks.example", "localhost", "other.example"):
        async with client(app, key, host) as http:
            answers[host] = (await http.get("/api/v1/tasks")).status_code
    return answers


async def test_without_a_key_a_server_does_not_open_to_other_machines(store: Store) -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        await refuse_open_server(store, host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "tasks.example", ""):  # noqa: S104
        with pytest.raises(SettingInvalid, match="holdfast keys create"):
            await refuse_open_server(store, host)
    key = await store.keys.make("ops", ["operator"])
    await refuse_open_server(store, "0.0.0.0")  # noqa: S104
    await store.keys.revoke(key.id)
    with pytest.raises(SettingInvalid):
        await refuse_open_server(store, "0.0.0.0")  # noqa: S104
