"""Every route is for some roles and refuses all others, whoever adds it."""

from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.testing import Clock
from tests.http.conftest import client, keys
from tests.promises.stage import submit, take_one

ANYBODY = {"user", "worker", "operator", ""}
ALL = {"user", "worker", "operator"}
READERS = {"user", "operator"}
TASK = "/api/v1/tasks/{task_id}"
PIPELINE_ROUTES = (
    ("POST", "/jobs"),
    ("GET", "/jobs"),
    ("GET", "/jobs/{job_id}"),
    ("POST", "/jobs/{job_id}/cancel"),
    ("POST", "/jobs/{job_id}/retry"),
    ("GET", "/jobs/{job_id}/outputs"),
    ("GET", "/pipelines"),
    ("PUT", "/pipelines/{name}/settings"),
)
MISSING = "01b8dac5-b400-730f-8c80-71bbed710aed"
PLACES = {
    "task_id": MISSING,
    "job_id": MISSING,
    "dag_id": MISSING,
    "entry_id": MISSING,
    "entry_id:uuid": MISSING,
    "name": "dispatch",
    "asset": "swagger-ui.css",
    "owner": "ada",
    "number": "1",
    "model:path": "some/model",
    "step:path": "some/step",
    "webhook_id": MISSING,
    "delivery_id": MISSING,
}

ROUTES: dict[tuple[str, str], set[str]] = {
    ("GET", "/"): ANYBODY,
    ("GET", "/health"): ANYBODY,
    ("GET", "/ready"): ANYBODY,
    ("GET", "/metrics"): ALL,
    ("GET", "/api/openapi.json"): ALL,
    ("GET", "/api/docs"): ALL,
    ("GET", "/api/docs/{asset}"): ALL,
    ("POST", "/internal/task-claim"): {"worker"},
    ("POST", "/internal/heartbeat"): {"worker"},
    ("POST", "/internal/checkpoint"): {"worker"},
    ("POST", "/internal/task-complete"): {"worker"},
    **{
        ("POST", f"/internal/{path}"): {"worker"}
        for path in (
            "turn",
            "settle",
            "keep",
            "see",
            "steps",
            "upstream",
            "deliver",
            "ask",
            "which-wait",
            "record",
            "spend",
            "heed",
            "block-budget",
            "rpc/{service}/{method}",
            "rooms/{service}/{method}",
            "hello",
            "idle",
            "lose",
            "hand-back",
            "goodbye",
            "declare",
            "objects/upload-url",
            "objects/download-url",
            "objects/find",
            "objects/sha256",
            "objects/copy",
            "objects/delete",
            "objects/keys",
        )
    },
    ("POST", "/dispatch/tasks"): {"user"},
    ("POST", "/dags"): {"user"},
    ("GET", "/dags"): READERS,
    ("GET", "/dags/declared"): READERS,
    ("GET", "/dags/{dag_id}"): READERS,
    ("POST", "/dags/{dag_id}/cancel"): READERS,
    ("POST", "/dags/{dag_id}/retry"): READERS,
    ("POST", "/dispatch/tasks/many"): {"user"},
    ("GET", "/tools"): READERS,
    ("POST", "/tasks"): READERS,
    ("GET", "/tasks/{task_id}"): READERS,
    ("POST", "/tasks/{task_id}/upload-urls"): READERS,
    ("POST", "/tasks/{task_id}/process"): READERS,
    ("POST", "/tasks/{task_id}/cancel"): READERS,
    ("GET", "/tasks/{task_id}/downloads"): READERS,
    ("GET", "/wallet"): READERS,
    ("GET", "/wallets/{owner}"): {"operator"},
    ("POST", "/wallets/{owner}/top-up"): {"operator"},
    ("POST", "/ingest/uploads"): {"user"},
    ("POST", "/ingest/runs"): {"user"},
    ("GET", "/ingest/runs"): READERS,
    ("GET", "/ingest/runs/{run_id}"): READERS,
    ("GET", "/ingest/runs/{run_id}/items"): READERS,
    ("PUT", "/ingest/runs/{run_id}/budget"): READERS,
    ("POST", "/ingest/runs/{run_id}/cancel"): READERS,
    ("GET", "/ingest/items/{item_id}"): READERS,
    ("GET", "/ingest/items/{item_id}/events"): READERS,
    ("GET", "/ingest/documents"): READERS,
    ("DELETE", "/ingest/documents/{document_id}"): READERS,
    ("GET", "/ingest/search"): READERS,
    ("POST", "/batch/tasks"): {"user"},
    ("GET", "/batch/tasks"): READERS,
    ("GET", "/batch/tasks/{task_id}"): READERS,
    ("POST", "/batch/tasks/{task_id}/cancel"): READERS,
    ("POST", "/batch/tasks/{task_id}/retry-failed"): READERS,
    ("GET", "/batch/tasks/{task_id}/downloads"): READERS,
    ("POST", "/batch/tasks/{task_id}/jobs/{number}/resolve"): {"operator"},
    ("GET", "/batch/providers"): READERS,
    ("POST", "/datasets"): {"user"},
    ("GET", "/datasets"): READERS,
    ("GET", "/datasets/{name}"): READERS,
    ("GET", "/datasets/{name}/downloads"): READERS,
    ("POST", "/datasets/{name}/cutover"): READERS,
    ("POST", "/datasets/{name}/rollback"): READERS,
    **{(method, f"/pipeline{path}"): {"operator"} for method, path in PIPELINE_ROUTES},
    **{(method, f"/admin/pipeline{path}"): {"operator"} for method, path in PIPELINE_ROUTES},
    ("GET", "/inbox"): {"operator"},
    ("GET", "/inbox/waiting"): READERS,
    ("GET", "/inbox/{entry_id:uuid}"): {"operator"},
    ("POST", "/inbox/{entry_id}/retry"): {"operator"},
    ("POST", "/inbox/{entry_id}/resolve"): {"operator"},
    ("POST", "/inbox/{entry_id}/discard"): {"operator"},
    ("POST", "/inbox/bulk"): {"operator"},
    ("GET", "/api/v1/schedules"): {"operator"},
    ("GET", "/api/v1/schedules/{name}"): {"operator"},
    ("POST", "/api/v1/schedules/{name}/pause"): {"operator"},
    ("POST", "/api/v1/schedules/{name}/resume"): {"operator"},
    ("POST", "/api/v1/schedules/{name}/run"): {"operator"},
    ("POST", "/api/v1/schedules/{name}/backfill"): {"operator"},
    ("DELETE", "/api/v1/schedules/{name}"): {"operator"},
    ("GET", "/api/v1/tasks"): READERS,
    ("POST", "/api/v1/bulk"): READERS,
    ("POST", "/api/v1/outcomes"): READERS,
    ("GET", TASK): READERS,
    ("GET", f"{TASK}/events"): READERS,
    ("GET", f"{TASK}/steps"): READERS,
    ("GET", f"{TASK}/attempts"): READERS,
    ("GET", f"{TASK}/why"): READERS,
    ("GET", f"{TASK}/tree"): READERS,
    ("POST", f"{TASK}/cancel"): READERS,
    ("POST", f"{TASK}/retry"): READERS,
    ("GET", "/api/v1/events"): READERS,
    ("GET", "/api/v1/lifecycles"): ALL,
    ("GET", "/api/v1/lifecycles/{name}"): ALL,
    ("GET", "/api/v1/workers"): ALL,
    ("GET", "/api/v1/queues"): ALL,
    ("POST", "/api/v1/queues/{name}/pause"): {"operator"},
    ("POST", "/api/v1/queues/{name}/resume"): {"operator"},
    ("GET", "/api/v1/stats"): READERS,
    ("GET", "/api/v1/usage"): READERS,
    ("GET", f"{TASK}/cost"): READERS,
    ("GET", "/api/v1/prices"): READERS,
    ("PUT", "/api/v1/prices/{model:path}"): {"operator"},
    ("GET", "/api/v1/questions"): READERS,
    ("POST", "/api/v1/questions/{task_id}/{step:path}"): READERS,
    ("POST", "/api/v1/webhooks"): {"operator"},
    ("GET", "/api/v1/webhooks"): {"operator"},
    ("GET", "/api/v1/webhooks/{webhook_id}"): {"operator"},
    ("DELETE", "/api/v1/webhooks/{webhook_id}"): {"operator"},
    ("POST", "/api/v1/webhooks/{webhook_id}/pause"): {"operator"},
    ("POST", "/api/v1/webhooks/{webhook_id}/resume"): {"operator"},
    ("POST", "/api/v1/webhooks/{webhook_id}/test"): {"operator"},
    ("GET", "/api/v1/webhooks/{webhook_id}/deliveries"): {"operator"},
    ("POST", "/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"): {"operator"},
}

BY_LINK = {
    *((method, "/objects/{token}") for method in ("PUT", "GET", "HEAD")),
    *((method, "/answers/{token}") for method in ("GET", "POST")),
}
"""For whoever has the link; tests/objects and tests/approvals try these."""


def routes_of(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in route.methods or ())
        elif router := getattr(route, "original_router", None):
            yield from routes_of(router.routes)


async def test_every_route_says_whom_it_is_for(app: FastAPI) -> None:
    assert set(routes_of(app.routes)) == ROUTES.keys() | BY_LINK


def url_of(path: str) -> str:
    for name, value in PLACES.items():
        path = path.replace(f"{{{name}}}", value)
    return path


async def test_a_route_lets_in_whom_it_is_for_and_nobody_else(app: FastAPI, store: Store) -> None:
    wrong = []
    for role, secret in {**await keys(store), "": None}.items():
        async with client(app, secret) as http:
            for (method, path), roles in ROUTES.items():
                body = b"not even JSON" if method in ("POST", "PUT") else None
                url = url_of(path) + ("?wait=false" if path == "/api/v1/events" else "")
                answer = await http.request(method, url, content=body)
                if role in roles:
                    right = answer.status_code not in (401, 403, 500)
                else:
                    refused = (403, "role-missing") if role else (401, "key-refused")
                    right = (answer.status_code, answer.json()["code"]) == refused
                if not right:
                    wrong.append((role, method, path, answer.status_code))
    assert wrong == []


async def test_without_any_key_whoever_is_here_may_do_all(app: FastAPI, http: httpx2.AsyncClient, store: Store) -> None:
    assert (await http.get("/api/v1/tasks")).status_code == 200
    assert (await http.post("/internal/task-claim", json={"worker_id": "w"})).status_code == 204
    key = await store.keys.make("ada", ["user"])
    refused = await http.get("/api/v1/tasks")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    async with client(app, key.secret) as mine:
        assert (await mine.get("/api/v1/tasks")).status_code == 200
        await store.keys.revoke(key.id)
        assert (await mine.get("/api/v1/tasks")).status_code == 401
    assert (await http.get("/api/v1/tasks")).status_code == 200


async def test_bound_elsewhere_a_key_is_needed_from_the_start(app: FastAPI, http: httpx2.AsyncClient) -> None:
    app.state.guard.loopback = False
    assert (await http.get("/api/v1/tasks")).status_code == 401
    assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic aGY6eA==", "Bearer hf_x", "hf_x", "Bearer a, Bearer b"]
)
async def test_what_is_no_key_is_refused_even_where_none_is_needed(http: httpx2.AsyncClient, header: str) -> None:
    assert (await http.get("/api/v1/tasks", headers={"Authorization": header})).status_code == 401


async def test_anothers_task_is_as_good_as_none(app: FastAPI, store: Store) -> None:
    ada = await store.keys.make("ada", ["user"])
    bob = await store.keys.make("bob", ["user"])
    operator = await store.keys.make("root", ["operator"])
    async with client(app, ada.secret) as a, client(app, bob.secret) as b, client(app, operator.secret) as o:
        task = (await a.post("/dispatch/tasks", json={"task": "mail"})).json()["task_id"]
        for method, path in ROUTES:
            if not path.startswith(TASK):
                continue
            theirs, none = path.replace("{task_id}", task), path.replace("{task_id}", MISSING)
            foreign, absent = await b.request(method, theirs), await b.request(method, none)
            assert foreign.status_code == absent.status_code == 404
            assert {**foreign.json(), "request_id": 0} == {
                **{name: value.replace(MISSING, task) if isinstance(value, str) else value
                   for name, value in absent.json().items()}, "request_id": 0,
            }  # fmt: skip
        assert (await a.get(f"/api/v1/tasks/{task}")).json()["owner"] == "ada"
        assert [len((await one.get("/api/v1/tasks?owner=ada")).json()["items"]) for one in (a, b, o)] == [1, 0, 1]
        counted = [(await one.get("/api/v1/stats")).json()["items"] for one in (a, b, o)]
        assert [sum(row["number"] for row in rows) for rows in counted] == [1, 0, 1]
        waiting = await b.post("/dispatch/tasks", json={"task": "mail", "after": [task]})
        assert waiting.status_code == 404
        assert (await o.post(f"/api/v1/tasks/{task}/cancel")).json()["effect"] == "cancelled"


async def test_the_same_key_of_two_owners_is_two_keys(app: FastAPI, store: Store) -> None:
    made = set()
    for name in ("ada", "bob"):
        async with client(app, (await store.keys.make(name, ["user"])).secret) as http:
            answer = await http.post("/dispatch/tasks", json={"task": "mail"}, headers={"Idempotency-Key": "1"})
            made.add(answer.json()["task_id"])
    assert len(made) == 2


async def test_no_answer_about_a_task_gives_its_token_away(app: FastAPI, store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    async with client(app) as http:
        for method, path in ROUTES:
            if path.startswith("/api/v1/tasks") and method == "GET":
                assert str(lease.token) not in (await http.get(path.replace("{task_id}", str(task)))).text


async def test_where_workers_run_is_hidden_from_their_users(app: FastAPI, store: Store) -> None:
    await store.hello("w", label="host7", queues=["default"], names=["mail"], slots=2)
    for role, secret in (await keys(store)).items():
        async with client(app, secret) as http:
            (seen,) = (await http.get("/api/v1/workers")).json()["items"]
        assert (seen["id"], seen["queues"], seen["slots"], seen["live"]) == ("w", ["default"], 2, True)
        assert (seen["label"], seen["names"]) == ((None, None) if role == "user" else ("host7", ["mail"]))


async def test_nobody_goes_on_from_a_task_of_somebody_else(store: Store, clock: Clock) -> None:
    others = [Submission("work", owner="bob", tags=["x"]) for _ in range(1000)]
    first = await submit(store, owner="ada", tags=["x"])
    for _ in range(10):
        await store.submit(*others)
    clock.advance(seconds=1)
    plain, last = await submit(store, owner="ada"), await submit(store, owner="ada", tags=["x"])
    page = await store.list_tasks(owner="ada", tag="x", limit=1)
    assert ([item["id"] for item in page.items], page.next, page.approx_count) == ([str(last)], last, 2)
    page = await store.list_tasks(owner="ada", tag="x", limit=1, cursor=page.next)
    assert ([item["id"] for item in page.items], page.next) == ([str(first)], None)
    assert str(plain) not in str(page.items)


async def test_who_shows_no_key_sees_only_that_the_server_is_there(app: FastAPI, store: Store) -> None:
    async with client(app) as http:
        assert "a test&#x27;s own" in (await http.get("/")).text
        assert (await http.get("/ready")).json()["migrations"] > 1
        assert "<img" in (await http.get("/")).text
        secrets = await keys(store)
        page = (await http.get("/")).text
        assert not [text for text in ("own", "<img", "Postgres", "Schema", "since") if text in page]
        assert {name for name, value in (await http.get("/ready")).json().items() if value} == {"status"}
    async with client(app, secrets["worker"]) as http:
        assert "a test&#x27;s own" in (await http.get("/")).text
        assert (await http.get("/ready")).json()["postgres"]


async def test_a_parameter_that_no_route_has_is_refused(http: httpx2.AsyncClient) -> None:
    for method, path in ROUTES:
        answer = await http.request(method, url_of(path), params={"stat": "Queued"})
        assert (answer.status_code, answer.json()["errors"][0]["loc"]) == (422, ["query", "stat"]), (method, path)


async def test_the_document_begins_with_submitting(http: httpx2.AsyncClient) -> None:
    document = (await http.get("/api/openapi.json")).json()
    assert "POST /dispatch/tasks" in document["info"]["description"]
    names = [tag["name"] for tag in document["tags"]]
    assert (names[0], names[-1]) == ("dispatch", "workers")
    used = {tag for path in document["paths"].values() for method in path.values() for tag in method["tags"]}
    assert used == set(names)
