"""A run spends no more than it may without asking: its items park, and go on when they are allowed to."""

from typing import Any
from uuid import UUID

from tests.lifecycles.ingest import app
from tests.lifecycles.ingest.harness import Harness, harness_of

FILE = "file:///a"
per_item = 7  # cents: each of the seven steps of the kind `scripted` costs one


async def budget(harness: Harness, run: dict[str, Any] | str, cents: float | None) -> dict[str, Any]:
    run_id = run if isinstance(run, str) else run["run_id"]
    answer = await harness.http.put(f"/ingest/runs/{run_id}/budget", json={"budget_cents": cents})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_run_that_has_spent_its_budget_parks_its_items_and_asks(harness: Harness) -> None:
    run = await harness.ingest(*[FILE] * 3, kind="scripted", budget_cents=10)
    assert (run["status"], run["budget_cents"]) == ("RUNNING", 10)
    assert run["item_count_waiting"] > 0
    assert run["item_count_waiting"] + run["item_count_done"] == 3
    assert 10 <= run["cost_cents"] < 10 + 3 * 2  # what was under way is finished: two steps of each, at most
    (parked, *_) = [one for one in await harness.items(run) if one["status"] == "OVER_BUDGET"]
    why = await harness.store.explain(UUID(parked["item_id"]))
    assert (why.reason, why.actor) == ("owner", "owner")
    assert "Its run has spent its budget" in why.sentence
    assert "go_on" in why.fix


async def test_more_budget_lets_items_go_on_where_they_were(harness: Harness) -> None:
    run = await harness.ingest(*[FILE] * 3, kind="scripted", budget_cents=10)
    ran = list(app.RAN)
    raised = await budget(harness, run, 1000)
    assert (raised["item_count_waiting"], raised["budget_cents"]) == (0, 1000)
    harness.work()
    run = await harness.run(run["run_id"])
    assert (run["status"], run["cost_cents"]) == ("COMPLETED", 3 * per_item)
    assert len(app.RAN) == 3 * per_item
    assert app.RAN[: len(ran)] == ran


async def test_no_budget_at_all_is_as_much_as_it_takes(harness: Harness) -> None:
    run = await harness.ingest(FILE, kind="scripted", budget_cents=0)
    assert (run["item_count_waiting"], run["cost_cents"], app.RAN) == (1, 0, [])
    await budget(harness, run, None)
    harness.work()
    assert (await harness.run(run["run_id"]))["status"] == "COMPLETED"


async def test_too_small_a_raise_changes_nothing(harness: Harness) -> None:
    run = await harness.ingest(FILE, kind="scripted", budget_cents=3)
    assert (await budget(harness, run, 2))["item_count_waiting"] == 1
    harness.work()
    assert app.RAN.count("PERSISTED") == 0


async def test_a_raise_that_is_spent_too_asks_again(harness: Harness) -> None:
    run = await harness.ingest(FILE, kind="scripted", budget_cents=2)
    for cents in (4, 6):
        await budget(harness, run, cents)
        harness.work()
        assert (await harness.run(run["run_id"]))["item_count_waiting"] == 1
    await budget(harness, run, per_item)
    harness.work()
    assert (await harness.run(run["run_id"]))["status"] == "COMPLETED"
    assert sorted(app.RAN) == sorted(set(app.RAN))


async def test_a_parked_run_can_be_cancelled(harness: Harness) -> None:
    run = await harness.ingest(FILE, kind="scripted", budget_cents=2)
    answer = await harness.http.post(f"/ingest/runs/{run['run_id']}/cancel")
    assert (answer.status_code, answer.json()["effect"]) == (202, "cancelled")
    run = await harness.run(run["run_id"])
    assert (run["status"], run["item_count_cancelled"]) == ("CANCELLED", 1)


async def test_a_budget_is_the_owners_to_change(harness: Harness) -> None:
    run = await harness.ingest(FILE, kind="scripted", budget_cents=2)
    async with harness_of(harness, "eve") as eve:
        answer = await eve.http.put(f"/ingest/runs/{run['run_id']}/budget", json={"budget_cents": 5})
        assert answer.status_code == 404
    assert (await harness.library.run(UUID(run["run_id"]))).budget_cents == 2


async def test_a_budget_is_an_amount(harness: Harness) -> None:
    for wrong in (-1, "5", 1e12, True):
        answer = await harness.http.post("/ingest/runs", json={"files": [FILE], "budget_cents": wrong})
        assert answer.status_code == 422, wrong
