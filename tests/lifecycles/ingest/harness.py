"""A user who ingests documents, and the worker beside the server: what both do, in the words of a test."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
from fastapi import FastAPI

from holdfast.apps.documents.embedders import open_embedder
from holdfast.engine.store.commands import Store
from holdfast.lifecycles.ingest.store import Library
from holdfast.objects import Objects
from holdfast.remote.places import objects_of
from holdfast.settings import Settings
from holdfast.testing.clock import Clock
from holdfast.testing.engine import Engine
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.lifecycles.ingest.app import hf


class Harness:
    """Everything that is done to one database and one store of objects."""

    def __init__(
        self, app: FastAPI, http: httpx2.AsyncClient, store: Store, objects: Objects, engine: Engine, folder: Path
    ) -> None:
        self.app = app
        self.http = http
        self.store = store
        self.objects = objects
        self.engine = engine
        self.folder = folder
        self.library = Library.over(store)

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    # The user

    def write(self, name: str, content: str | bytes) -> str:
        """A file, by its address."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path.as_uri()

    async def begin(self, *files: str | dict[str, Any], **options: Any) -> str:
        answer = await self.http.post("/ingest/runs", json={"files": list(files), **options})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run_id"])

    async def ingest(self, *files: str | dict[str, Any], **options: Any) -> dict[str, Any]:
        """A run, once everything that can be done is done."""
        run = await self.begin(*files, **options)
        self.work()
        return await self.run(run)

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.get(f"/ingest/runs/{run}")
        return found

    async def items(self, run: str | dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"/ingest/runs/{id_of(run)}/items"))["items"]
        return found

    async def item(self, run: str | dict[str, Any]) -> dict[str, Any]:
        (item,) = await self.items(run)
        return item

    async def kinds(self, item: str) -> list[str]:
        """What happened to an item: step and kind of each event."""
        return [f"{one['step']} {one['kind']}" if one["step"] else one["kind"] for one in await self.events(item)]

    async def events(self, item: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"/ingest/items/{item}/events"))["items"]
        return found

    async def found(self, query: str, **options: Any) -> list[str]:
        """The names of the documents that are found, the best first, each once."""
        hits = (await self.get("/ingest/search", q=query, **options))["items"]
        return list(dict.fromkeys(one["name"] for one in hits))

    # The worker

    def work(self, *, moving: bool = True) -> None:
        """Run all there is to do; the clock is moved to when something is due, unless it is to stand still."""
        self.engine.drain(moving=moving)

    async def steps(self, item: str) -> list[str]:
        """The steps that are done, by name."""
        return [one.name for one in await self.store.steps(UUID(item)) if one.done]


@contextlib.asynccontextmanager
async def harness_at(engine: Engine, settings: Settings, folder: Path) -> AsyncIterator[Harness]:
    """A server on the engine's database, with its files where the settings say."""
    pool = engine.database.bridge()
    store, objects = Store(pool), objects_of(settings)
    await hf.declare(store)
    app = app_over(pool, objects, open_embedder(settings))
    async with client(app) as http:
        yield Harness(app, http, store, objects, engine, folder)
        assert await store.verify() == []


@contextlib.asynccontextmanager
async def harness_of(harness: Harness, user: str) -> AsyncIterator[Harness]:
    """The same server, for a user with a key. From the first key on everybody needs one."""
    key = (await harness.store.keys.make(user, ["user"])).secret
    async with client(harness.app, key) as http:
        yield Harness(harness.app, http, harness.store, harness.objects, harness.engine, harness.folder)


def id_of(run: str | dict[str, Any]) -> str:
    return run if isinstance(run, str) else str(run["run_id"])
