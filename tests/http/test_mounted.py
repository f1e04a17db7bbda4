"""`hf.asgi()`: the API as a part of somebody's own server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.engine.store.commands import Store
from holdfast.postgres.connections import Address, open_pool
from holdfast.testing import Database
from holdfast.testing.ground import KEPT
from tests.eventually import eventually
from tests.http.conftest import client, keys


@pytest.fixture
def hf(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    monkeypatch.setenv("HOLDFAST_OBJECTS", f"file://{tmp_path}/objects")
    return Holdfast(database.url)


@pytest.fixture
def shop(hf: Holdfast) -> FastAPI:
    """Somebody's server, with ours at /holdfast."""
    shop = FastAPI(lifespan=hf.lifespan)
    shop.mount("/holdfast", hf.asgi())
    return shop


async def connections(database: Database) -> int:
    async with open_pool(Address(given=database.url), connections=1) as pool:
        count: int = await pool.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend' and application_name <> $1",
            KEPT["application_name"],
        )
    return count


async def all_are_closed(database: Database) -> None:
    """A session that was told to end may be listed for a moment yet."""

    async def look() -> bool:
        return await connections(database) == 0

    await eventually(look, "the end of the connections")


@contextlib.asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    async with app.router.lifespan_context(app):
        yield


@pytest.mark.deep
async def test_it_serves_the_tasks_of_its_host(shop: FastAPI, hf: Holdfast, store: Store) -> None:
    @hf.task
    def invoice(order: int) -> str:
        return f"INV-{order}"

    key = (await keys(store))["operator"]
    async with running(shop), client(shop, key) as http:
        handle = await invoice.astart(42)
        found = await http.get("/holdfast/api/v1/tasks")
        document = (await http.get("/holdfast/api/openapi.json")).json()
    assert document["servers"] == [{"url": "/holdfast"}]
    assert [task["id"] for task in found.json()["items"]] == [str(handle.id)]


async def test_every_request_needs_a_key(shop: FastAPI) -> None:
    async with running(shop), client(shop, host="shop.example") as http:
        refused = await http.get("/holdfast/api/v1/tasks")
        alive = await http.get("/holdfast/health")
    assert (refused.status_code, refused.json()["code"]) == (401, "key-refused")
    assert alive.status_code == 200


async def test_the_page_leads_to_its_own_prefix(shop: FastAPI) -> None:
    async with running(shop), client(shop) as http:
        http.follow_redirects = True
        page = await http.get("/holdfast")
        assert page.url.path == "/holdfast/"
        assert 'href="health"' in page.text


async def test_its_connections_end_with_the_server(shop: FastAPI, database: Database) -> None:
    async with running(shop):
        assert await connections(database) > 0
    await all_are_closed(database)


async def test_a_host_without_our_lifespan_opens_it_with_the_first_request(hf: Holdfast, database: Database) -> None:
    ours = hf.asgi()
    shop = FastAPI()
    shop.mount("/holdfast", ours)
    assert await connections(database) == 0
    async with client(shop) as http:
        for _ in range(2):
            assert (await http.get("/holdfast/ready")).status_code == 200
    await ours.close()
    await all_are_closed(database)


async def test_as_a_server_of_its_own_it_lives_as_long_as_the_server(hf: Holdfast, database: Database) -> None:
    ours = hf.asgi()
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    life = asyncio.create_task(ours({"type": "lifespan", "asgi": {}}, events.get, heard.put))
    await events.put({"type": "lifespan.startup"})
    assert await heard.get() == {"type": "lifespan.startup.complete"}
    assert await connections(database) > 0
    await events.put({"type": "lifespan.shutdown"})
    assert await heard.get() == {"type": "lifespan.shutdown.complete"}
    await life
    await all_are_closed(database)


async def test_a_database_that_is_away_is_reported_without_its_address() -> None:
    shop = FastAPI()
    shop.mount("/holdfast", Holdfast("postgresql://nobody@127.0.0.1:1/nowhere").asgi())
    async with client(shop) as http:
        answer = await http.get("/holdfast/api/v1/tasks")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert answer.headers["retry-after"]
    assert "127.0.0.1:1" not in answer.text
