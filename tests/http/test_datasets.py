"""Datasets over HTTP: what workers publish, what readers see, who may cut over and roll back."""

from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Output
from holdfast.objects.local import Folder
from holdfast.testing import Clock
from tests.datasets.stage import publish
from tests.http.conftest import client
from tests.http.test_leases import claim, post
from tests.promises.stage import MINUTE, submit


async def test_a_completion_publishes_and_a_reader_sees_it_whole(http: httpx2.AsyncClient, store: Store) -> None:
    task = await submit(store, "fetch")
    proof = await claim(http)
    outputs = [
        {"dataset": "prices", "key": "monday", "rows": [{"price": 1}]},
        {"dataset": "prices", "mode": "append", "uri": "s3://b/a.parquet", "row_count": 7,
         "schema": [["price", "int"]]},
    ]  # fmt: skip
    for _ in range(2):
        done = await post(http, "task-complete", **proof, status="completed", outputs=outputs)
        assert (done.status_code, done.json()["state"]) == (200, "Completed")
    other = await post(http, "task-complete", **proof, status="completed", outputs=outputs[:1])
    assert (other.status_code, other.json()["code"]) == (409, "stale-attempt")
    found = (await http.get("/datasets/prices")).json()
    assert (found["version"], found["files"], found["row_count"], found["schema"]) == (1, 2, 8, [["price", "int"]])
    assert [(one["key"], one["uri"], one["rows"], one["task_id"]) for one in found["items"]] == [
        ("monday", None, [{"price": 1}], str(task)), (str(task), "s3://b/a.parquet", None, str(task)),
    ]  # fmt: skip
    assert [one["name"] for one in (await http.get("/datasets")).json()["items"]] == ["prices"]
    outputs = (await http.get(f"/api/v1/tasks/{task}")).json()["result"]["outputs"]
    assert outputs[0] == {"dataset": "prices", "key": "monday", "mode": "replace", "uri": None, "row_count": 1}


async def test_a_zombies_outputs_are_never_visible(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    await submit(store)
    zombie = await claim(http, lease_seconds=1)
    for _ in range(2):
        clock.advance(minutes=1)
        await store.sweep()
    current = await claim(http)
    late = [{"dataset": "prices", "rows": [{"of": "a zombie"}]}]
    refused = await post(http, "task-complete", **zombie, status="completed", outputs=late)
    assert (refused.status_code, refused.json()["code"]) == (409, "stale-attempt")
    missing = await http.get("/datasets/prices")
    assert (missing.status_code, missing.json()["code"]) == (404, "dataset-not-found")
    outputs = [{"dataset": "prices", "rows": [{"of": "the second"}]}]
    assert (await post(http, "task-complete", **current, status="completed", outputs=outputs)).status_code == 200
    assert (await post(http, "task-complete", **zombie, status="completed", outputs=late)).status_code == 409
    (only,) = (await http.get("/datasets/prices")).json()["items"]
    assert (only["rows"], only["attempt"]) == ([{"of": "the second"}], 2)


async def test_outputs_that_cannot_be_published_are_refused_and_the_task_goes_on(
    http: httpx2.AsyncClient, store: Store
) -> None:
    task = await submit(store)
    proof = await claim(http)
    bad: list[dict[str, Any]] = [
        {"dataset": "a/b", "uri": "s3://x"},
        {"dataset": "prices"},
        {"dataset": "prices", "uri": "s3://x", "rows": [{}]},
        {"dataset": "prices", "rows": [1]},
        {"dataset": "prices", "rows": [{"x": "x" * 300_000}]},
        {"dataset": "prices", "uri": "object:users/bob/ingest/x"},
    ]
    for one in bad:
        refused = await post(http, "task-complete", **proof, status="completed", outputs=[one])
        assert refused.status_code in (413, 422), one
    assert (await http.get(f"/api/v1/tasks/{task}")).json()["state"] == "Running"
    assert (await http.get("/datasets")).json()["items"] == []
    assert (await post(http, "task-complete", **proof, status="completed")).status_code == 200


async def test_a_person_cuts_over_and_rolls_back(http: httpx2.AsyncClient, store: Store) -> None:
    for number in (1, 2):
        await publish(store, Output("prices", "a", rows=[{"n": number}]))
    rolled = await http.post("/datasets/prices/rollback", json={})
    dataset = (await http.get("/datasets/prices")).json()["dataset_id"]
    assert rolled.json() == {"dataset_id": dataset, "version": 2, "state": "rolled_back", "current_version": 1}
    nothing = await http.post("/datasets/prices/rollback", json={"version": 1})
    assert (nothing.status_code, nothing.json()["code"]) == (409, "not-complete")
    cut = await http.post("/datasets/prices/cutover", json={"version": 2})
    assert cut.json() == {"dataset_id": dataset, "version": 2, "before": 1}
    found = (await http.get("/datasets/prices")).json()
    assert [(one["version"], one["state"], one["by"]) for one in found["generations"]] == [
        (2, "current", "local"), (1, "superseded", "local"),
    ]  # fmt: skip
    first = (await http.get("/datasets/prices?version=1")).json()
    assert (first["version"], first["state"], first["items"][0]["rows"]) == (1, "superseded", [{"n": 1}])
    for path, body in (("cutover", {"version": 9}), ("rollback", {"version": 9})):
        assert (await http.post(f"/datasets/prices/{path}", json=body)).json()["code"] == "dataset-not-found"
    assert (await http.get("/datasets/prices?version=9")).status_code == 404


async def test_what_tasks_wrote_is_downloaded_by_links(http: httpx2.AsyncClient, store: Store, tmp_path: Path) -> None:
    task = await submit(store, "fetch")
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="w")
    key = f"tables/{task}/{lease.token}/prices.parquet"
    (tmp_path / "written").write_bytes(b"PAR1")
    await Folder(tmp_path / "objects").open().put(key, tmp_path / "written", content_type="application/octet-stream")
    proof = {"task_id": str(task), "attempt": 1, "lease_token": str(lease.token)}
    outputs = [
        {"dataset": "prices", "uri": f"object:{key}", "bytes": 4},
        {"dataset": "prices", "key": "x", "uri": "s3://x"},
    ]
    await post(http, "task-complete", **proof, status="completed", outputs=outputs)
    found = (await http.get("/datasets/prices/downloads")).json()
    (link,) = found["downloads"]
    assert (found["version"], found["next"], link["name"], link["bytes"]) == (1, None, "fetch.parquet", 4)
    assert (await http.get(link["url"])).content == b"PAR1"


async def test_anothers_dataset_is_as_good_as_none(app: FastAPI, store: Store) -> None:
    for owner in ("ada", "bob", "ada"):
        await publish(store, Output("prices", rows=[{"of": owner}]), owner=owner)
    secrets = {name: (await store.keys.make(name, ["user"])).secret for name in ("ada", "bob", "eve")}
    root = (await store.keys.make("root", ["operator"])).secret
    async with client(app, secrets["ada"]) as ada, client(app, secrets["eve"]) as eve, client(app, root) as operator:
        mine = (await ada.get("/datasets/prices")).json()
        assert (mine["items"][0]["rows"], mine["version"]) == ([{"of": "ada"}], 2)
        for name in ("prices", mine["dataset_id"]):
            answers = [
                await eve.get(f"/datasets/{name}"), await eve.get(f"/datasets/{name}/downloads"),
                await eve.post(f"/datasets/{name}/cutover", json={"version": 1}),
                await eve.post(f"/datasets/{name}/rollback", json={}),
            ]  # fmt: skip
            assert {(one.status_code, one.json()["code"]) for one in answers} == {(404, "dataset-not-found")}
        assert (await eve.get("/datasets")).json()["items"] == []
        several = await operator.get("/datasets/prices")
        assert (several.status_code, "2 owners" in several.json()["detail"]) == (422, True)
        rolled = await operator.post(f"/datasets/{mine['dataset_id']}/rollback", json={})
        assert rolled.json()["current_version"] == 1
        assert (await ada.get("/datasets/prices")).json()["generations"][0]["by"] == "root"
