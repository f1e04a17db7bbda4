"""Batches over HTTP: made, watched job by job, cancelled, done again; links to what came of them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.errors import Transient
from holdfast.remote.places import objects_of
from holdfast.testing.engine import Engine
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.lifecycles.batch.conftest import TWO, Office

MISSING = "01b8dac5-b400-730f-8c80-71bbed710aed"
ASKED = {"task_type": "transcription", "provider": "bureau", "urls": TWO}


@pytest.fixture
async def http(office: Office, holdfast: Engine) -> AsyncIterator[httpx2.AsyncClient]:
    pool = holdfast.database.bridge()
    app = app_over(pool, objects_of(office.hf.settings))
    async with client(app) as http:
        yield http


async def test_a_batch_is_made_watched_and_its_results_are_fetched(http: httpx2.AsyncClient, office: Office) -> None:
    made = await http.post("/batch/tasks", json=ASKED)
    body = made.json()
    assert (made.status_code, body["status"], body["provider"], body["jobs"]) == (201, "PENDING", "BUREAU", [])
    task = body["task_id"]
    office.engine.drain(moving=False)
    running = (await http.get(f"/batch/tasks/{task}")).json()
    assert (running["status"], running["poll_after_ms"]) == ("IN_PROGRESS", 2000)
    assert running["next_poll_at"] is not None
    assert running["provider_state"]["jobs"][0]["external_job_id"] == "B1"
    office.engine.drain()
    done = (await http.get(f"/batch/tasks/{task}")).json()
    assert (done["status"], done["next_poll_at"]) == ("COMPLETED", None)
    assert {name: done["manifest"][name] for name in ("inputs", "ok", "failed", "invalid")} == {
        "inputs": 2, "ok": 2, "failed": 0, "invalid": 0,
    }  # fmt: skip
    links = (await http.get(f"/batch/tasks/{task}/downloads")).json()["downloads"]
    assert [link["name"] for link in links] == ["result.json", "manifest.json"]
    fetched = (await http.get(links[0]["url"])).json()
    assert len(fetched["transcriptions"]) == 2
    (listed,) = (await http.get("/batch/tasks", params={"status": "COMPLETED"})).json()["items"]
    assert listed["task_id"] == task


async def test_the_same_key_makes_one_batch(http: httpx2.AsyncClient) -> None:
    first = await http.post("/batch/tasks", json=ASKED, headers={"Idempotency-Key": "k"})
    again = await http.post("/batch/tasks", json=ASKED, headers={"Idempotency-Key": "k"})
    other = await http.post("/batch/tasks", json={**ASKED, "urls": TWO[:1]}, headers={"Idempotency-Key": "k"})
    assert first.json()["task_id"] == again.json()["task_id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert other.status_code == 422


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"provider": "NOBODY"}, "No worker offers transcription with NOBODY"),
        ({"urls": []}, "nothing to do"),
        ({"dataset_ids": [MISSING]}, "no dataset"),
        ({"dataset_ids": [MISSING], "input_dataset_ids": [MISSING]}, "the same"),
        ({"colour": "blue"}, "colour"),
    ],
)
async def test_what_cannot_be_done_is_refused(http: httpx2.AsyncClient, change: dict[str, Any], message: str) -> None:
    answer = await http.post("/batch/tasks", json={**ASKED, **change})
    assert answer.status_code == 422
    assert message in answer.text


async def test_a_cancel_says_what_it_did(http: httpx2.AsyncClient, office: Office) -> None:
    task = (await http.post("/batch/tasks", json=ASKED)).json()["task_id"]
    office.engine.drain(moving=False)
    cancelled = await http.post(f"/batch/tasks/{task}/cancel", json={"reason": "too dear"})
    assert (cancelled.status_code, cancelled.json()["effect"], cancelled.json()["status"]) == (
        202, "cancelled", "CANCELLED",
    )  # fmt: skip
    office.engine.drain()
    found = (await http.get(f"/batch/tasks/{task}")).json()
    assert (office.bureau.running, found["jobs"][0]["may_be_running"]) == ([], False)
    late = await http.post(f"/batch/tasks/{task}/cancel")
    assert late.json()["effect"] == "too_late"


async def test_what_failed_is_done_again_as_a_linked_batch(http: httpx2.AsyncClient, office: Office) -> None:
    office.bureau.bad = {"b.wav": "Too noisy."}
    task = (await http.post("/batch/tasks", json=ASKED)).json()["task_id"]
    early = await http.post(f"/batch/tasks/{task}/retry-failed")
    assert early.status_code == 409
    office.engine.drain()
    office.bureau.bad = {}
    again = await http.post(f"/batch/tasks/{task}/retry-failed")
    assert (again.status_code, again.json()["retry_of"]) == (202, task)
    office.engine.drain()
    done = (await http.get(f"/batch/tasks/{again.json()['task_id']}")).json()
    assert (done["status"], done["manifest"]["inputs"], done["retry_of"]) == ("COMPLETED", 1, task)
    nothing = await http.post(f"/batch/tasks/{done['task_id']}/retry-failed")
    assert nothing.status_code == 409


async def test_the_providers_say_what_they_are(http: httpx2.AsyncClient, office: Office) -> None:
    items = (await http.get("/batch/providers")).json()["items"]
    assert [(one["task_type"], one["provider"], one["configured"]) for one in items] == [
        ("completion", "BUREAU", True), ("transcription", "BUREAU", True),
    ]  # fmt: skip
    assert {one["healthy"] for one in items} == {None}


async def test_a_job_in_doubt_is_resolved_by_an_operator(http: httpx2.AsyncClient, office: Office) -> None:
    office.bureau.after["submit"], office.bureau.can_tell = [Transient("lost")], False
    task = (await http.post("/batch/tasks", json=ASKED)).json()["task_id"]
    office.engine.drain(moving=False)
    office.engine.clock.advance(seconds=15)
    office.engine.drain(moving=False)
    parked = (await http.get(f"/batch/tasks/{task}")).json()
    assert (parked["status"], parked["jobs"][0]["status"]) == ("IN_PROGRESS", "PARKED")
    wrong = await http.post(f"/batch/tasks/{task}/jobs/1/resolve", json={"action": "adopt"})
    assert wrong.status_code == 422
    resolution = {"action": "adopt", "external_job_id": "B1", "note": "found in the console"}
    resolved = await http.post(f"/batch/tasks/{task}/jobs/1/resolve", json=resolution)
    assert (resolved.status_code, resolved.json()["status"]) == (202, "SUBMITTED")
    office.engine.drain()
    assert (await http.get(f"/batch/tasks/{task}")).json()["status"] == "COMPLETED"


async def test_a_dataset_is_made_listed_and_used(http: httpx2.AsyncClient, office: Office) -> None:
    made = await http.post(
        "/datasets", json={"name": "calls", "files": [{"uri": TWO[0], "name": "a"}], "urls": [TWO[1]]}
    )
    assert (made.status_code, made.json()["version"]) == (201, 1)
    (listed,) = (await http.get("/datasets")).json()["items"]
    assert (listed["name"], listed["files"]) == ("calls", 2)
    whole = (await http.get("/datasets/calls")).json()
    assert [one["uri"] for one in whole["items"]] == TWO
    assert (await http.get(f"/datasets/{made.json()['dataset_id']}")).json()["name"] == "calls"
    assert (await http.get("/datasets/nothing")).status_code == 404
    assert (await http.post("/datasets", json={"name": "empty"})).status_code == 422
    asked = {"task_type": "transcription", "provider": "BUREAU", "dataset_ids": [made.json()["dataset_id"]]}
    task = (await http.post("/batch/tasks", json=asked)).json()["task_id"]
    office.engine.drain()
    assert (await http.get(f"/batch/tasks/{task}")).json()["manifest"]["ok"] == 2


async def test_another_owners_batches_and_datasets_are_not_there(
    http: httpx2.AsyncClient, office: Office, tmp_path: Path
) -> None:
    task = (await http.post("/batch/tasks", json=ASKED)).json()["task_id"]
    dataset = (await http.post("/datasets", json={"name": "calls", "urls": TWO})).json()["dataset_id"]
    secret = (await office.store.keys.make("ada", ["user"], owner="ada")).secret
    http.headers["Authorization"] = f"Bearer {secret}"
    for method, path in (
        ("GET", f"/batch/tasks/{task}"), ("POST", f"/batch/tasks/{task}/cancel"), ("GET", "/datasets/calls"),
        ("GET", f"/batch/tasks/{task}/downloads"), ("POST", f"/batch/tasks/{task}/retry-failed"),
        ("GET", f"/datasets/{dataset}"),
    ):  # fmt: skip
        assert (await http.request(method, path)).status_code == 404, path
    assert (await http.get("/batch/tasks")).json()["items"] == []
    assert (await http.post("/batch/tasks", json={**ASKED, "dataset_ids": [dataset]})).status_code == 422
