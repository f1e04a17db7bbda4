"""The live feed over HTTP: no gap, no double over reconnects and restarts, and nothing left of who goes away."""

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from holdfast.api import events, make_app
from holdfast.cli.up import bind
from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.engine.task import Submission
from holdfast.http.access import Guard
from holdfast.objects.local import Folder
from holdfast.postgres.connections import Address, open_pool
from holdfast.settings import web_address
from holdfast.testing import Database
from tests.promises.stage import submit
from tests.promises.test_feed import TASKS_EACH, WRITERS, transaction, write

EVENTS = "/api/v1/events"


@dataclass
class Served:
    """An application behind a real server in this process, which can be stopped and started."""

    app: FastAPI
    feed: Feed
    listening: socket.socket = field(default_factory=lambda: bind("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return web_address(*self.listening.getsockname())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        config = uvicorn.Config(self.app, log_config=None, access_log=False, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        serving = asyncio.create_task(server.serve(sockets=[self.listening.dup()]))
        try:
            yield self.url
        finally:
            self.feed.close()
            server.should_exit = True
            await serving


@contextlib.asynccontextmanager
async def served(database: Database) -> AsyncIterator[str]:
    async with open_pool(Address(given=database.url)) as pool:
        app = make_app(pool, database="here", objects=Folder(Path("unopened")))
        one = Served(app, app.state.feed)
        with one.listening:
            async with one.running() as url:
                yield url


@pytest.fixture
async def url(database: Database) -> AsyncIterator[str]:
    async with served(database) as url:
        yield url


@dataclass(frozen=True)
class Heard:
    id: str
    event: str
    data: Any


async def listen(
    client: httpx2.AsyncClient, url: str, cursor: str | None = None, **query: str
) -> AsyncGenerator[Heard]:
    """What an EventSource would dispatch, and with an empty event what only moves its last id on."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    async with client.stream("GET", url + EVENTS, params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif fields:
                yield Heard(fields.get("id", ""), fields.get("event", ""), json.loads(fields.get("data", "null")))
                fields = {}


async def hear(url: str, **query: str) -> list[Heard]:
    """All there is until now."""
    async with httpx2.AsyncClient() as client:
        return [heard async for heard in listen(client, url, wait="false", **query) if heard.event]


@pytest.mark.deep
async def test_no_move_is_lost_or_doubled_over_reconnects_and_restarts(database: Database) -> None:
    randoms = random.Random(7)  # noqa: S311
    got: list[tuple[str, int]] = []
    async with contextlib.AsyncExitStack() as stack:
        store = await stack.enter_async_context(database.store())
        owner = await stack.enter_async_context(database.connect_owner())
        late = await stack.enter_async_context(database.connect())
        client = await stack.enter_async_context(httpx2.AsyncClient())
        first = await submit(store)
        cursor = (await store.feed()).cursor

        async def write_all() -> None:
            async with transaction(late) as held:
                await submit(held, "late")
                await asyncio.gather(*(write(database, seed) for seed in range(WRITERS)))

        writing = asyncio.create_task(write_all())
        expected = WRITERS * TASKS_EACH * 4 + 1
        restarts = 0
        while len(got) < expected:
            async with served(database) as url:
                restarts += 1
                for _ in range(4):
                    leave_after = randoms.randint(1, 100)
                    async with contextlib.aclosing(listen(client, url, cursor)) as stream:
                        async for heard in stream:
                            cursor = heard.id or cursor
                            if heard.event == "move":
                                got.append((heard.data["task_id"], heard.data["version"]))
                                leave_after -= 1
                            if leave_after == 0 or len(got) >= expected:
                                break
        await writing
        assert restarts > 2
        rows = await owner.fetch("select task_id::text, version from holdfast.event where task_id <> $1", first)
        assert sorted(got) == sorted((row["task_id"], row["version"]) for row in rows)
        places = {key: place for place, key in enumerate(got)}
        assert all(places[task, version] > places[task, version - 1] for task, version in got if version)
        assert (await store.feed(cursor)).moves == []


async def test_a_move_says_what_happened(url: str, store: Store) -> None:
    task = await submit(store, owner="me")
    (heard,) = await hear(url, cursor="start")
    assert heard.event == "move"
    assert heard.data == {
        "task_id": str(task), "lifecycle": "dispatch", "name": "work", "version": 0, "at": "2030-01-01T00:00:00+00:00",
        "verb": "submit", "from": "", "to": "Queued", "attempt": 1, "worker_id": None, "data": None,
    }  # fmt: skip
    assert await hear(url, cursor=heard.id) == []


async def test_topics_choose_lifecycles_and_tasks(url: str, store: Store) -> None:
    one, other = await submit(store), await submit(store)
    batch = await submit(store, None, lifecycle="batch")

    async def heard(topics: str) -> set[str]:
        return {heard.data["task_id"] for heard in await hear(url, topics=topics, cursor="start")}

    assert await heard("") == {str(one), str(other), str(batch)}
    assert await heard("batch") == {str(batch)}
    assert await heard(f"task:{one}, batch") == {str(one), str(batch)}
    assert await heard(f"task:{other}") == {str(other)}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"topics": "unheard-of"}, 404),
        ({"topics": "task:01b8dac5-b400-730f-8c80-71bbed710aed"}, 404),
        ({"topics": "task:7"}, 422),
        ({"cursor": "nonsense"}, 422),
        ({"cursor": "a\0b"}, 422),
        ({"wait": "perhaps"}, 422),
    ],
)
async def test_what_cannot_be_followed_is_refused_before_the_stream(
    url: str, query: dict[str, str], status: int
) -> None:
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url + EVENTS, params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_a_cursor_that_cannot_be_complete_begins_anew_and_says_so(url: str, store: Store) -> None:
    await submit(store)
    strange = "0123456789ab.7:7:"
    async with httpx2.AsyncClient() as client, contextlib.aclosing(listen(client, url, strange)) as stream:
        heard = [await anext(stream), await anext(stream)]
        assert [one.event for one in heard] == ["", "reset"]
        assert heard[1].data["code"] == "cursor-gone"
        task = await submit(store)
        while (move := await anext(stream)).event != "move":
            pass
        assert move.data["task_id"] == str(task)


async def test_an_owner_hears_only_of_its_own(url: str, store: Store) -> None:
    mine, others = await submit(store, owner="me"), await submit(store, owner="you")
    key = (await store.keys.make("mine", ["user"], owner="me")).secret
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
        moves = [heard async for heard in listen(client, "", "start", wait="false") if heard.event]
        assert [move.data["task_id"] for move in moves] == [str(mine)]
        assert (await client.get(EVENTS, params={"topics": f"task:{others}"})).status_code == 404


async def test_a_stream_outlives_the_connections_to_the_database(url: str, store: Store, database: Database) -> None:
    async with (
        httpx2.AsyncClient() as client,
        contextlib.aclosing(listen(client, url)) as stream,
        database.connect_owner() as owner,
    ):
        await anext(stream)
        for outage in range(3):
            await owner.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            task = await submit(store, key=f"after outage {outage}")
            while (move := await anext(stream)).event != "move":
                pass
            assert move.data["task_id"] == str(task)


async def test_who_goes_away_leaves_nothing_behind(url: str, store: Store) -> None:
    before = asyncio.all_tasks()
    async with httpx2.AsyncClient() as client:
        for _ in range(5):
            async with contextlib.aclosing(listen(client, url)) as stream:
                await anext(stream)
    while left := asyncio.all_tasks() - before:
        await asyncio.wait(left)


@contextlib.asynccontextmanager
async def own_feed(store: Store, **options: Any) -> AsyncIterator[str]:
    """A server with nothing but the feed, as these options have it."""
    app = FastAPI()
    app.state.guard = Guard(store, loopback=True)
    one = Served(app, Feed(store))
    app.include_router(events.routes(store, one.feed, **options))
    with one.listening:
        async with one.running() as url:
            yield url


@pytest.mark.parametrize(("each", "all_together"), [(2, 9), (9, 2)])
async def test_only_so_many_streams_are_open_at_once(store: Store, each: int, all_together: int) -> None:
    seats = events.Seats(each, all_together)
    ada, bob = [(await store.keys.make(name, ["user"])).secret for name in ("ada", "bob")]

    def caller(key: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"})

    async with own_feed(store, seats=seats) as url, caller(ada) as hers, caller(bob) as his:
        async with contextlib.aclosing(listen(hers, url)) as first, contextlib.aclosing(listen(hers, url)) as second:
            await anext(first), await anext(second)
            refused = await hers.get(url + EVENTS, params={"wait": "false"})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
            other = await his.get(url + EVENTS, params={"wait": "false"})
            assert other.status_code == (200 if all_together > each else 429)
        while (await hers.get(url + EVENTS, params={"wait": "false"})).status_code == 429:
            pass
        while seats.taken:
            await store.now()


async def test_all_streams_together_leave_connections_to_others(database: Database, store: Store) -> None:
    begin = (await store.feed()).cursor
    await submit(store)
    async with open_pool(Address(given=database.url), connections=5) as pool, database.connect_owner() as owner:
        feed = Feed(Store(pool))
        looks = [feed.looks(begin) for _ in range(20)]
        async with owner.transaction():
            await owner.execute("lock table holdfast.event in access exclusive mode")  # every look waits for it
            waiting = [asyncio.ensure_future(anext(look)) for look in looks]
            while not feed.reading.locked():
                await store.now()
            assert await Store(pool).now()
        assert all(look.moves for look in await asyncio.gather(*waiting))
        for look in looks:
            await look.aclose()


async def test_a_stream_ends_when_its_key_is_revoked(store: Store) -> None:
    key = await store.keys.make("ada", ["user"])
    async with (
        own_feed(store, asked_again=timedelta(seconds=0.05)) as url,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key.secret}"}) as client,
        contextlib.aclosing(listen(client, url)) as stream,
    ):
        await anext(stream)
        await store.keys.revoke(key.id)
        assert [heard async for heard in stream if heard.event] == []


async def test_a_stream_without_a_key_ends_when_one_is_made(store: Store) -> None:
    async with (
        own_feed(store, asked_again=timedelta(seconds=0.05)) as url,
        httpx2.AsyncClient() as client,
        contextlib.aclosing(listen(client, url)) as stream,
    ):
        await anext(stream)
        await store.keys.make("ada", ["user"])
        assert [heard async for heard in stream if heard.event] == []


async def test_who_takes_nothing_is_let_go(store: Store) -> None:
    for _ in range(4):
        await store.submit(*(Submission("work") for _ in range(500)))
    app = FastAPI()
    app.state.guard = Guard(store, loopback=True)
    one = Served(app, Feed(store))
    app.include_router(events.routes(store, one.feed, stalled=timedelta(seconds=0.2)))
    with one.listening, socket.socket() as lazy:
        one.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        async with one.running():
            loop = asyncio.get_running_loop()
            await loop.sock_connect(lazy, one.listening.getsockname())
            before = asyncio.all_tasks()
            await loop.sock_sendall(lazy, f"GET {EVENTS}?cursor=start HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert (await loop.sock_recv(lazy, 100)).startswith(b"HTTP/1.1 200")
            assert asyncio.all_tasks() > before
            while left := asyncio.all_tasks() - before:
                await asyncio.wait(left)
            received = b""
            while chunk := await loop.sock_recv(lazy, 1_000_000):
                received += chunk
            assert 0 < received.count(b"event: move") < 2000
