"""Webhooks over HTTP: for operators alone, and a secret is told once."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.objects.local import Folder
from holdfast.testing import Database
from holdfast.webhooks.delivering import Deliverer
from tests.http.apps import app_over
from tests.http.conftest import client
from tests.webhooks.conftest import all_sent
from tests.webhooks.receiver import Receiver

HOOKS = "/api/v1/webhooks"


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    return app_over(database.bridge(), Folder(tmp_path / "objects").open())


@pytest.fixture
async def http(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    monkeypatch.setenv("HOLDFAST_FETCH_ALLOW", "127.0.0.1/32")
    async with client(app) as http:
        yield http


async def test_a_webhook_is_added_tried_and_removed(
    http: httpx2.AsyncClient, receiver: Receiver, server: Deliverer
) -> None:
    made = await http.post(HOOKS, json={"url": receiver.url(), "name": "mine", "on": ["completed"]})
    assert made.status_code == 201
    hook, secret = made.json()["id"], made.json()["secret"]
    listed = await http.get(HOOKS)
    assert [one["name"] for one in listed.json()["items"]] == ["mine"]
    assert secret not in listed.text
    assert (await http.get(f"{HOOKS}/{hook}")).json()["kinds"] == ["completed"]
    sent = await http.post(f"{HOOKS}/{hook}/test")
    assert sent.status_code == 202
    await all_sent(server)
    assert [one["type"] for one in receiver.verified(secret)] == ["webhook.test"]
    page = (await http.get(f"{HOOKS}/{hook}/deliveries?state=done&limit=1")).json()
    assert ([one["id"] for one in page["items"]], page["next"]) == (
        [sent.json()["delivery_id"]],
        page["items"][0]["id"],
    )
    assert (await http.get(f"{HOOKS}/{hook}/deliveries?cursor={page['next']}")).json() == {"items": [], "next": None}
    again = await http.post(f"{HOOKS}/{hook}/deliveries/{page['next']}/redeliver")
    assert again.status_code == 202
    await all_sent(server)
    assert len(set(receiver.ids())) == 1
    assert (await http.post(f"{HOOKS}/{hook}/pause")).json()["paused_at"]
    assert (await http.post(f"{HOOKS}/{hook}/resume")).json()["paused_at"] is None
    assert (await http.delete(f"{HOOKS}/{hook}")).status_code == 200
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/test"), ("GET", "/deliveries")):
        gone = await http.request(method, f"{HOOKS}/{hook}{path}")
        assert (gone.status_code, gone.json()["code"]) == (404, "webhook-unknown")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"url": "ftp://x"}, {"url": "http://10.0.0.1/"}, {"url": "http://[::1]/"}, {"url": "https://x", "on": []},
     {"url": "http://127.0.0.1/", "on": ["ended"]}, {"url": "http://127.0.0.1/", "more": 1}],
)  # fmt: skip
async def test_what_is_no_webhook_is_refused(http: httpx2.AsyncClient, wrong: dict[str, object]) -> None:
    assert (await http.post(HOOKS, json=wrong)).status_code == 422
    assert (await http.get(HOOKS)).json() == {"items": []}
