"""Graphs over HTTP: drawn or by name, found of, cancelled, retried; another owner's are not there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.objects.local import Folder
from holdfast.testing import Clock, Database
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.lifecycles.dispatch.graphs import FATAL, Running, shape


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    return app_over(database.bridge(), Folder(tmp_path / "objects").open())


@pytest.fixture
async def http(app: FastAPI, store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    async with client(app) as http:
        yield http
    assert await store.verify() == []


def drawn(*lines: str, **more: Any) -> dict[str, Any]:
    return {"name": "drawn", **shape(*lines), **more}


async def test_a_graph_is_drawn_run_read_and_retried(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    answer = await http.post("/dags", json=drawn("a -> b", "b ->ignore c", "d", tags=["x"]))
    assert answer.status_code == 201
    made = answer.json()
    assert (made["state"], sorted(made["nodes"])) == ("Running", ["a", "b", "c", "d"])
    run = Running(store, made["dag_id"])
    await run.end(a=Done(), b=FATAL)
    found = (await http.get(f"/dags/{run.id}")).json()
    assert {one["name"]: one["state"] for one in found["nodes"]} == {
        "a": "Completed", "b": "Dead", "c": "Queued", "d": "Queued",
    }  # fmt: skip
    assert {(one["from"], one["to"]): one["on_failure"] for one in found["edges"]} == {
        ("a", "b"): "cancel", ("b", "c"): "ignore",
    }  # fmt: skip
    assert (found["poll_after_ms"], found["progress"]["completed"], found["writes"]) == (1000, 1, [])
    early = await http.post(f"/dags/{run.id}/retry")
    assert (early.status_code, early.json()["code"]) == (409, "move-refused")
    await run.done("c d")
    clock.advance(seconds=1)
    again = (await http.post(f"/dags/{run.id}/retry")).json()
    assert (again["retry_of"], again["nodes"]["a"]) == (made["dag_id"], made["nodes"]["a"])
    assert again["nodes"]["b"] != made["nodes"]["b"]
    page = (await http.get("/dags?dag=drawn&state=Partial&tag=x")).json()
    assert [(one["dag_id"], one["retried_as"]) for one in page["items"]] == [(made["dag_id"], again["dag_id"])]
    cancelled = await http.post(f"/dags/{again['dag_id']}/cancel", json={"reason": "enough"})
    assert (cancelled.status_code, cancelled.json()["effect"]) == (202, "cancelled")
    newest = (await http.get("/dags?limit=1")).json()
    assert ([one["state"] for one in newest["items"]], newest["next"] is not None) == (["Canceled"], True)


async def test_a_circle_is_a_409_that_names_it(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/dags", json=drawn("a -> b", "b -> a"))
    assert (answer.status_code, answer.json()["code"]) == (409, "cycle")
    assert "a -> b -> a" in answer.json()["detail"] or "b -> a -> b" in answer.json()["detail"]


async def test_the_same_key_is_one_run_and_another_graph_is_refused(http: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "monday"}
    first, again = [await http.post("/dags", json=drawn("a -> b"), headers=headers) for _ in range(2)]
    assert (again.status_code, again.json()) == (201, first.json())
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again)] == [None, "true"]
    other = await http.post("/dags", json=drawn("a", "b"), headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")


async def test_a_declared_graph_is_run_by_its_name(http: httpx2.AsyncClient, store: Store) -> None:
    graph = shape("a -> b")
    await Dags.over(store).declare(
        "nightly", title="", nodes=[{**one, "params": ["day"]} for one in graph["nodes"]], edges=graph["edges"],
        params={"day": {"kinds": ["string"], "needed": True}}, writes={}, cutover="auto",
    )  # fmt: skip
    (known,) = (await http.get("/dags/declared")).json()["items"]
    assert (known["name"], known["ready"]) == ("nightly", False)
    made = await http.post("/dags", json={"dag": "nightly", "params": {"day": "mon"}})
    assert made.status_code == 201
    assert (await store.read(made.json()["nodes"]["b"]))["payload"] == {"day": "mon"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "draws none"),
        ({"dag": "g", "nodes": [{"name": "a", "task": "t"}]}, "draws another"),
        ({"dag": "g"}, "There is no graph 'g'"),
        ({"name": "g", "nodes": []}, "at least 1"),
        ({"name": "g", "nodes": [{"name": "a", "task": "t", "queue": "nowhere"}]}, "Queue 'nowhere'"),
        ({"name": "g", "nodes": [{"name": "a", "task": "t"}] * 2}, "name of two nodes"),
    ],
)
async def test_what_is_no_graph_is_refused(body: dict[str, Any], problem: str, http: httpx2.AsyncClient) -> None:
    answer = await http.post("/dags", json=body)
    assert answer.status_code in (404, 422)
    assert problem in answer.text


@pytest.mark.deep
async def test_five_thousand_nodes_go_in_one_request(http: httpx2.AsyncClient, store: Store) -> None:
    nodes = [{"name": f"n{n}", "task": "part", "payload": {"n": n}} for n in range(5000)]
    edges = [{"from": f"n{n}", "to": "n4999"} for n in range(4999)]
    made = await http.post("/dags", json={"name": "wide", "nodes": nodes, "edges": edges})
    assert made.status_code == 201
    run = (await Dags.over(store).read([made.json()["dag_id"]]))[0]
    assert (run["progress"]["queued"], run["progress"]["blocked"]) == (4999, 1)
    more = [*nodes, {"name": "one", "task": "part"}]
    assert (await http.post("/dags", json={"name": "wide", "nodes": more})).status_code == 422


async def test_the_runs_of_others_are_not_there(app: FastAPI, http: httpx2.AsyncClient, store: Store) -> None:
    run = await Running.of(store, "a", owner="ada")
    secret = (await store.keys.make("bob", ["user"], owner="bob")).secret
    async with client(app, secret) as bob:
        for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
            missing = await bob.request(method, f"/dags/{run.id}{path}")
            assert (missing.status_code, missing.json()["code"]) == (404, "graph-unknown")
            assert missing.json()["title"] == "There is no such graph, or no such run of one."
        assert (await bob.get("/dags")).json()["items"] == []
        task = (await run.ids())["a"]
        waits = await bob.post("/dispatch/tasks", json={"task": "t", "after": [{"task_id": str(task)}]})
        assert waits.status_code == 404


async def test_each_dependency_of_a_task_may_have_its_policy(http: httpx2.AsyncClient, store: Store) -> None:
    bad, other = [(await http.post("/dispatch/tasks", json={"task": "t"})).json()["task_id"] for _ in range(2)]
    body = {"task": "t", "after": [{"task_id": bad, "on_failure": "ignore"}, other]}
    made = (await http.post("/dispatch/tasks", json=body)).json()
    assert made["state"] == "Blocked"
    assert {str(one.task_id): one.policy for one in await store.upstream(made["task_id"])} == {
        bad: "ignore", other: "cancel",
    }  # fmt: skip


async def test_a_task_is_retried_with_its_dependents_over_http(http: httpx2.AsyncClient, store: Store) -> None:
    run = await Running.of(store, "a -> b", "c")
    await run.end(a=FATAL)
    ids = await run.ids()
    plain = await http.post(f"/api/v1/tasks/{ids['a']}/retry")
    assert (plain.status_code, plain.json()["code"]) == (409, "move-refused")
    again = (await http.post(f"/api/v1/tasks/{ids['a']}/retry", json={"dependents": True})).json()
    assert list(again["dependents"]) == [str(ids["b"])]
    await run.done("a b c")
    assert await run.state() == "Completed"
