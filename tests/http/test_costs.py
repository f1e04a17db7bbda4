"""Costs over HTTP: sums and prices as JSON numbers; a user sees their own, an operator sets prices."""

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.testing import Clock
from tests.http.conftest import client
from tests.promises.stage import submit, take, take_one


async def spend(store: Store, cents: Any, model: str = "tiny", **options: Any) -> None:
    await submit(store, **options)
    lease = await take_one(store)
    await store.keep(lease, "thought", usage=[{"model": model, "tokens_in": 3, "cost_cents": cents}])


async def items(http: httpx2.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    answer = await http.get(f"/api/v1/usage{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_an_item_is_named_by_what_it_is_grouped_by(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    await spend(store, "0.1", name="mail", owner="ada")
    clock.advance(days=1)
    await spend(store, 0.2, "large", name="post", owner="bob")
    sums = {"calls": 1, "tokens_in": 3, "tokens_out": 0}
    assert await items(http) == [
        {"model": "large", **sums, "cost_cents": 0.2}, {"model": "tiny", **sums, "cost_cents": 0.1},
    ]  # fmt: skip
    assert await items(http, "?by=day&limit=1") == [{"day": "2030-01-02", **sums, "cost_cents": 0.2}]
    assert await items(http, "?by=total") == [{"calls": 2, "tokens_in": 6, "tokens_out": 0, "cost_cents": 0.3}]
    assert await items(http, "?by=lifecycle") == [
        {"lifecycle": "dispatch", "calls": 2, "tokens_in": 6, "tokens_out": 0, "cost_cents": 0.3}
    ]
    assert [one["owner"] for one in await items(http, "?by=owner")] == ["bob", "ada"]
    assert len(await items(http, "?by=task")) == 2
    assert await items(http, "?by=name&name=mail&lifecycle=dispatch") == [{"name": "mail", **sums, "cost_cents": 0.1}]
    assert await items(http, "?since=2030-01-02T00:00:00Z&until=2030-01-02T00:00:00Z") == []
    assert (await http.get("/api/v1/usage?by=colour")).status_code == 422
    assert (await http.get("/api/v1/usage?since=2030-01-02T00:00:00Z")).json()["since"] == "2030-01-02T00:00:00Z"


async def test_a_user_sees_what_their_own_tasks_cost(app: FastAPI, store: Store) -> None:
    await spend(store, 1, owner="ada")
    await spend(store, 2, owner="bob")
    (bobs,) = await store.costs.totals("task", owner="bob")
    async with client(app, (await store.keys.make("ada", ["user"])).secret) as ada:
        assert [one["cost_cents"] for one in await items(ada)] == [1]
        assert [one["owner"] for one in await items(ada, "?by=owner")] == ["ada"]
        assert (await ada.get(f"/api/v1/tasks/{bobs.group}/cost")).status_code == 404
        assert (await ada.put("/api/v1/prices/tiny", json={"in_cents": 1, "out_cents": 1})).status_code == 403
    async with client(app, (await store.keys.make("ops", ["operator"])).secret) as operator:
        assert [one["cost_cents"] for one in await items(operator, "?by=total")] == [3]


async def test_an_operator_sets_prices_and_everybody_reads_them(http: httpx2.AsyncClient, store: Store) -> None:
    assert (await http.get("/api/v1/prices")).json() == {"items": []}
    asked = {"in_cents": 15.5, "out_cents": "60.0000000001", "since": "2029-12-01T00:00:00Z"}
    answer = await http.put("/api/v1/prices/lab/tiny", json=asked)
    price = {
        "model": "lab/tiny", "since": "2029-12-01T00:00:00Z", "in_cents": 15.5, "out_cents": 60.0000000001,
        "set_by": "local", "set_at": "2030-01-01T00:00:00Z", "current": True,
    }  # fmt: skip
    assert (answer.status_code, answer.json()) == (200, {"items": [price]})
    assert (await http.get("/api/v1/prices")).json() == {"items": [price]}
    await spend(store, None, "lab/tiny")
    assert (await store.costs.totals())[0].cost_cents == 3 * (await store.costs.prices())[0].in_cents / 1_000_000


@pytest.mark.parametrize(
    "body",
    [
        {"in_cents": -1, "out_cents": 1}, {"in_cents": 1}, {"in_cents": True, "out_cents": 1},
        {"in_cents": "much", "out_cents": 1}, {"in_cents": 1, "out_cents": 1e9}, {"in_cents": 1, "out_cents": "1e-11"},
        {"in_cents": 1, "out_cents": "NaN"}, {"in_cents": 1, "out_cents": "1\n"},
        {"in_cents": 1, "out_cents": 1, "since": "soon"},
        {"in_cents": 1, "out_cents": 1, "since": "0001-01-01T00:00:00Z"}, {"in_cents": 1, "out_cents": 1, "for": "x"},
    ],
    ids=str,
)  # fmt: skip
async def test_a_price_that_makes_no_sense_is_refused(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    assert (await http.put("/api/v1/prices/tiny", json=body)).status_code == 422
    assert (await http.get("/api/v1/prices")).json() == {"items": []}


async def test_a_worker_that_speaks_http_reports_what_it_spent(http: httpx2.AsyncClient, store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    held = {"task_id": str(lease.task_id), "attempt": 1, "lease_token": str(lease.token)}
    spent = [{"model": "tiny", "tokens_in": 5, "cost_cents": "0.1000000000000001"}, "garbage", {"model": 7}]
    for _ in range(2):
        kept = await http.post("/internal/checkpoint", json={**held, "step": "thought", "usage": spent})
        assert kept.status_code == 200
    events = [{"kind": "usage", "data": {"model": "tiny", "cost_cents": {"no": "number"}}}]
    done = await http.post("/internal/task-complete", json={**held, "status": "completed", "events": events})
    assert done.status_code == 200
    assert await items(http) == [
        {"model": "tiny", "calls": 2, "tokens_in": 5, "tokens_out": 0, "cost_cents": 0.1000000000000001, "unpriced": 1}
    ]
    assert str((await store.costs.totals())[0].cost_cents) == "0.1000000000000001"


async def test_a_run_has_the_cost_of_its_items(http: httpx2.AsyncClient, store: Store) -> None:
    made = await store.submit(Submission(lifecycle="ingest"), Submission(lifecycle="ingest_item", parent=0))
    (item,) = await take(store, "ingest_item")
    await store.keep(item, "fetched", usage=[{"model": "tiny", "tokens_in": 4, "cost_cents": 0.5}])
    sums = {"model": "tiny", "calls": 1, "tokens_in": 4, "tokens_out": 0, "cost_cents": 0.5}
    run = (await http.get(f"/api/v1/tasks/{made[0].id}/cost")).json()
    assert run == {"own_cents": 0, "children_cents": 0.5, "own": [], "children": [sums]}
    own = (await http.get(f"/api/v1/tasks/{item.task_id}/cost")).json()
    assert own == {"own_cents": 0.5, "children_cents": 0, "own": [sums], "children": []}
