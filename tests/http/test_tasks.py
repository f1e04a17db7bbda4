"""Tasks over HTTP: made once, found again, cancelled and retried; errors say what is wrong and what may follow."""

import re
from typing import Any
from uuid import UUID

import httpx2
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Done
from holdfast.testing import Clock
from tests.promises.stage import MINUTE, submit, take_one


async def test_the_same_idempotency_key_makes_one_task(http: httpx2.AsyncClient, store: Store) -> None:
    body = {"task": "mail", "payload": {"to": "ada"}}
    key = {"Idempotency-Key": "inv-42"}
    first = await http.post("/dispatch/tasks", json=body, headers=key)
    await take_one(store)
    again = await http.post("/dispatch/tasks", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    in_body = await http.post("/dispatch/tasks", json={**body, "key": "inv-42"})
    assert in_body.json() == first.json()
    other = await http.post("/dispatch/tasks", json={**body, "payload": {}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")
    both = await http.post("/dispatch/tasks", json={**body, "key": "inv-43"}, headers=key)
    assert both.status_code == 422


@pytest.mark.parametrize(
    ("delay", "due"), [("5m", "00:05:00"), (90, "00:01:30"), ("1h30m", "01:30:00"), (0, "00:00:00")]
)
async def test_a_delay_is_seconds_or_a_duration(http: httpx2.AsyncClient, delay: str | int, due: str) -> None:
    made = (await http.post("/dispatch/tasks", json={"task": "mail", "delay": delay})).json()
    assert (await http.get(f"/api/v1/tasks/{made['task_id']}")).json()["due_at"] == f"2030-01-01T{due}+00:00"


async def test_what_a_request_leaves_out_is_as_the_worker_declares_it(http: httpx2.AsyncClient, store: Store) -> None:
    await store.make_queue("post")
    offer = {"queue": "post", "max_attempts": 7, "priority": 3}
    await store.hello("w", label="w", queues=["post"], names=["mail"], slots=1, tasks={"mail": offer})
    for asked in ({}, {"priority": 0}, {"queue": "default", "max_attempts": 1}):
        made = (await http.post("/dispatch/tasks", json={"task": "mail", **asked})).json()["task_id"]
        task = await store.read(made)
        assert {name: task[name] for name in offer} == {**offer, **asked}


async def test_a_task_waits_for_others(http: httpx2.AsyncClient) -> None:
    first = (await http.post("/dispatch/tasks", json={"task": "a"})).json()["task_id"]
    second = (await http.post("/dispatch/tasks", json={"task": "b", "after": [first], "tags": ["x"]})).json()
    assert second["state"] == "Blocked"
    why = (await http.get(f"/api/v1/tasks/{second['task_id']}/why")).json()
    assert why["reason"] == "dependency"
    tree = (await http.get(f"/api/v1/tasks/{second['task_id']}/tree")).json()["items"]
    assert [(link["relation"], link["id"]) for link in tree] == [("waits_for", first)]
    tagged = (await http.get("/api/v1/tasks?tag=x")).json()
    assert ([item["id"] for item in tagged["items"]], tagged["approx_count"]) == ([second["task_id"]], 1)
    assert (await http.get("/api/v1/tasks?tag=y")).json()["items"] == []


async def test_a_list_goes_page_by_page(http: httpx2.AsyncClient, store: Store) -> None:
    made = {str(await submit(store)) for _ in range(5)}
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await http.get(f"/api/v1/tasks?limit=2&lifecycle=dispatch{cursor}")).json()
        assert (page["approx_count"], page["capped"]) == (5, False)
        seen += [item["id"] for item in page["items"]]
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == sorted(made, reverse=True)


async def test_a_task_is_cancelled_and_retried(http: httpx2.AsyncClient, store: Store) -> None:
    task = await submit(store)
    too_early = await http.post(f"/api/v1/tasks/{task}/retry")
    problem = too_early.json()
    assert (too_early.status_code, problem["code"], problem["state"]) == (409, "move-refused", "Queued")
    assert problem["allowed"] == ["Canceled", "Running"]
    assert problem["type"] == "urn:holdfast:move-refused"
    cancelled = await http.post(f"/api/v1/tasks/{task}/cancel")
    assert cancelled.json() == {"task_id": str(task), "effect": "cancelled", "state": "Canceled"}
    assert (await http.post(f"/api/v1/tasks/{task}/cancel", json={})).json()["effect"] == "too_late"
    again = await http.post(f"/api/v1/tasks/{task}/retry", json={"payload": {"a": 1}})
    assert (again.status_code, again.json()["retry_of"]) == (201, str(task))
    new = (await http.get(f"/api/v1/tasks/{again.json()['task_id']}")).json()
    assert (new["payload"], new["retry_of"], new["state"]) == ({"a": 1}, str(task), "Queued")
    unknown = await http.post(f"/api/v1/tasks/{task}/retry", json={"from_step": "nope"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "step-unknown")


async def test_a_task_tells_its_whole_story(http: httpx2.AsyncClient, store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    used = {"model": "tiny", "tokens_in": 120, "tokens_out": 8, "cost_cents": 0.02}
    await store.checkpoint(Checkpoint(lease, "fetched", {"pages": 3}, usage=used))
    await store.finish(lease, Done("all"))
    at = f"/api/v1/tasks/{task}"
    assert [step["name"] for step in (await http.get(f"{at}/steps")).json()["items"]] == ["fetched"]
    assert [one["ended"] for one in (await http.get(f"{at}/attempts")).json()["items"]] == ["done"]
    assert [event["verb"] for event in (await http.get(f"{at}/events")).json()["items"]] == ["submit", "claim", "done"]
    assert (await http.get(f"{at}/why")).json()["reason"] == "final"
    whole = (await http.get(at)).json()
    assert (whole["state"], whole["result"], whole["allowed"]) == ("Completed", "all", [])
    (usage,) = (await http.get("/api/v1/usage")).json()["items"]
    assert usage == {"model": "tiny", "calls": 1, "tokens_in": 120.0, "tokens_out": 8.0, "cost_cents": 0.02}
    assert (await http.get("/api/v1/usage?since=2031-01-01T00:00:00Z")).json()["items"] == []


async def test_an_operator_pauses_and_resumes_a_queue(http: httpx2.AsyncClient, store: Store) -> None:
    task = await submit(store)
    assert (await http.post("/api/v1/queues/default/pause")).json() == {"name": "default", "paused": True}
    (queue,) = [one for one in (await http.get("/api/v1/queues")).json()["items"] if one["name"] == "default"]
    assert (queue["ready"], queue["paused_by"]) == (1, "local")
    assert (await http.get(f"/api/v1/tasks/{task}/why")).json()["reason"] == "queue_paused"
    assert (await http.post("/api/v1/queues/default/resume")).json()["paused"] is False
    assert (await take_one(store)).task_id == task
    assert (await http.post("/api/v1/queues/nowhere/pause")).status_code == 422


async def test_a_problem_says_all_that_is_known(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/dispatch/tasks", json={"task": "a", "priority": 10, "status": "Completed"})
    problem = answer.json()
    assert {error["loc"][-1] for error in problem.pop("errors")} == {"priority", "status"}
    assert re.fullmatch(r"[0-9a-f]{32}", problem.pop("request_id"))
    assert problem == {
        "type": "urn:holdfast:request-invalid", "title": "The request is not valid", "status": 422,
        "detail": "2 field(s) are wrong.", "instance": "/dispatch/tasks", "code": "request-invalid",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-1.2_3", True), ("a b", False), ("", False), ("x" * 101, False), ('a"', False)]
)
async def test_a_request_has_an_id(http: httpx2.AsyncClient, sent: str, kept: bool) -> None:
    answer = await http.get("/nowhere", headers={"X-Request-Id": sent})
    given = answer.headers["x-request-id"]
    assert (given == sent) == kept
    assert answer.json()["request_id"] == given


async def test_json_is_read_whatever_it_is_called(http: httpx2.AsyncClient) -> None:
    for kind in ("text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "", "application/json"):
        headers = {"Content-Type": kind} if kind else {}
        answer = await http.post("/dispatch/tasks", content=b'{"task": "mail"}', headers=headers)
        assert answer.status_code == 201, kind


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"task": "\xff"}', b'{"task": NaN}',
     b'{"task": "a", "payload": NaN}',
     b'{"task": "a", "payload": 1e999}', b'{"task": "a", "payload": "\\u0000"}', b'{"task": "a", "payload": "\\ud800"}',
     b'{"task": "\\ud800"}', b'{"task": "a\\u0000"}', b'{"task": "a", "\\ud800": 1}',
     b'{"task": "a", "payload": ' + b"[" * 5000,
     b'{"task": "a", "payload": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"task": "a", "payload": ' + b"9" * 5000 + b"}",
     b'{"task": "a", "delay": "-5m"}', b'{"task": "a", "delay": 1e300}', b'{"task": "a", "after": ["x"]}',
     b'{"task": "a", "key": ""}', b'{"task": ""}', b'{"task": "a", "owner": "root"}', b'{"task": "a", "attempt": 7}'],
    ids=lambda body: str(body[:40]),
)  # fmt: skip
async def test_a_body_that_makes_no_sense_is_a_problem_of_the_client(http: httpx2.AsyncClient, body: bytes) -> None:
    answer = await http.post("/dispatch/tasks", content=body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_body_that_is_too_large_is_not_read(http: httpx2.AsyncClient) -> None:
    whole = await http.post("/dispatch/tasks", content=b'{"task": "a", "payload": "' + b"x" * 300_000 + b'"}')
    assert (whole.status_code, whole.json()["code"]) == (413, "body-too-large")
    kept = await http.post("/dispatch/tasks", json={"task": "a", "payload": "x" * 70_000})
    assert (kept.status_code, kept.json()["code"]) == (413, "payload-too-large")
    escaped = b'{"task": "a", "payload": "' + b"\\u00e9" * 32_000 + b'"}'
    assert (await http.post("/dispatch/tasks", content=escaped)).status_code == 201
    for path in ("/internal/checkpoint", "/internal/task-complete"):
        assert (await http.post(path, content=b'"' + b"x" * 2_000_000 + b'"')).status_code == 422
        assert (await http.post(path, content=b'"' + b"x" * 2_200_000 + b'"')).status_code == 413
        assert (await http.post(path, content=b"[" + b"[]," * 100_000 + b"0]")).status_code == 413


@pytest.mark.parametrize(
    "body",
    ["{" + ",".join(f'"k{n}":1' for n in range(100_000)) + "}", '{"outputs": [' + "1," * 500_000 + "1]}",
     '{"events": [' + "{}," * 90_000 + "1]}", '{"error": {' + ",".join(f'"k{n}":1' for n in range(100_000)) + "}}"],
    ids=lambda body: body[:12],
)  # fmt: skip
async def test_of_very_many_mistakes_a_few_are_listed(http: httpx2.AsyncClient, body: str) -> None:
    answer = await http.post("/internal/task-complete", content=body)
    assert answer.status_code == 422
    assert int(answer.json()["detail"].split()[0]) < 30


@pytest.mark.parametrize(
    "query",
    ["state=' or 1=1 --", "name=%00", "owner=%00", "queue='; drop table holdfast.task; --", "cursor=1", "limit=0",
     "limit=201", "limit=x", "actor=root", "outcome=%27", "live=2", "tag=%00", "lifecycle=" + "x" * 201, "tag={a,b}"],
)  # fmt: skip
async def test_filters_are_values_and_nothing_else(http: httpx2.AsyncClient, store: Store, query: str) -> None:
    await submit(store)
    answer = await http.get(f"/api/v1/tasks?{query}")
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        assert answer.json()["items"] == []


async def test_ids_that_are_none_are_422_and_unknown_ones_404(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/api/v1/tasks/1")).status_code == 422
    missing = await http.get(f"/api/v1/tasks/{UUID(int=0)}")
    assert (missing.status_code, missing.json()["code"]) == (404, "task-not-found")


async def test_metrics_count_what_happens(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    for _ in range(3):
        await submit(store)
    lease = await take_one(store)
    await store.hello("w", label="w", queues=["default"], names=None, slots=1)
    clock.advance(seconds=20)
    before = await measured(http)
    assert before['holdfast_queue_depth{queue="default"}'] == 2
    assert before['holdfast_queue_oldest_wait_seconds{queue="default"}'] == 20
    assert before['holdfast_leases{queue="default"}'] == 1
    assert before["holdfast_lease_oldest_age_seconds"] == 20
    assert before["holdfast_workers_live"] == 1
    assert before['holdfast_tasks_live{actor="worker",lifecycle="dispatch",state="Queued"}'] == 2
    assert before["holdfast_reaped_total"] == before["holdfast_lost_total"] == 0
    clock.advance(minutes=2)
    await store.sweep()
    assert await store.heartbeat([lease], lasting=MINUTE) == {}
    assert (await store.settle((lease, Done())))[0].status == "lost"
    assert (await store.checkpoint(Checkpoint(lease, "a")))[0].status == "lost"
    after = await measured(http)
    assert (after["holdfast_reaped_total"], after["holdfast_lost_total"]) == (1, 3)
    assert answered(after, "/metrics") == answered(before, "/metrics") + 1
    await http.get("/nowhere")
    await http.request("INVENTED", "/health")
    await http.get(f"/api/v1/tasks/{lease.task_id}")
    last = await measured(http)
    assert answered(last, "none", 404) == answered(before, "none", 404) + 1
    assert not [name for name in last if "INVENTED" in name]
    assert answered(last, "/api/v1/tasks/{task_id}") == answered(before, "/api/v1/tasks/{task_id}") + 1


async def test_a_count_is_the_same_once_it_is_summed_up(http: httpx2.AsyncClient, store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    await store.finish(lease, Done())
    for _ in range(250):
        await store.heartbeat([lease], lasting=MINUTE)
    before = await measured(http)
    await store.sweep()
    assert (await measured(http))["holdfast_lost_total"] == before["holdfast_lost_total"] == 250


def answered(counted: dict[str, float], route: str, status: int = 200) -> float:
    return counted.get(f'holdfast_http_requests_total{{method="GET",route="{route}",status="{status}"}}', 0)


async def measured(http: httpx2.AsyncClient) -> dict[str, float]:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines: list[Any] = [line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def test_the_document_can_be_read_without_a_network(http: httpx2.AsyncClient) -> None:
    page = await http.get("/api/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "//" not in page.text
    for asset, kind in (("swagger-ui.css", "text/css"), ("swagger-ui-bundle.js", "text/javascript")):
        answer = await http.get(f"/api/docs/{asset}")
        assert answer.headers["content-type"].startswith(kind)
    assert (await http.get("/api/docs/..%2Fcore.py")).status_code in (404, 422)
    assert (await http.get("/api/openapi.json")).json()["info"]["title"] == "Holdfast"
