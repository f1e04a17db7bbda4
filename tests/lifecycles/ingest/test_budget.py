"""A run spends no more than it may without asking: its items park, and go on when they are allowed to."""

from typing import Any
from uuid import UUID

from tests.lifecycles.ingest import app
from tests.lifecycles.ingest.desk import Desk, desk_of

FILE = "file:///a"
per_item = 7  # cents: each of the seven steps of the kind `told` costs one


async def budget(desk: Desk, run: dict[str, Any] | str, cents: float | None) -> dict[str, Any]:
    run_id = run if isinstance(run, str) else run["run_id"]
    answer = await desk.http.put(f"/ingest/runs/{run_id}/budget", json={"budget_cents": cents})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_run_that_has_spent_its_budget_parks_its_items_and_asks(desk: Desk) -> None:
    run = await desk.ingest(*[FILE] * 3, kind="told", budget_cents=10)
    assert (run["status"], run["budget_cents"]) == ("RUNNING", 10)
    assert run["item_count_waiting"] > 0
    assert run["item_count_waiting"] + run["item_count_done"] == 3
    assert 10 <= run["cost_cents"] < 10 + 3 * 2  # what was under way is finished: two steps of each, at most
    (parked, *_) = [one for one in await desk.items(run) if one["status"] == "OVER_BUDGET"]
    why = await desk.store.explain(UUID(parked["item_id"]))
    assert (why.reason, why.actor) == ("owner", "owner")
    assert "Its run has spent its budget" in why.sentence
    assert "go_on" in why.fix


async def test_more_budget_lets_items_go_on_where_they_were(desk: Desk) -> None:
    run = await desk.ingest(*[FILE] * 3, kind="told", budget_cents=10)
    ran = list(app.RAN)
    raised = await budget(desk, run, 1000)
    assert (raised["item_count_waiting"], raised["budget_cents"]) == (0, 1000)
    desk.work()
    run = await desk.run(run["run_id"])
    assert (run["status"], run["cost_cents"]) == ("COMPLETED", 3 * per_item)
    assert len(app.RAN) == 3 * per_item
    assert app.RAN[: len(ran)] == ran


async def test_no_budget_at_all_is_as_much_as_it_takes(desk: Desk) -> None:
    run = await desk.ingest(FILE, kind="told", budget_cents=0)
    assert (run["item_count_waiting"], run["cost_cents"], app.RAN) == (1, 0, [])
    await budget(desk, run, None)
    desk.work()
    assert (await desk.run(run["run_id"]))["status"] == "COMPLETED"


async def test_too_small_a_raise_changes_nothing(desk: Desk) -> None:
    run = await desk.ingest(FILE, kind="told", budget_cents=3)
    assert (await budget(desk, run, 2))["item_count_waiting"] == 1
    desk.work()
    assert app.RAN.count("PERSISTED") == 0


async def test_a_raise_that_is_spent_too_asks_again(desk: Desk) -> None:
    run = await desk.ingest(FILE, kind="told", budget_cents=2)
    for cents in (4, 6):
        await budget(desk, run, cents)
        desk.work()
        assert (await desk.run(run["run_id"]))["item_count_waiting"] == 1
    await budget(desk, run, per_item)
    desk.work()
    assert (await desk.run(run["run_id"]))["status"] == "COMPLETED"
    assert sorted(app.RAN) == sorted(set(app.RAN))


async def test_a_parked_run_can_be_cancelled(desk: Desk) -> None:
    run = await desk.ingest(FILE, kind="told", budget_cents=2)
    answer = await desk.http.post(f"/ingest/runs/{run['run_id']}/cancel")
    assert (answer.status_code, answer.json()["effect"]) == (202, "cancelled")
    run = await desk.run(run["run_id"])
    assert (run["status"], run["item_count_cancelled"]) == ("CANCELLED", 1)


async def test_a_budget_is_the_owners_to_change(desk: Desk) -> None:
    run = await desk.ingest(FILE, kind="told", budget_cents=2)
    async with desk_of(desk, "eve") as eve:
        answer = await eve.http.put(f"/ingest/runs/{run['run_id']}/budget", json={"budget_cents": 5})
        assert answer.status_code == 404
    assert (await desk.library.run(UUID(run["run_id"])))["budget_cents"] == 2


async def test_a_budget_is_an_amount(desk: Desk) -> None:
    for wrong in (-1, "5", 1e12, True):
        answer = await desk.http.post("/ingest/runs", json={"files": [FILE], "budget_cents": wrong})
        assert answer.status_code == 422, wrong
