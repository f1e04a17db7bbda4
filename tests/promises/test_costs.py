"""What was spent is kept to the last digit, once, with the step that spent it; sums agree however they are grouped."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast import Holdfast, step, usage
from holdfast.engine.store.commands import Store
from holdfast.engine.store.costs import Cost
from holdfast.engine.task import Checkpoint, Completion, Done, Failed, Json, Lease, Submission
from holdfast.errors import LeaseLost, RequestInvalid, StepInvalid
from holdfast.testing import Clock, Database, Engine
from tests.promises.stage import submit, take, take_one

TINY = {"model": "tiny", "tokens_in": 1000, "tokens_out": 100}


async def total(store: Store, **which: Any) -> Cost:
    (found,) = await store.costs.totals("total", **which)
    return found


async def spend(store: Store, **spent: Json) -> Lease:
    """A new task with one step that spent this."""
    await submit(store)
    lease = await take_one(store)
    await store.keep(lease, "thought", usage=[{"model": "tiny", **spent}])
    return lease


# Prices


async def test_a_cost_that_is_given_counts_whatever_the_price(store: Store) -> None:
    await store.costs.set_price("tiny", 300, 1500)
    await spend(store, tokens_in=1_000_000, cost_cents=7)
    await spend(store, tokens_in=1_000_000, cost_cents="0.25")
    await spend(store, tokens_in=1_000_000, cost_cents=0)
    assert await total(store) == Cost("total", 3, 3_000_000, 0, Decimal("7.25"), 0)


async def test_tokens_without_a_cost_are_priced_by_the_table(store: Store) -> None:
    await store.costs.set_price("tiny", Decimal("15.5"), Decimal("60.0000000001"))
    await spend(store, tokens_in=1, tokens_out=3)
    assert (await total(store)).cost_cents == Decimal("0.0001955000000003")
    (row,) = await store.costs.totals("model")
    assert (row.group, row.unpriced) == ("tiny", 0)


async def test_what_has_no_price_counts_nothing_and_is_reported(store: Store) -> None:
    await spend(store, tokens_in=10)
    await spend(store, tokens_in=10, cost_cents=0)
    await spend(store, tokens_in=10, cost_cents=None)
    assert await total(store) == Cost("total", 3, 30, 0, Decimal(0), 2)


async def test_what_was_recorded_keeps_the_price_of_its_day(store: Store, clock: Clock) -> None:
    now = await store.now()
    await store.costs.set_price("tiny", 100, 0)
    await store.costs.set_price("tiny", 200, 0, since=now + timedelta(days=2))
    await spend(store, tokens_in=1_000_000)
    clock.advance(days=2)
    await spend(store, tokens_in=1_000_000)
    await store.costs.set_price("tiny", 999, 0, since=now)
    await store.costs.set_price("tiny", 400, 0, by="ada")
    await spend(store, tokens_in=1_000_000)
    assert [(one.group, int(one.cost_cents)) for one in await store.costs.totals("day")] == [
        ("2030-01-03", 600),
        ("2030-01-01", 100),
    ]
    assert [(int(one.in_cents), one.set_by, one.current) for one in await store.costs.prices("tiny")] == [
        (400, "ada", True), (999, "", False),
    ]  # fmt: skip


WRONG_NAMES = ("", " tiny", "x" * 201, "tiny\0")
WRONG_CENTS: tuple[Any, ...] = (-1, float("nan"), float("inf"), 1e9, "1e-11", "x")


async def test_a_price_that_makes_no_sense_is_refused(store: Store) -> None:
    wrong: list[tuple[Any, ...]] = [(name, 1, 1) for name in WRONG_NAMES]
    wrong += [("tiny", cents, 1) for cents in WRONG_CENTS] + [("tiny", 1, cents) for cents in WRONG_CENTS]
    for asked in [*wrong, ("tiny", 1, 1, datetime(1969, 1, 1, tzinfo=UTC))]:
        with pytest.raises(RequestInvalid):
            await store.costs.set_price(*asked)
    assert await store.costs.prices() == []


# Once


async def test_the_same_checkpoint_twice_is_spent_once(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    for _ in range(2):
        await store.keep(lease, "thought", usage=[{**TINY, "cost_cents": 1}])
    done = [Checkpoint(lease, name, usage=[{**TINY, "cost_cents": 1}]) for name in ("thought", "again", "drawn")]
    await store.checkpoint(*done)
    await store.checkpoint(*done, Checkpoint(lease, "silent"))
    assert (await total(store)).cost_cents == 3


async def test_a_step_reported_twice_in_one_call_is_spent_once(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    await store.checkpoint(*(Checkpoint(lease, "thought", n, usage=[{**TINY, "cost_cents": n}]) for n in (1, 1)))
    assert (await total(store)).calls == 1


async def test_who_lost_the_lease_spends_nothing(store: Store, clock: Clock) -> None:
    task = await submit(store)
    zombie = await take_one(store)
    clock.advance(seconds=61)
    await store.sweep()
    lease = await take_one(store)
    used = {**TINY, "cost_cents": 5}
    with pytest.raises(LeaseLost):
        await store.keep(zombie, "thought", usage=[used])
    with pytest.raises(LeaseLost):
        await store.record(zombie, "usage", data=[used])
    both = await store.checkpoint(Checkpoint(zombie, "a", usage=used), Checkpoint(lease, "b", usage=used))
    assert {(one.step, one.status) for one in both} == {("a", "lost"), ("b", "ok")}
    await store.finish(lease, Done())
    with pytest.raises(LeaseLost):
        await store.record(lease, "usage", data=[used])
    assert await total(store, task=task) == Cost("total", 1, 1000, 100, Decimal(5), 0)


async def test_an_attempt_that_goes_on_spends_only_what_is_new(store: Store, clock: Clock) -> None:
    task = await submit(store)
    first = await take_one(store)
    await store.keep(first, "thought", usage=[{**TINY, "cost_cents": 2}])
    await store.record(first, "usage", data=[{**TINY, "cost_cents": 3}])
    clock.advance(seconds=61)
    await store.sweep()
    second = await take_one(store)
    await store.keep(second, "thought", usage=[{**TINY, "cost_cents": 100}])
    await store.keep(second, "drawn", usage=[{**TINY, "cost_cents": 4}])
    assert (await total(store, task=task)).cost_cents == 9


async def test_a_retried_task_does_not_spend_again_what_it_inherits(store: Store) -> None:
    old = await submit(store)
    lease = await take_one(store)
    await store.keep(lease, "thought", usage=[{**TINY, "cost_cents": 2}])
    await store.finish(lease, Failed("Fatal", "no", step="drawn"))
    new = await store.retry(old)
    again = await take_one(store)
    await store.keep(again, "thought", usage=[{**TINY, "cost_cents": 100}])
    await store.keep(again, "drawn", usage=[{**TINY, "cost_cents": 1}])
    assert {one.group: one.cost_cents for one in await store.costs.totals("task")} == {str(old): 2, str(new): 1}


async def test_what_is_reported_with_the_end_of_an_attempt_counts_once(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    events = [("usage", None, {**TINY, "cost_cents": 2}), ("step_failed", "a", {**TINY, "cost_cents": 50})]
    end = Completion(lease, Done(), events)
    assert [(await store.complete(end))[0].status for _ in range(2)] == ["ok", "repeat"]
    assert (await total(store)).cost_cents == 2


async def test_what_is_kept_of_spending_is_never_changed(store: Store, database: Database) -> None:
    await spend(store, cost_cents=1)
    async with database.connect_owner() as owner:
        with pytest.raises(asyncpg.PostgresError, match="never changed"):
            await owner.execute("update holdfast.usage set cost_micros = 0")
    async with database.connect() as application:
        for statement in (
            "select from holdfast.usage",
            "select from holdfast.price",
            "select holdfast.keep_usage('{}')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await application.execute(statement)


# From Python


def test_a_decimal_keeps_its_digits_on_the_way(holdfast: Engine) -> None:
    app = Holdfast()
    cents = Decimal("0.1000000000000001")

    def think() -> None:
        usage("tiny", cost_cents=cents)
        usage("tiny", cost_cents=cents, temperature=0.5)
        usage("tiny", cost_cents=0.1)
        usage("tiny", tokens_in=5)

    @app.task
    async def thinks() -> None:
        await step("thought", think)
        usage("tiny", cost_cents=Decimal("1E-7"))

    run = holdfast.run(thinks)
    assert [one.get("cost_cents") for one in run.usage] == [str(cents), str(cents), 0.1, None, "1E-7"]
    assert run.usage[1]["temperature"] == 0.5
    (sum_,) = holdfast.call(holdfast.store.costs.totals())
    assert sum_ == Cost("tiny", 5, 5, 0, Decimal("0.3000001000000002"), 1)


@pytest.mark.parametrize("cents", [float("nan"), float("inf"), Decimal("sNaN"), "much", True], ids=repr)
def test_a_cost_that_is_none_is_refused_where_it_is_written(holdfast: Engine, cents: Any) -> None:
    app = Holdfast()

    @app.task(retries=0)
    async def thinks() -> str:
        try:
            usage("tiny", cost_cents=cents)
        except StepInvalid as error:
            return str(error.detail)
        return "nothing"

    assert holdfast.run(thinks).result == f"cost_cents={cents!r} is not a cost."


# Families


async def test_a_parent_has_the_cost_of_all_below_it(store: Store) -> None:
    family = [Submission(lifecycle="ingest"), *(Submission(lifecycle="ingest_item", parent=0) for _ in range(3))]
    run, *items = [one.id for one in await store.submit(*family) if one.id]
    leases = {lease.task_id: lease for lease in await take(store, "ingest_item", n=3)}
    for place, item in enumerate(items):
        spent = [{"model": f"m{place % 2}", "tokens_in": 10, "cost_cents": "0.1"}]
        await store.keep(leases[item], "fetched", usage=spent)
    found = await store.costs.of_task(run)
    assert (list(found.own), found.own_cents) == ([], Decimal(0))
    assert [(one.group, one.calls, one.cost_cents) for one in found.children] == [
        ("m0", 2, Decimal("0.2")), ("m1", 1, Decimal("0.1")),
    ]  # fmt: skip
    assert found.children_cents == Decimal("0.3")
    own = await store.costs.of_task(items[0])
    assert (own.own_cents, own.children) == (Decimal("0.1"), [])
    assert (await store.costs.of_task(UUID(int=7))).own == []
