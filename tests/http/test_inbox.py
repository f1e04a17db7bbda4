"""The inbox over HTTP: seen in groups and one by one, handled once, singly or in bulk."""

import asyncio
from typing import Any
from uuid import UUID

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.testing import Clock
from tests.http.conftest import client
from tests.promises.test_inbox import MISSING, fail
from tests.promises.test_waiting import ask, refuse_schedule


async def test_the_first_page_has_groups_and_items(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    made = [str(await fail(store, clock, message=f"Page {n} of /tmp/{n}.pdf", owner="ada")) for n in range(3)]
    page = (await http.get("/inbox?limit=2")).json()
    (group,) = page["groups"]
    assert (group["number"], group["newest"], group["message"]) == (3, made[2], "Page 2 of /tmp/2.pdf")
    assert [item["id"] for item in page["items"]] == made[:0:-1]
    assert (page["next"], page["approx_count"], page["capped"]) == (made[1], 3, False)
    rest = (await http.get(f"/inbox?limit=2&cursor={page['next']}")).json()
    assert ([item["id"] for item in rest["items"]], rest["next"], rest["groups"]) == ([made[0]], None, None)
    for filters, found in {
        "owner=ada": 3, "owner=bob": 0, "name=work": 3, "step=extracted": 3, "category=Fatal": 3, "lifecycle=batch": 0,
    }.items():  # fmt: skip
        answer = (await http.get(f"/inbox?{filters}")).json()
        assert (answer["approx_count"], sum(group["number"] for group in answer["groups"])) == (found, found)
    alike = await http.get("/inbox", params={"signature": group["signature"], "handled": "all"})
    assert alike.json()["approx_count"] == 3
    assert (await http.get("/inbox?handled=maybe")).status_code == 422


async def test_what_else_waits_for_a_person_is_beside_the_failures(
    app: FastAPI, http: httpx2.AsyncClient, store: Store, clock: Clock
) -> None:
    await fail(store, clock, owner="ada")
    task = await ask(store, owner="ada")
    await refuse_schedule(store, clock, owner="bob")
    page = (await http.get("/inbox")).json()
    assert [(one["kind"], one["owner"]) for one in page["waiting"]] == [("question", "ada"), ("schedule", "bob")]
    assert page["waiting"][0]["command"] == f"holdfast answer {task} --step publish --approve"
    for query, kinds in {
        "owner=bob": ["schedule"], "name=work": [], "handled=handled": [], "handled=all": ["question", "schedule"],
        f"cursor={MISSING}": None,
    }.items():  # fmt: skip
        found = (await http.get(f"/inbox?{query}")).json()["waiting"]
        assert (found and [one["kind"] for one in found]) == kinds
    first = (await http.get("/inbox/waiting?limit=1")).json()
    assert (first["items"], first["next"]) == (page["waiting"][:1], page["waiting"][0]["id"])
    rest = await http.get("/inbox/waiting", params={"cursor": first["next"]})
    assert rest.json() == {"items": page["waiting"][1:], "next": None}
    assert (await http.get("/inbox/waiting?cursor=nowhere")).status_code == 422
    ada = (await store.keys.make("ada", ["user"], owner="ada")).secret
    async with client(app, ada) as hers:
        for query in ("", "?owner=bob"):
            seen = (await hers.get(f"/inbox/waiting{query}")).json()["items"]
            assert [one["owner"] for one in seen] == ["ada"]


async def test_an_entry_is_edited_and_retried(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    entry = await fail(store, clock, payload={"doc": "a"})
    seen = (await http.get(f"/inbox/{entry}")).json()
    assert (seen["payload"], seen["task"]["state"]) == ({"doc": "a"}, "Dead")
    assert [step["name"] for step in seen["steps"]] == ["fetched", "extracted"]
    wrong = await http.post(f"/inbox/{entry}/retry", json={"from_step": "nope"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "step-unknown")
    body = {"payload": {"doc": "b"}, "from_step": "extracted", "note": "mended"}
    done = await http.post(f"/inbox/{entry}/retry", json=body)
    assert (done.status_code, done.json()["resolution"]) == (202, "retried")
    new = (await http.get(f"/api/v1/tasks/{done.json()['task_id']}")).json()
    assert (new["payload"], new["retry_of"]) == ({"doc": "b"}, seen["task_id"])
    seen = (await http.get(f"/inbox/{entry}")).json()
    assert (seen["resolved_by"], seen["retried_as"], seen["note"]) == ("local", done.json()["task_id"], "mended")
    assert seen["diff"] == [{"path": "/doc", "before": "a", "after": "b"}]


@pytest.mark.parametrize(("verb", "how"), [("retry", "retried"), ("resolve", "resolved"), ("discard", "discarded")])
async def test_an_entry_that_was_handled_says_by_whom(
    app: FastAPI, store: Store, clock: Clock, verb: str, how: str
) -> None:
    entry = await fail(store, clock)
    keys = [(await store.keys.make(name, ["operator"])).secret for name in ("ada", "bob")]
    async with client(app, keys[0]) as ada, client(app, keys[1]) as bob:
        assert (await ada.post(f"/inbox/{entry}/{verb}")).status_code == 202
        for again in ("retry", "resolve", "discard"):
            refused = await bob.post(f"/inbox/{entry}/{again}", json={"note": "me too"})
            assert (refused.status_code, refused.json()["code"]) == (409, "move-refused")
            assert refused.headers["content-type"] == "application/problem+json"
            assert f"was {how} by ada at" in refused.json()["detail"]
        assert (await bob.post(f"/inbox/{MISSING}/{verb}")).status_code == 404
        assert (await bob.get(f"/inbox/{entry}")).json()["resolved_by"] == "ada"


async def test_two_who_retry_at_once_start_one_task(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    entry = await fail(store, clock)
    answers = await asyncio.gather(*(http.post(f"/inbox/{entry}/retry") for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409, 409]
    assert (await store.list_tasks(live=True)).approx_count == 1


async def test_many_are_handled_at_once(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    made = [await fail(store, clock) for _ in range(3)]
    other = await fail(store, clock, "mail")
    asked: dict[str, Any] = {"action": "retry", "name": "work", "note": "mended", "limit": 2}
    dry = (await http.post("/inbox/bulk", json={**asked, "dry_run": True})).json()
    assert (dry["dry_run"], dry["remaining"]) == (True, 1)
    assert (await http.get("/inbox")).json()["approx_count"] == 4
    answer = await http.post("/inbox/bulk", json=asked)
    done = answer.json()
    assert (answer.status_code, done["refused"], done["remaining"]) == (202, [], 1)
    assert {one["id"] for one in done["handled"]} == {one["id"] for one in dry["handled"]} == {*map(str, made[1:])}
    rest = (await http.post("/inbox/bulk", json={**asked, "cursor": done["next"]})).json()
    assert ([one["id"] for one in rest["handled"]], rest["next"]) == ([str(made[0])], None)
    closed = await http.post("/inbox/bulk", json={"action": "discard", "ids": [str(other), str(made[0]), str(MISSING)]})
    assert [one["id"] for one in closed.json()["handled"]] == [str(other)]
    codes = {UUID(one["id"]): one["code"] for one in closed.json()["refused"]}
    assert codes == {made[0]: "move-refused", MISSING: "task-not-found"}


@pytest.mark.parametrize(
    "body",
    [
        {"action": "retry"},
        {"action": "burn", "name": "work"},
        {"action": "retry", "ids": []},
        {"action": "retry", "ids": [str(MISSING)], "name": "work"},
        {"action": "retry", "name": "work", "payload": {}},
        {"action": "resolve", "name": "work", "from_step": "a"},
        {"action": "resolve", "name": "work", "limit": 1001},
        {"action": "resolve", "before": "1960-01-01T00:00:00Z"},
    ],
    ids=["all", "action", "none", "both", "payload", "step", "limit", "before"],
)
async def test_a_bulk_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, store: Store, clock: Clock, body: dict[str, Any]
) -> None:
    await fail(store, clock)
    assert (await http.post("/inbox/bulk", json=body)).status_code == 422
    assert (await http.get("/inbox")).json()["approx_count"] == 1
