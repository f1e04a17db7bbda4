"""A worker that speaks HTTP: claims, keeps, completes, and is refused whatever it has lost."""

from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Clock, Database
from tests.promises.stage import state_of, submit, take_one


async def post(http: httpx2.AsyncClient, path: str, **body: Any) -> httpx2.Response:
    return await http.post(f"/internal/{path}", json=body)


async def claim(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    """One claim; what proves it."""
    answer = await post(http, "task-claim", worker_id="w", **body)
    assert answer.status_code == 200, answer.text
    held = answer.json()
    return {name: held[name] for name in ("task_id", "attempt", "lease_token")}


async def test_a_task_goes_from_submission_to_completion(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    made = (await http.post("/dispatch/tasks", json={"task": "mail", "payload": {"to": "ada"}})).json()
    assert made["state"] == "Queued"
    held = (await post(http, "task-claim", worker_id="w", lease_seconds=10)).json()
    assert (held["task_id"], held["task"], held["attempt"], held["payload"]) == (
        made["task_id"],
        "mail",
        1,
        {"to": "ada"},
    )
    assert held["lease_expires_at"] == "2030-01-01T00:00:10Z"
    proof = {name: held[name] for name in ("task_id", "attempt", "lease_token")}
    clock.advance(seconds=5)
    beat = (await post(http, "heartbeat", **proof, lease_seconds=10, progress={"percent": 40})).json()
    assert beat == {"lease_expires_at": "2030-01-01T00:00:15Z", "cancel_requested": False}
    assert (await http.get(f"/api/v1/tasks/{made['task_id']}")).json()["progress"] == {"percent": 40}
    kept = [(await post(http, "checkpoint", **proof, step="render", output=value)).json() for value in (1, 2)]
    assert [(one["status"], one["output"]) for one in kept] == [("ok", 1), ("stored", 1)]
    body = {
        **proof, "status": "completed", "outputs": [{"dataset": "mails", "key": "ada", "uri": "file:///m"}],
        "events": [{"kind": "mail_sent", "step": "send", "at": "2030-01-01T00:00:04Z", "data": {"bytes": 5}}],
    }  # fmt: skip
    first = await post(http, "task-complete", **body)
    assert first.json() == {"task_id": made["task_id"], "state": "Completed", "attempt": 1, "next_retry_at": None}
    again = await post(http, "task-complete", **body)
    assert (again.status_code, again.json()) == (200, first.json())
    task = (await http.get(f"/api/v1/tasks/{made['task_id']}")).json()
    assert task["result"]["outputs"][0]["dataset"] == "mails"
    noted = (await http.get(f"/api/v1/tasks/{made['task_id']}/events")).json()["steps"]
    assert [(one["kind"], one["step"]) for one in noted] == [("step_completed", "render"), ("mail_sent", "send")]
    assert noted[1]["data"] == {"at": "2030-01-01T00:00:04+00:00", "bytes": 5}


async def test_a_failure_is_tried_again_when_the_engine_says(
    http: httpx2.AsyncClient, store: Store, clock: Clock
) -> None:
    task = await submit(store)
    proof = await claim(http)
    error = {"kind": "Transient", "code": "smtp-451", "message": "later, please"}
    answer = (await post(http, "task-complete", **proof, status="failed", error=error)).json()
    assert (answer["state"], answer["next_retry_at"] > "2030-01-01T00:00:00") == ("Failed", True)
    clock.advance(hours=1)
    await store.sweep()
    proof = await claim(http)
    assert proof["attempt"] == 2
    answer = (
        await post(http, "task-complete", **proof, status="failed", error={"kind": "Fatal", "message": "x"})
    ).json()
    assert (answer["state"], answer["next_retry_at"]) == ("Dead", None)
    (entry,) = await store.inbox.newest()
    assert (entry["task_id"], entry["category"]) == (task, "Fatal")


async def test_nothing_to_do_is_204_and_many_are_a_list(http: httpx2.AsyncClient, store: Store) -> None:
    empty = await post(http, "task-claim", worker_id="w", queues=["default"])
    assert (empty.status_code, empty.content) == (204, b"")
    assert [worker.id for worker in await store.workers()] == ["w"]
    for _ in range(3):
        await submit(store)
    many = (await post(http, "task-claim", worker_id="w", n=2)).json()
    assert len(many) == 2
    beats = [{name: one[name] for name in ("task_id", "attempt", "lease_token")} for one in many]
    beats[1]["lease_token"] = str(uuid4())
    answer = await http.post("/internal/heartbeat", json=beats)
    assert [one["status"] for one in answer.json()] == ["ok", "lost"]
    assert len((await post(http, "task-claim", worker_id="w", n=1)).json()) == 1


async def test_a_task_is_claimed_by_its_id_once(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    task = await submit(store)
    proof = await claim(http, task_id=str(task))
    for code, act in (("already-leased", None), ("terminal", "complete")):
        if act:
            await post(http, "task-complete", **proof, status="completed")
        refused = await post(http, "task-claim", worker_id="other", task_id=str(task))
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["task_id"]) == (409, code, str(task))
        assert problem["state"] == ("Running" if not act else "Completed")
        assert ("Completed" in problem["allowed"]) == (not act)
    later = await http.post("/dispatch/tasks", json={"task": "mail", "delay": "5m"})
    refused = await post(http, "task-claim", worker_id="w", task_id=later.json()["task_id"])
    assert (refused.status_code, refused.json()["code"]) == (409, "not-claimable")
    missing = await post(http, "task-claim", worker_id="w", task_id=str(UUID(int=0)))
    assert (missing.status_code, missing.json()["code"]) == (404, "task-not-found")


async def test_what_was_lost_is_refused_and_changes_nothing(
    http: httpx2.AsyncClient, store: Store, clock: Clock, database: Database
) -> None:
    task = await submit(store)
    proof = await claim(http, lease_seconds=1)
    clock.advance(minutes=1)
    await store.sweep()
    clock.advance(minutes=1)
    await store.sweep()
    current = await take_one(store)
    before = database.ask_owner("select t::text from holdfast.task t")
    event = [{"kind": "too_late"}]
    for path, more, code in (
        ("heartbeat", {}, "lease-lost"),
        ("checkpoint", {"step": "a", "output": 1}, "lease-lost"),
        ("task-complete", {"status": "completed", "events": event}, "stale-attempt"),
        ("task-complete", {"status": "failed"}, "stale-attempt"),
    ):
        refused = await post(http, path, **proof, **more)
        assert (refused.status_code, refused.json()["code"]) == (409, code)
        assert refused.json()["state"] == "Running"
        for forged in ({"lease_token": str(uuid4()), "attempt": 2}, {"attempt": 3}, {"lease_token": str(UUID(int=0))}):
            assert (await post(http, path, **{**proof, **forged}, **more)).status_code == 409
    same_attempt = {"task_id": str(task), "attempt": current.attempt, "lease_token": str(uuid4())}
    refused = await post(http, "task-complete", **same_attempt, status="completed")
    assert (refused.status_code, refused.json()["code"]) == (409, "lease-lost")
    assert database.ask_owner("select t::text from holdfast.task t") == before
    assert await store.step_events(task) == []
    held = {"task_id": str(task), "attempt": current.attempt, "lease_token": str(current.token)}
    assert (await post(http, "task-complete", **held, status="completed")).status_code == 200
    late = await post(http, "task-complete", **held, status="completed", result=1)
    assert (late.status_code, late.json()["code"]) == (409, "stale-attempt")
    assert await state_of(store, task) == "Completed"
    assert await store.verify() == []


async def test_a_worker_hears_that_its_task_is_to_be_cancelled(http: httpx2.AsyncClient, store: Store) -> None:
    task = await submit(store)
    proof = await claim(http)
    cancelled = await http.post(f"/api/v1/tasks/{task}/cancel", json={"reason": "not needed"})
    assert (cancelled.status_code, cancelled.json()["effect"]) == (202, "requested")
    assert (await post(http, "heartbeat", **proof)).json()["cancel_requested"]


async def test_events_that_cannot_be_kept_leave_the_task_with_its_worker(
    http: httpx2.AsyncClient, store: Store
) -> None:
    task = await submit(store)
    proof = await claim(http)
    broken = await post(http, "task-complete", **proof, status="completed", events=[{"kind": "a", "data": "\0"}])
    assert (broken.status_code, broken.json()["code"]) == (422, "payload-invalid")
    undeclared = await submit(store, None, lifecycle="batch")
    batch = await claim(http, queues=["batch"])
    refused = await post(http, "task-complete", **batch, status="completed", events=[{"kind": "a"}])
    assert (refused.status_code, refused.json()["code"]) == (409, "move-refused")
    assert await store.step_events(undeclared) == await store.step_events(task) == []
    assert (await post(http, "task-complete", **proof, status="completed")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("task-claim", {}),
        ("task-claim", {"worker_id": ""}),
        ("task-claim", {"worker_id": "w", "n": 0}),
        ("task-claim", {"worker_id": "w", "n": 101}),
        ("task-claim", {"worker_id": "w", "queues": []}),
        ("task-claim", {"worker_id": "w", "queues": ["nowhere"]}),
        ("task-claim", {"worker_id": "w\0"}),
        ("task-claim", {"worker_id": "w", "lease_seconds": 0}),
        ("task-claim", {"worker_id": "w", "lease_seconds": 1e9}),
        ("task-claim", {"worker_id": "w", "owner": "root"}),
        ("task-claim", {"worker_id": "w", "task_id": "'; drop table holdfast.task; --"}),
        ("heartbeat", []),
        ("heartbeat", {"task_id": str(UUID(int=1)), "attempt": 0, "lease_token": str(UUID(int=1))}),
        ("heartbeat", {"task_id": str(UUID(int=1)), "attempt": 2**31, "lease_token": str(UUID(int=1))}),
        ("checkpoint", {"task_id": str(UUID(int=1)), "attempt": 1, "lease_token": str(UUID(int=1))}),
        ("task-complete", {"task_id": str(UUID(int=1)), "attempt": 1, "lease_token": "x", "status": "completed"}),
        (
            "task-complete",
            {"task_id": str(UUID(int=1)), "attempt": 1, "lease_token": str(UUID(int=1)), "status": "Dead"},
        ),
    ],
)
async def test_what_makes_no_sense_is_422(http: httpx2.AsyncClient, path: str, body: Any) -> None:
    answer = await http.post(f"/internal/{path}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


async def test_a_trace_leads_from_the_submission_to_every_worker(http: httpx2.AsyncClient) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await http.post("/dispatch/tasks", json={"task": "mail"}, headers={"traceparent": trace})
    assert (await post(http, "task-claim", worker_id="w")).json()["traceparent"] == trace
    await http.post("/dispatch/tasks", json={"task": "mail"}, headers={"traceparent": "nonsense"})
    assert (await post(http, "task-claim", worker_id="w")).json()["traceparent"] is None


async def claim_many(http: httpx2.AsyncClient, n: int) -> list[dict[str, Any]]:
    answer = await post(http, "task-claim", worker_id="w", n=n)
    return [{name: held[name] for name in ("task_id", "attempt", "lease_token")} for held in answer.json()]


async def test_many_steps_are_kept_in_one_call_and_each_says_how_it_fared(
    http: httpx2.AsyncClient, store: Store
) -> None:
    for _ in range(2):
        await submit(store)
    first, second = await claim_many(http, 2)
    await post(http, "checkpoint", **first, step="fetch", output="before")
    strange = {**second, "lease_token": str(uuid4())}
    missing = {**first, "task_id": str(uuid4())}
    asked = [
        {**second, "step": "fetch", "output": 2},
        {**first, "step": "fetch", "output": 1},
        {**first, "step": "parse", "output": 3},
        {**strange, "step": "forged", "output": 4},
        {**missing, "step": "fetch", "output": 5},
    ]
    answer = await http.post("/internal/checkpoint", json=asked)
    assert [(one["task_id"], one["step"], one["status"], one["output"]) for one in answer.json()] == [
        (second["task_id"], "fetch", "ok", 2),
        (first["task_id"], "fetch", "stored", "before"),
        (first["task_id"], "parse", "ok", 3),
        (second["task_id"], "forged", "lost", None),
        (missing["task_id"], "fetch", "lost", None),
    ]
    steps = (await http.get(f"/api/v1/tasks/{second['task_id']}/steps")).json()["items"]
    assert [step["name"] for step in steps] == ["fetch"]


async def test_many_attempts_end_in_one_call_and_each_says_how_it_fared(
    http: httpx2.AsyncClient, store: Store, clock: Clock
) -> None:
    for _ in range(4):
        await submit(store)
    done, failed, gone, taken = await claim_many(http, 4)
    clock.advance(seconds=20)
    for held in (done, failed, gone):
        await post(http, "heartbeat", **held, lease_seconds=3600)
    clock.advance(seconds=20)
    await store.sweep()  # takes the fourth away
    clock.advance(minutes=10)
    await store.sweep()
    again = await claim(http, task_id=taken["task_id"])
    assert again["attempt"] == 2
    event = {"kind": "mail_sent", "data": {"bytes": 5}}
    asked = [
        {**taken, "status": "completed", "result": "late", "events": [event]},
        {**done, "status": "completed", "result": "sent", "events": [event, {**event, "kind": "mail_seen"}]},
        {**gone, "lease_token": str(uuid4()), "status": "completed", "result": "forged", "events": [event]},
        {**failed, "status": "failed", "error": {"kind": "Transient", "message": "no"}},
        {**done, "task_id": str(uuid4()), "status": "completed"},
    ]
    answer = await http.post("/internal/task-complete", json=asked)
    assert answer.status_code == 200, answer.text
    assert [(one["task_id"], one["status"], one["state"]) for one in answer.json()] == [
        (taken["task_id"], "stale", "Running"),
        (done["task_id"], "ok", "Completed"),
        (gone["task_id"], "lost", "Running"),
        (failed["task_id"], "ok", "Failed"),
        (asked[4]["task_id"], "stale", None),
    ]
    assert [bool(one["next_retry_at"]) for one in answer.json()] == [False, False, False, True, False]
    noted = {}
    for task in (taken["task_id"], done["task_id"], gone["task_id"]):
        events = (await http.get(f"/api/v1/tasks/{task}/events")).json()["steps"]
        noted[task] = [event["kind"] for event in events]
    assert noted == {taken["task_id"]: [], done["task_id"]: ["mail_sent", "mail_seen"], gone["task_id"]: []}
    repeated = await http.post("/internal/task-complete", json=[asked[1]])
    assert repeated.json() == [answer.json()[1]]
    assert await store.verify() == []


@pytest.mark.parametrize(
    ("path", "more"), [("checkpoint", {"step": "fetch", "output": 1}), ("task-complete", {"status": "completed"})]
)
async def test_what_stands_twice_in_one_call_is_refused_whole(
    http: httpx2.AsyncClient, store: Store, path: str, more: dict[str, Any]
) -> None:
    task = await submit(store)
    held = await claim(http)
    answer = await http.post(f"/internal/{path}", json=[{**held, **more}, {**held, **more}])
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
    assert await state_of(store, task) == "Running"
    assert (await http.get(f"/api/v1/tasks/{task}/steps")).json()["items"] == []


async def test_an_end_that_contradicts_itself_leaves_the_whole_call_unwritten(
    http: httpx2.AsyncClient, store: Store
) -> None:
    tasks = [await submit(store) for _ in range(2)]
    first, second = await claim_many(http, 2)
    wrong = {**second, "status": "failed", "result": "but it has one"}
    answer = await http.post("/internal/task-complete", json=[{**first, "status": "completed"}, wrong])
    assert answer.status_code == 422
    assert [await state_of(store, task) for task in tasks] == ["Running", "Running"]
