"""Time limits count from the entry into a state and hold to the second."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.engine.lifecycle.model import Lifecycle, after, final, work
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Later, Partial
from holdfast.errors import LeaseLost, RequestInvalid, TaskExpired
from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Clock, Database
from tests.promises.stage import declare_polled, place, state_of, submit, take, take_one

LIMITED = [
    (lifecycle, state.name, state.limit.after, state.limit.to)
    for lifecycle in LIFECYCLES
    for state in lifecycle.states
    if state.limit
]


@pytest.mark.parametrize(
    ("lifecycle", "state", "after", "to"), LIMITED, ids=[f"{limit[0].name}-{limit[1]}" for limit in LIMITED]
)
async def test_a_limit_moves_the_task_to_the_second(
    lifecycle: Lifecycle, state: str, after: timedelta, to: str | None, store: Store, clock: Clock, database: Database
) -> None:
    async with database.connect_owner() as owner:
        task = await place(owner, lifecycle.name, state)
        await owner.execute("set session_replication_role = replica")
        await owner.execute("update holdfast.task set deadline = holdfast.now() + $1", after)
        clock.advance(seconds=after.total_seconds() - 1)
        assert (await store.sweep()).expired == 0
        clock.advance(seconds=1)
        assert (await store.sweep()).expired == 1
        assert await state_of(store, task) == (to or state)
        assert (await store.sweep()).expired == 0


async def test_a_limit_counts_from_the_entry_into_the_state(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="analysis")
    clock.advance(minutes=14)
    await store.act(task, "upload_urls")
    clock.advance(minutes=14)
    await store.act(task, "process")
    clock.advance(minutes=59)
    await take_one(store, "analysis")
    clock.advance(minutes=29, seconds=59)
    await store.sweep()
    # The lease has run out long ago; the task itself has a second left.
    assert (await store.read(task))["state"] == "PROCESSING"
    clock.advance(seconds=1)
    await store.sweep()
    read = await store.read(task)
    assert (read["state"], read["note"]["kind"]) == ("FAILED", "time_limit")


async def test_new_urls_renew_the_limit_but_not_for_ever(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="analysis")
    await store.act(task, "upload_urls")
    entered = clock.now()
    for minutes, lasts in ((10, 25), (10, 35), (10, 45), (10, 55), (10, 60), (9, 60)):
        clock.advance(minutes=minutes)
        assert await store.act(task, "upload_urls") == "UPLOADING"
        assert (await store.explain(task)).until == entered + timedelta(minutes=lasts)
    clock.advance(minutes=1)
    with pytest.raises(TaskExpired):
        await store.act(task, "upload_urls")
    assert await state_of(store, task) == "EXPIRED"


async def test_an_owner_who_comes_too_late_is_refused_before_any_sweep(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="analysis")
    clock.advance(minutes=15)
    with pytest.raises(TaskExpired):
        await store.act(task, "upload_urls")
    assert [event.verb for event in await store.events(task)] == ["submit", "limit"]


async def test_a_task_whose_limit_has_passed_is_not_claimed(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="pipeline")
    clock.advance(hours=2)
    assert await take(store, "pipeline") == []
    await store.sweep()
    assert await state_of(store, task) == "FAILED"
    assert [entry["task_id"] for entry in await store.inbox.newest()] == [task]


async def test_at_its_limit_a_batch_wakes_a_worker_once_to_wind_it_up(store: Store, clock: Clock) -> None:
    await declare_polled(store)
    task = await submit(store, lifecycle="polled")
    lease = await take_one(store, "polled")
    await store.keep(lease, to="IN_PROGRESS")
    await store.finish(lease, Later(timedelta(days=3), kind="provider_poll"))
    clock.advance(hours=26)
    assert (await store.sweep()).expired == 1
    assert (await store.sweep()).expired == 0
    lease = await take_one(store, "polled")
    assert (lease.timed_out, lease.deadline, lease.state) == (True, None, "IN_PROGRESS")
    assert (await store.finish(lease, Partial())).state == "PARTIAL_COMPLETE"
    assert (await store.read(task))["attempt"] == 1


async def test_a_limit_takes_the_task_from_the_worker_that_holds_it(store: Store, clock: Clock) -> None:
    await submit(store, lifecycle="pipeline")
    lease = await take_one(store, "pipeline", lasting=timedelta(hours=3))
    clock.advance(hours=2)
    await store.sweep()
    with pytest.raises(LeaseLost):
        await store.finish(lease, Done())


async def test_a_task_may_bring_its_own_limit(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="pipeline", time_limit=timedelta(hours=5))
    await take_one(store, "pipeline", lasting=timedelta(hours=10))
    clock.advance(hours=4, minutes=59, seconds=59)
    assert (await store.sweep()).expired == 0
    clock.advance(seconds=1)
    assert (await store.sweep()).expired == 1
    assert await state_of(store, task) == "FAILED"


async def test_a_day_has_24_hours_in_every_time_zone(store: Store, database: Database, clock: Clock) -> None:
    clock.set(datetime(2030, 3, 30, 12, tzinfo=UTC))  # the night after, clocks in Berlin lose an hour
    async with database.connect() as connection:
        await connection.execute("set time zone 'Europe/Berlin'")
        berlin = Store(connection)
        day = timedelta(days=1)
        task = await submit(berlin, delay=day, lifecycle="pipeline", time_limit=day)
        assert (await store.explain(task)).until == clock.now() + day
        assert await berlin.make_partitions(3) == 6 * 4 - 2  # today's input and event lie in _rest already
    assert await store.make_partitions(3) == 0


async def test_who_is_to_be_cancelled_is_cancelled_at_its_limit_unless_that_ends_it(store: Store, clock: Clock) -> None:
    await declare_polled(store)
    task = await submit(store, lifecycle="polled", time_limit=timedelta(minutes=1))
    lease = await take_one(store, "polled", lasting=timedelta(hours=1))
    await store.keep(lease, to="IN_PROGRESS")
    await store.cancel(task)
    clock.advance(minutes=1)
    await store.sweep()
    assert await state_of(store, task) == "CANCELLED"


async def test_cancelling_what_has_run_out_of_time_comes_too_late(store: Store, clock: Clock) -> None:
    task = await submit(store, lifecycle="analysis")
    clock.advance(minutes=15)
    assert (await store.cancel(task), await state_of(store, task)) == ("too_late", "EXPIRED")


async def test_a_new_state_is_not_timed_out(store: Store, clock: Clock) -> None:
    await store.declare(WOKEN)
    await submit(store, lifecycle="woken")
    clock.advance(minutes=1)
    await store.sweep()
    lease = await take_one(store, "woken")
    assert lease.timed_out
    await store.keep(lease, to="NEXT")
    assert not (await store.read(lease.task_id))["timed_out"]


WOKEN = Lifecycle(
    "woken", start="FIRST", cancel="CANCELLED", fail="FAILED",
    states=[
        work("FIRST", to=["NEXT"], limit=after(minutes=1, wake=True)), work("NEXT", done="DONE"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip


async def test_a_time_limit_that_no_state_goes_by_is_refused(store: Store) -> None:
    with pytest.raises(RequestInvalid, match="no time limit of their own"):
        await submit(store, time_limit=timedelta(minutes=1))
