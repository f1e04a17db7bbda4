"""Five categories, one reaction each; what an attempt costs, how long it waits, and when it is enough."""

from datetime import timedelta

import pytest

from holdfast.engine.lifecycle.model import Backoff, Lifecycle, final, work
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, declare_polled, state_of, submit, take, take_one

PATIENT = Lifecycle(
    "patient", start="OPEN", cancel="CANCELLED", fail="FAILED", max_attempts=8, crash_budget=5,
    backoff=Backoff(timedelta(seconds=2), timedelta(seconds=60)), rate_wait=timedelta(hours=1),
    states=[
        work("OPEN", done="DONE"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip


async def test_a_failed_attempt_is_tried_again_until_the_attempts_are_used_up(store: Store, clock: Clock) -> None:
    task = await submit(store, max_attempts=3)
    for attempt in (1, 2, 3):
        lease = await take_one(store)
        assert lease.attempt == attempt
        settled = await store.finish(lease, Failed("Transient", "no answer"))
        assert settled.state == ("Failed" if attempt < 3 else "Dead")
        clock.advance(hours=1)
        await store.sweep()
    assert [event.to_state for event in await store.events(task)] == [
        "Queued", "Running", "Failed", "Queued", "Running", "Failed", "Queued", "Running", "Dead",
    ]  # fmt: skip
    assert [entry["task_id"] for entry in await store.inbox.newest()] == [task]


@pytest.mark.parametrize("category", ["SchemaInvalid", "Fatal"])
async def test_what_cannot_get_better_goes_to_the_inbox_at_once(category: str, store: Store) -> None:
    task = await submit(store, lifecycle="ingest_item", name=None)
    lease = await take_one(store, "ingest_item")
    assert (await store.finish(lease, Failed(category, "no such page", step="fetched"))).state == "FAILED"  # type: ignore[arg-type]
    (entry,) = await store.inbox.newest()
    assert (entry["task_id"], entry["category"], entry["error"]["message"]) == (task, category, "no such page")


async def test_a_surprise_is_tried_again_but_not_often(store: Store, clock: Clock) -> None:
    await submit(store, max_attempts=50)
    for expected in ("Failed", "Failed", "Dead"):
        assert (await store.finish(await take_one(store), Failed(None, "KeyError"))).state == expected
        clock.advance(hours=1)
        await store.sweep()


async def test_the_wait_doubles_up_to_its_most_with_a_tenth_at_random(store: Store, clock: Clock) -> None:
    await store.declare(PATIENT)
    await submit(store, lifecycle="patient")
    for wait in (2, 4, 8, 16, 32, 60, 60):
        settled = await store.finish(await take_one(store, "patient"), Failed("Transient", "no"))
        assert settled.due_at is not None
        waited = (settled.due_at - clock.now()).total_seconds()
        assert wait <= waited <= wait * 1.1
        clock.set(settled.due_at - timedelta(milliseconds=1))
        assert await take(store, "patient") == []
        clock.set(settled.due_at)
    assert (await store.finish(await take_one(store, "patient"), Failed("Transient", "no"))).state == "FAILED"


async def test_a_handler_may_say_how_long_to_wait(store: Store, clock: Clock) -> None:
    await submit(store)
    failed = Failed("Transient", "no", retry_after=timedelta(minutes=7))
    assert (await store.finish(await take_one(store), failed)).due_at == clock.now() + timedelta(minutes=7)


async def test_a_rate_limit_costs_no_attempt_and_holds_no_slot(store: Store, clock: Clock, database: Database) -> None:
    task = await submit(store, lifecycle="ingest_item", max_attempts=1, limit_key="azure")
    for _ in range(10):
        lease = await take_one(store, "ingest_item")
        assert lease.attempt == 1
        await store.finish(lease, Failed("RateLimited", "429", retry_after=MINUTE, step="fetched"))
        assert (await store.explain(task)).reason == "rate_budget"
        other = await submit(store, lifecycle="ingest_item", limit_key="azure")
        await store.finish(await take_one(store, "ingest_item"), Failed("Fatal", "enough"))
        assert await state_of(store, other) == "FAILED"
        clock.advance(seconds=60)
        await store.sweep()
    assert (await store.steps(task)) == []


async def test_a_task_asked_to_slow_down_for_too_long_fails(store: Store, clock: Clock) -> None:
    await store.declare(PATIENT)
    task = await submit(store, lifecycle="patient")
    for _ in range(7):
        await store.finish(
            await take_one(store, "patient"), Failed("RateLimited", "429", retry_after=timedelta(minutes=10))
        )
        clock.advance(minutes=10)
    await store.finish(await take_one(store, "patient"), Failed("RateLimited", "429", retry_after=MINUTE))
    assert await state_of(store, task) == "FAILED"


async def test_a_task_asked_to_slow_down_without_a_time_waits_longer_and_longer(store: Store, clock: Clock) -> None:
    await store.declare(PATIENT)
    await submit(store, lifecycle="patient")
    waits = []
    for _ in range(8):
        settled = await store.finish(await take_one(store, "patient"), Failed("RateLimited", "429"))
        assert settled.due_at is not None
        waits.append((settled.due_at - clock.now()).total_seconds())
        clock.set(settled.due_at)
    assert waits[0] <= 2.2
    assert waits[-1] >= 60
    assert waits == sorted(waits) or max(waits) <= 66


async def test_who_gets_on_between_two_rate_limits_has_not_waited_all_the_time(store: Store, clock: Clock) -> None:
    await store.declare(PATIENT)
    task = await submit(store, lifecycle="patient")
    for step in range(4):
        await store.finish(
            await take_one(store, "patient"), Failed("RateLimited", "429", retry_after=timedelta(minutes=50))
        )
        clock.advance(minutes=50)
        lease = await take_one(store, "patient")
        clock.advance(seconds=1)
        await store.keep(lease, f"step-{step}")
        await store.finish(lease, Failed("RateLimited", "429", retry_after=MINUTE))
        clock.advance(minutes=1)
    assert await state_of(store, task) == "OPEN"


async def test_failures_are_counted_per_step(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="ingest_item", max_attempts=2)
    for step in ("fetched", "chunked", "entities"):
        await store.finish(await take_one(store, "ingest_item"), Failed("Transient", "no", step=step))
        clock.advance(hours=1)
    assert [(one.name, one.done, one.failures) for one in await store.steps(task)] == [
        ("fetched", False, 1), ("chunked", False, 1), ("entities", False, 1),
    ]  # fmt: skip
    lease = await take_one(store, "ingest_item")
    assert (await store.finish(lease, Failed("Transient", "no", step="chunked"))).state == "FAILED"
    kinds = [(event.step, event.kind) for event in await store.step_events(task)]
    assert kinds[:2] == [("fetched", "step_failed"), ("fetched", "retry_scheduled")]
    assert kinds[-2:] == [("chunked", "step_failed"), ("chunked", "item_failed")]


async def test_polling_costs_nothing_and_leaves_the_limit_alone(store: Store, clock: Clock) -> None:
    await declare_polled(store)
    task = await submit(store, lifecycle="polled", max_attempts=1)
    lease = await take_one(store, "polled")
    await store.keep(lease, to="IN_PROGRESS")
    deadline = clock.now() + timedelta(hours=26)
    for _ in range(50):
        await store.finish(lease, Later(timedelta(seconds=120), kind="provider_poll"))
        assert (await store.explain(task)).reason == "provider_poll"
        clock.advance(seconds=120)
        lease = await take_one(store, "polled")
        assert (lease.attempt, lease.deadline) == (1, deadline)
    assert (await store.finish(lease, Done())).state == "COMPLETED"


async def test_the_first_lost_worker_is_made_good_at_once_the_third_is_one_too_many(store: Store, clock: Clock) -> None:
    task = await submit(store, max_attempts=1)
    for loss in (1, 2, 3):
        lease = await take_one(store)
        assert lease.attempt == loss
        clock.advance(seconds=61)
        assert (await store.sweep()).reaped == 1
        read = await store.read(task)
        if loss == 1:
            assert (read["state"], read["crashes"]) == ("Queued", 1)
        elif loss == 2:
            assert (read["state"], (await store.explain(task)).reason) == ("Failed", "backoff")
            clock.advance(seconds=2)
            await store.sweep()
    assert (read["state"], read["note"]["kind"]) == ("Dead", "lease_lost")
    assert [entry["task_id"] for entry in await store.inbox.newest()] == [task]


async def test_a_lost_worker_costs_a_crash_and_not_a_failure(store: Store, clock: Clock) -> None:
    task = await submit(store, max_attempts=2)
    await take_one(store)
    clock.advance(seconds=61)
    await store.sweep()
    await store.finish(await take_one(store), Failed("Transient", "no"))
    clock.advance(hours=1)
    await store.sweep()
    await store.finish(await take_one(store), Done())
    read = await store.read(task)
    assert (read["state"], read["attempt"], read["crashes"], read["failures"]) == ("Completed", 3, 1, 1)
