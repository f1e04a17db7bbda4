"""While the database is away the answer is 503 and when to ask again; nothing secret is told or logged."""

import asyncio
import logging
from pathlib import Path

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI

from holdfast.api import make_app
from holdfast.engine.store.commands import Store
from holdfast.objects.local import Folder
from holdfast.testing import Database
from tests.http.conftest import client
from tests.http.test_roles import MISSING, ROUTES
from tests.promises.stage import submit, take_one


@pytest.mark.deep
async def test_without_a_database_every_route_is_503(tmp_path: Path) -> None:
    pool = await asyncpg.create_pool("postgresql://nobody@127.0.0.1:1/none", min_size=0, max_size=50)
    async with pool, client(make_app(pool, database="gone", objects=Folder(tmp_path).open())) as http:

        async def ask(method: str, path: str) -> httpx2.Response:
            return await http.request(
                method,
                path.replace("{task_id}", MISSING).replace("{name}", "x").replace("{entry_id:uuid}", MISSING),
                json={},
            )

        answers = dict(zip(ROUTES, await asyncio.gather(*(ask(*route) for route in ROUTES)), strict=True))
    for (_, path), answer in answers.items():
        assert "127.0.0.1" not in answer.text
        if path in ("/", "/health"):
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), path
            assert answer.json()["code"] == "database-unreachable"


async def test_a_database_that_comes_back_is_used_again(http: httpx2.AsyncClient, database: Database) -> None:
    assert (await http.get("/api/v1/tasks")).status_code == 200
    database.ask_owner(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1 and usename = 'holdfast_app'",
        database.name,
    )
    assert (await http.post("/dispatch/tasks", json={"task": "a", "key": "once"})).status_code == 201
    assert (await http.get("/api/v1/tasks")).json()["approx_count"] == 1


async def test_a_mistake_of_ours_is_a_problem_that_tells_nothing(
    app: FastAPI, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(app.state.guard, "identify", broken)
    async with client(app) as http:
        answer = await http.get("/api/v1/tasks")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "internal-server-error"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "canary" not in answer.text


async def test_no_secret_reaches_a_log_or_an_error(
    app: FastAPI, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = await store.keys.make("all", ["user", "worker", "operator"])
    task = await submit(store)
    lease = await take_one(store)
    held = {"task_id": str(task), "attempt": 1, "lease_token": str(lease.token)}
    texts = ""
    async with client(app, key.secret) as http:
        for path, body in (
            ("heartbeat", held),
            ("checkpoint", {**held, "step": ""}),
            ("task-complete", {**held, "attempt": 2, "status": "completed"}),
            ("task-complete", {**held, "status": "completed", "result": "\0"}),
            ("task-complete", {**held, "status": "x"}),
        ):
            texts += (await http.post(f"/internal/{path}", json=body)).text
    async with client(app, key.secret + "x") as http:
        texts += (await http.get("/api/v1/tasks")).text
    texts += caplog.text
    assert key.secret not in texts
    assert str(lease.token) not in texts
