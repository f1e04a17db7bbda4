"""An operator who runs pipelines over HTTP, and the worker beside the server: what both do, in the words of a test."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Lease
from holdfast.remote.places import objects_of
from holdfast.settings import Settings
from holdfast.testing.clock import Clock
from holdfast.testing.engine import Engine
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.lifecycles.pipeline.app import hf, press


class Harness:
    """Everything that is done to one database."""

    def __init__(self, app: FastAPI, http: httpx2.AsyncClient, store: Store, engine: Engine) -> None:
        self.app = app
        self.http = http
        self.store = store
        self.engine = engine

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    # The operator

    async def begin(self, script: dict[str, Any] | None = None, **params: Any) -> str:
        """A job of the press; its id."""
        given = {**params, "script": script} if script else params
        answer = await self.http.post("/pipeline/jobs", json={"pipeline": "press", "params": given})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    async def run(self, script: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """A job, once everything that can be done is done."""
        job = await self.begin(script, **params)
        self.work()
        return await self.job(job)

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def job(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.get(f"/pipeline/jobs/{job}")
        return found

    async def post(self, path: str, body: object = None, *, status: int = 202) -> dict[str, Any]:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    # The worker

    def work(self) -> None:
        """Run all there is to do; the clock is moved to when something is due."""
        self.engine.drain()

    async def take(self) -> Lease:
        """The one job that is due, held by a worker that does nothing."""
        (lease,) = await self.store.claim(
            [str(press.queue)], lasting=timedelta(minutes=1), worker="idle", names=[press.name]
        )
        return lease


def statuses(job: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["status"] for one in job["stages"]}


@contextlib.asynccontextmanager
async def harness_at(engine: Engine, settings: Settings) -> AsyncIterator[Harness]:
    """A server on the engine's database, with its files where the settings say."""
    pool = engine.database.bridge()
    store = Store(pool)
    await hf.declare(store)
    app = app_over(pool, objects_of(settings))
    async with client(app) as http:
        yield Harness(app, http, store, engine)
        assert await store.verify() == []
