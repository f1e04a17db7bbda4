"""A user of the server, and the worker beside it: what both do, in the words of a test."""

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx2
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Json, Lease
from holdfast.lifecycles.analysis.store import Analyses
from holdfast.objects import Objects, open_objects
from holdfast.objects.cleaner import Cleanups, clean
from holdfast.settings import Settings
from holdfast.testing.clock import Clock
from holdfast.testing.engine import Engine
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.lifecycles.analysis.app import hf

lasting = timedelta(hours=2)
TABLE = b"a,b\n1,2\n3,4\n"


class Harness:
    """Everything that is done to one database and one store of objects."""

    def __init__(self, app: FastAPI, http: httpx2.AsyncClient, store: Store, objects: Objects, engine: Engine) -> None:
        self.app = app
        self.http = http
        self.outside = http  # where links lead
        self.store = store
        self.objects = objects
        self.engine = engine
        self.analyses = Analyses.over(store)

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    # The user

    async def create(self, agents: Sequence[str] = ("lines", "size"), tool: str = "count") -> str:
        answer = await self.http.post("/tasks", json={"tool_id": tool, "agents": list(agents)})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task_id"])

    async def ask_links(self, task: str, *, parameters: bool = False, **files: Mapping[str, Any]) -> httpx2.Response:
        named = {role: {"filename": f"{role}.csv", "content_type": "text/csv", **file} for role, file in files.items()}
        given = {"files": named or {"primary": {"filename": "data.csv", "content_type": "text/csv"}}}
        return await self.http.post(f"/tasks/{task}/upload-urls", json={**given, "has_parameters": parameters})

    async def links(self, task: str, *, parameters: bool = False, **files: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self.ask_links(task, parameters=parameters, **files)
        assert answer.status_code == 200, answer.text
        uploads: dict[str, Any] = answer.json()["uploads"]
        return uploads

    async def put(self, link: Mapping[str, Any], body: bytes = TABLE, **headers: str) -> httpx2.Response:
        return await self.outside.request(
            link["method"], link["url"], content=body, headers={**link["headers"], **headers}
        )

    async def uploaded(self, agents: Sequence[str] = ("lines", "size"), body: bytes = TABLE, **parameters: Json) -> str:
        """A task whose files are there."""
        task = await self.create(agents)
        links = await self.links(task, parameters=bool(parameters))
        assert (await self.put(links["primary"], body)).status_code == 200
        if parameters:
            assert (await self.put(links["parameters"], json.dumps(parameters).encode())).status_code == 200
        return task

    async def process(self, task: str) -> httpx2.Response:
        return await self.http.post(f"/tasks/{task}/process")

    async def queued(self, agents: Sequence[str] = ("lines", "size"), body: bytes = TABLE, **parameters: Json) -> str:
        task = await self.uploaded(agents, body, **parameters)
        answer = await self.process(task)
        assert answer.status_code == 202, answer.text
        return task

    async def processing(self, agents: Sequence[str] = ("lines", "size")) -> tuple[str, Lease]:
        """A task that a worker has just taken."""
        task = await self.queued(agents)
        (lease,) = await self.store.claim_these([UUID(task)], lasting=lasting, worker="a test")
        return task, lease

    async def completed(
        self, agents: Sequence[str] = ("lines", "size"), body: bytes = TABLE, **parameters: Json
    ) -> str:
        task = await self.queued(agents, body, **parameters)
        self.work()
        assert (await self.read(task))["status"] == "COMPLETED"
        return task

    async def read(self, task: str) -> dict[str, Any]:
        answer = await self.http.get(f"/tasks/{task}")
        assert answer.status_code == 200, answer.text
        status: dict[str, Any] = answer.json()
        return status

    async def cancel(self, task: str) -> httpx2.Response:
        return await self.http.post(f"/tasks/{task}/cancel")

    async def downloads(self, task: str) -> dict[str, Any]:
        """What can be downloaded, as JSON, by name."""
        answer = await self.http.get(f"/tasks/{task}/downloads")
        assert answer.status_code == 200, answer.text
        return {one["name"]: (await self.outside.get(one["url"])).json() for one in answer.json()["downloads"]}

    async def wallet(self) -> dict[str, int]:
        answer = (await self.http.get("/wallet")).json()
        return {name: answer[name] for name in ("balance", "reserved", "spent")}

    # The worker, and time

    def work(self) -> None:
        """Run what is due now."""
        self.engine.drain(moving=False)

    async def sweep(self) -> None:
        await self.store.sweep()

    async def clean(self) -> None:
        while await clean(Cleanups.over(self.analyses), self.objects):
            pass

    async def files_of(self, task: str) -> list[str]:
        """What is left of its files: where each is, within the task's folder."""
        folder = (await self.analyses.read(UUID(task))).folder
        return sorted(one.key.removeprefix(f"{folder}/").partition("/")[0] for one in await self.objects.keys(folder))


@contextlib.asynccontextmanager
async def harness_at(engine: Engine, settings: Settings) -> AsyncIterator[Harness]:
    """A server on the engine's database, with its files where the settings say."""
    pool = engine.database.bridge()
    store, objects = Store(pool), open_objects(settings)
    await hf.declare(store)
    app = app_over(pool, objects)
    async with client(app) as http:
        yield Harness(app, http, store, objects, engine)
        assert await store.verify() == []


@contextlib.asynccontextmanager
async def harness_of(harness: Harness, user: str, amount: int = 0) -> AsyncIterator[Harness]:
    """The same server, for a user with a key and so many credits. From the first key on everybody needs one."""
    key = (await harness.store.keys.make(user, ["user"])).secret
    if amount:
        await harness.analyses.top_up(user, amount, "an operator")
    async with client(harness.app, key) as http:
        yield Harness(harness.app, http, harness.store, harness.objects, harness.engine)


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
