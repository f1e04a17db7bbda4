"""Schedules over HTTP: seen, paused, run and caught up on by operators."""

from typing import Any

import httpx2
import pytest

from holdfast.engine.store.commands import Store
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick
from holdfast.testing import Clock
from tests.promises.test_schedules import declare, made

AT = "/api/v1/schedules/nightly"


@pytest.fixture
async def schedules(store: Store) -> Schedules:
    schedules = Schedules.over(store)
    await declare(schedules, timezone="Europe/Berlin")
    return schedules


async def test_they_are_listed_by_name_in_pages(http: httpx2.AsyncClient, schedules: Schedules) -> None:
    for name in ("a", "b"):
        await declare(schedules, name)
    first = (await http.get("/api/v1/schedules?limit=2")).json()
    assert ([one["name"] for one in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = (await http.get("/api/v1/schedules?limit=2&cursor=b")).json()
    assert ([one["name"] for one in rest["items"]], rest["next"]) == (["nightly"], None)


async def test_a_schedule_has_its_next_times_and_its_runs(
    http: httpx2.AsyncClient, schedules: Schedules, clock: Clock
) -> None:
    clock.advance(hours=1)
    await tick(schedules)
    found = (await http.get(AT)).json()
    assert (found["cron"], found["timezone"], found["live"]) == ("0 2 * * *", "Europe/Berlin", False)
    assert found["upcoming"][:2] == ["2030-01-02T01:00:00Z", "2030-01-03T01:00:00Z"]
    assert [(run["due_at"], run["kind"]) for run in found["runs"]] == [("2030-01-01T01:00:00Z", "due")]
    assert found["last_task"] == found["runs"][0]["task_id"]


async def test_it_is_paused_resumed_run_and_forgotten(
    http: httpx2.AsyncClient, store: Store, schedules: Schedules, clock: Clock
) -> None:
    assert (await http.post(f"{AT}/pause")).json() == {"name": "nightly", "paused": True}
    clock.advance(days=2)
    assert await tick(schedules) == 0
    assert (await http.post(f"{AT}/resume")).json() == {"name": "nightly", "paused": False}
    ran = await http.post(f"{AT}/run")
    assert ran.status_code == 201
    assert [one["id"] for one in await made(store)] == [ran.json()["task_id"]]
    gone = await http.delete(AT)
    assert (gone.status_code, gone.content) == (204, b"")
    for answer in (await http.get(AT), await http.post(f"{AT}/run"), await http.delete(AT)):
        assert (answer.status_code, answer.json()["code"]) == (404, "schedule-unknown")
        assert answer.json()["title"] == "There is no such schedule."


async def test_a_backfill_is_tried_and_then_done_once(
    http: httpx2.AsyncClient, schedules: Schedules, clock: Clock
) -> None:
    clock.advance(days=3)
    asked: dict[str, Any] = {"from": "2030-01-01T00:00:00Z", "to": "2030-01-03T00:00:00Z"}
    dry = (await http.post(f"{AT}/backfill", json={**asked, "dry_run": True})).json()
    assert [(one["due_at"], one["task_id"]) for one in dry["items"]] == [
        ("2030-01-01T01:00:00Z", None), ("2030-01-02T01:00:00Z", None),
    ]  # fmt: skip
    page = (await http.post(f"{AT}/backfill", json={**asked, "limit": 1})).json()
    assert (len(page["items"]), page["next"]) == (1, "2030-01-02T01:00:00Z")
    answers = [(await http.post(f"{AT}/backfill", json=asked)) for _ in range(2)]
    assert [(one.status_code, len(one.json()["items"])) for one in answers] == [(202, 1), (202, 0)]
    wrong = await http.post(f"{AT}/backfill", json={"from": asked["to"], "to": asked["from"]})
    assert wrong.status_code == 422
