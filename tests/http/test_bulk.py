"""Many tasks over HTTP: tried first, then cancelled or retried page by page; a user's are their own."""

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from tests.http.conftest import client
from tests.promises.test_bulk import fail_all, make

AT = "/api/v1/bulk"


async def test_a_client_looks_and_then_goes_from_page_to_page(http: httpx2.AsyncClient, store: Store) -> None:
    await make(store, 5)
    asked: dict[str, Any] = {"action": "cancel", "name": "work", "reason": "a mistake"}
    dry = await http.post(AT, json={**asked, "dry_run": True})
    assert (dry.status_code, dry.json()["number"], dry.json()["done"]) == (202, 5, 0)
    assert dry.json()["groups"] == [{"lifecycle": "dispatch", "state": "Queued", "number": 5}]
    done, cursor = 0, None
    while True:
        page = (await http.post(AT, json={**asked, "limit": 2, "cursor": cursor})).json()
        done, cursor = done + page["done"], page["next"]
        assert (page["refused"], page["requested"], page["dry_run"]) == ([], 0, False)
        if cursor is None:
            break
    assert done == 5
    assert (await http.post(AT, json={**asked, "action": "retry"})).json()["done"] == 5
    assert (await http.post(AT, json={**asked, "action": "retry"})).json()["done"] == 0


async def test_a_user_does_it_with_their_own_only(app: FastAPI, store: Store) -> None:
    secret = (await store.keys.make("ada", ["user"])).secret
    await make(store, 3, owner="ada")
    await make(store, 4, owner="bob")
    await fail_all(store)
    async with client(app, secret) as ada:
        for given in ({"all": True}, {"owner": "bob"}, {"name": "work"}):
            dry = (await ada.post(AT, json={"action": "retry", "dry_run": True, **given})).json()
            assert dry["number"] == 3
        assert (await ada.post(AT, json={"action": "retry", "owner": "bob"})).json()["done"] == 3
    assert (await store.list_tasks(live=True, owner="bob")).items == []
    (one, *_) = (await store.list_tasks(live=True, owner="ada")).items
    assert (await store.step_events(one["id"]))[0].data["by"] == "ada"


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "cancel"},
        {"action": "cancel", "dry_run": True},
        {"action": "explode", "name": "work"},
        {"action": "cancel", "name": "work", "limit": 501},
        {"action": "cancel", "outcome": "failed"},
        {"action": "retry", "outcome": "done"},
        {"action": "retry", "nmae": "work"},
    ],
)
async def test_what_makes_no_sense_or_names_no_tasks_is_refused(
    http: httpx2.AsyncClient, store: Store, asked: dict[str, Any]
) -> None:
    await make(store, 1)
    assert (await http.post(AT, json=asked)).status_code == 422
    assert (await store.list_tasks(live=True)).approx_count == 1


async def test_it_is_posted_and_nothing_else(http: httpx2.AsyncClient) -> None:
    assert (await http.get(AT)).status_code == 405
    assert (await http.get("/api/v1/tasks/1")).status_code == 422
