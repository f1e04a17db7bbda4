"""Questions over HTTP: whoever has the link may answer once, whoever looks answers nothing, owners see their own."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.objects.local import Folder
from holdfast.testing import Clock, Database
from tests.approvals.test_answering import DAY, asked, waits
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.promises.stage import take, take_one

PAGE = {"Accept": "text/html,application/xhtml+xml"}
FORM = {"Content-Type": "application/x-www-form-urlencoded", **PAGE}


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    return app_over(database.bridge(), Folder(tmp_path / "objects").open())


@pytest.fixture
async def http(app: FastAPI, store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody without a key, at a server that asks for one."""
    await store.keys.make("somebody", ["operator"])
    async with client(app) as http:
        yield http


async def asleep(store: Store, **options: str) -> tuple[UUID, str]:
    """A task that waits for an answer; its id, and the path of the link."""
    lease, question = await asked(store, **options)
    await store.finish(lease, waits(question))
    return lease.task_id, f"/answers/{question.secret}"


async def test_whoever_has_the_link_answers_once(http: httpx2.AsyncClient, store: Store) -> None:
    task, link = await asleep(store)
    for _ in range(2):
        seen = await http.get(link)
        assert (seen.status_code, seen.json()["state"], seen.json()["question"]) == (200, "open", "Publish?")
        assert seen.headers["cache-control"] == "no-store"
    assert await take(store) == []
    first = await http.post(link, json={"price": [1, None]})
    assert (first.status_code, first.json(), "idempotency-replayed" in first.headers) == (
        200, {"state": "answered", "step": "publish"}, False
    )  # fmt: skip
    again = await http.post(link, json={"price": [1, None]})
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    other = await http.post(link, json={"price": []})
    assert (other.status_code, other.json()["code"]) == (409, "already-answered")
    lease = await take_one(store)
    assert (lease.task_id, (await store.steps(task))[0].result) == (task, {"price": [1, None]})
    assert (await http.get(link)).json()["state"] == "answered"


async def test_the_page_asks_and_its_form_answers(http: httpx2.AsyncClient, store: Store) -> None:
    lease, _ = await asked(store)
    bold = await store.ask(lease, "bold", "<b>&\"'Bold?</b>", DAY)
    assert bold.secret
    page = await http.get(f"/answers/{bold.secret}", headers=PAGE)
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;b&gt;&amp;&quot;&#x27;Bold?&lt;/b&gt;" in page.text
    assert "<b>" not in page.text
    assert "<script" not in page.text
    assert "http" not in page.text.replace("http-equiv", "")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "form-action 'self'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "same-origin"  # with none, a browser would send `Origin: null`
    assert bold.secret not in page.text
    own, foreign = {"Origin": "http://localhost:7777"}, {"Origin": "https://evil.example"}
    body = b"approved=false&note=not+yet"
    refused = await http.post(f"/answers/{bold.secret}", content=body, headers={**FORM, **foreign})
    assert refused.status_code == 403
    done = await http.post(f"/answers/{bold.secret}", content=body, headers={**FORM, **own})
    assert (done.status_code, "It was answered at" in done.text, "<form" in done.text) == (200, True, False)
    (step,) = await store.steps(lease.task_id)
    assert step.result == {"approved": False, "note": "not yet"}
    twice = await http.post(f"/answers/{bold.secret}", content=b"approved=true&note=", headers={**FORM, **own})
    assert (twice.status_code, "answered before" in twice.text) == (409, True)


async def test_what_is_no_answer_is_refused_and_answers_nothing(http: httpx2.AsyncClient, store: Store) -> None:
    task, link = await asleep(store)
    for content, headers in (
        (b"", {}), (b"not JSON", {}), (b"[" * 5000, {}), (b"approved=maybe", FORM), (b"note=x", FORM),
        (b"\xff=1", FORM), (b'{"a": NaN}', {}), (b'"\\u0000"', {}), (b'"\\ud800"', {}),
    ):  # fmt: skip
        refused = await http.post(link, content=content, headers=headers)
        assert refused.status_code == 422, content
    assert (await http.post(link, content=b" " * 300_000)).status_code == 413
    near = ("/answers/x", "/answers/" + "x" * 43, link[:-1], link + "x", "/answers/%00", "/answers/" + "x" * 201)
    for wrong in near:
        for method in ("GET", "POST"):
            answer = await http.request(method, wrong, content=b"1" if method == "POST" else None)
            assert answer.status_code in (404, 422), wrong
    assert (await http.get("/answers/x")).json()["code"] == "question-unknown"
    assert await store.steps(task) == []


async def test_late_and_gone_are_gone(http: httpx2.AsyncClient, store: Store, clock: Clock) -> None:
    task, link = await asleep(store)
    other, cancelled = await asleep(store)
    await store.cancel(other)
    gone = await http.post(cancelled, json=1)
    assert (gone.status_code, gone.json()["code"]) == (410, "question-closed")
    assert (await http.get(cancelled)).json()["state"] == "closed"
    clock.advance(days=1)
    late = await http.post(link, json=1)
    assert (late.status_code, late.json()["code"]) == (410, "question-closed")
    assert (await http.get(link)).json()["state"] == "late"
    page = await http.get(link, headers=PAGE)
    assert (page.status_code, "<form" in page.text) == (200, False)
    assert await store.steps(task) == []


async def test_owners_see_and_answer_their_own(app: FastAPI, store: Store) -> None:
    keys = {name: (await store.keys.make(name, ["user"])).secret for name in ("ada", "bob")}
    keys["root"] = (await store.keys.make("root", ["operator"])).secret
    task, link = await asleep(store, owner="ada")
    other, _ = await asleep(store, owner="bob")
    seen = {}
    for name, key in keys.items():
        async with client(app, key) as http:
            page = (await http.get("/api/v1/questions")).json()
            seen[name] = {UUID(item["task_id"]) for item in page["items"]}
            assert link.rpartition("/")[2] not in str(page)
    assert seen == {"ada": {task}, "bob": {other}, "root": {task, other}}
    path = f"/api/v1/questions/{task}/publish"
    async with client(app, keys["bob"]) as http:
        foreign, none = await http.post(path, json={"approved": True}), await http.post(f"{path}x", json={"answer": 1})
        assert (foreign.status_code, none.status_code) == (404, 404)
        assert foreign.json()["code"] == "question-unknown"
    async with client(app, keys["ada"]) as http:
        for wrong in ({}, {"answer": 1, "approved": True}, {"approve": True}, {"approved": "perhaps"}):
            assert (await http.post(path, json=wrong)).status_code == 422
        answered = await http.post(path, json={"approved": True, "note": "go"})
        assert (answered.status_code, answered.json()) == (
            200,
            {"task_id": str(task), "step": "publish", "repeated": False},
        )
        again = await http.post(path, json={"answer": {"approved": True, "note": "go"}})
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        assert (await http.post(path, json={"answer": None})).status_code == 409
    events = [event.data for event in await store.step_events(task) if event.kind == "question_answered"]
    assert events == [{"by": "ada"}]


async def test_a_long_list_goes_on(http: httpx2.AsyncClient, app: FastAPI, store: Store) -> None:
    made = [(await asleep(store))[0] for _ in range(3)]
    async with client(app, (await store.keys.make("root", ["operator"])).secret) as root:
        first = (await root.get("/api/v1/questions?limit=2")).json()
        rest = (await root.get(f"/api/v1/questions?limit=2&cursor={first['next']}")).json()
    assert sorted(UUID(item["task_id"]) for item in first["items"] + rest["items"]) == sorted(made)
    assert rest["next"] is None


async def test_json_is_read_as_such_whatever_it_is_called(http: httpx2.AsyncClient, store: Store) -> None:
    _, link = await asleep(store)
    form = {"Content-Type": FORM["Content-Type"]}
    sent = await http.post(link, content=b'{"approved": true, "note": null}', headers=form)
    assert (sent.status_code, sent.json()["state"]) == (200, "answered")
