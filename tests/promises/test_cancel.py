"""Cancelling: at once where nobody works, by request where somebody does, too late where it has ended."""

import asyncio

import pytest

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Done, Failed, Later, Moved, Outcome
from holdfast.errors import TaskNotFound
from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, place, state_of, submit, take, take_one

OPEN = [(one, state.name) for one in LIFECYCLES for state in one.states if state.actor != "nobody"]


@pytest.mark.parametrize(("lifecycle", "state"), OPEN, ids=[f"{one.name}-{state}" for one, state in OPEN])
async def test_what_nobody_holds_is_cancelled_at_once(
    lifecycle: Lifecycle, state: str, store: Store, database: Database
) -> None:
    async with database.connect_owner() as owner:
        task = await place(owner, lifecycle.name, state)
    assert await store.cancel(task, "not needed", by="ada") == "cancelled"
    read = await store.read(task)
    assert (read["outcome"], read["note"]) == ("cancelled", {"kind": "cancelled", "reason": "not needed", "by": "ada"})
    assert await store.cancel(task) == "too_late"


async def test_a_worker_learns_of_a_cancel_by_its_next_heartbeat(store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    assert await store.cancel(task, "user asked") == "requested"
    assert await store.cancel(task) == "requested"
    assert (await store.explain(task)).reason == "cancel_pending"
    assert (await store.heartbeat([lease], lasting=MINUTE))[task].cancel_requested
    assert (await store.finish(lease, Cancelled())).state == "Canceled"
    assert [event.verb for event in await store.events(task)] == ["submit", "claim", "ask_cancel", "cancel"]


@pytest.mark.parametrize("outcome", [Later(MINUTE), Failed("Transient", "x"), Failed("RateLimited", "x")])
async def test_a_task_asked_to_cancel_is_not_run_again(outcome: Outcome, store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    await store.cancel(task)
    assert (await store.finish(lease, outcome)).state == "Canceled"
    assert (await store.finish(lease, outcome)).status == "repeat"


async def test_a_move_into_an_open_state_becomes_the_cancelling(store: Store) -> None:
    task = await submit(store, lifecycle="batch")
    lease = await take_one(store, "batch")
    await store.cancel(task)
    assert (await store.finish(lease, Moved("IN_PROGRESS"))).state == "CANCELLED"


async def test_a_handler_that_was_not_asked_cannot_cancel(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    assert (await store.settle((lease, Cancelled())))[0].status == "undeclared"
    await store.finish(lease, Done())


async def test_work_that_is_finished_before_it_hears_of_the_cancelling_counts(store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    assert await store.cancel(task) == "requested"
    assert (await store.finish(lease, Done("paid for"))).state == "Completed"


async def test_cancelling_what_is_settled_first_comes_too_late(store: Store) -> None:
    task = await submit(store)
    await store.finish(await take_one(store), Done())
    assert await store.cancel(task) == "too_late"
    assert await state_of(store, task) == "Completed"


async def test_cancel_and_settle_at_the_same_moment_end_in_one_of_the_two(store: Store) -> None:
    seen = set()
    for _ in range(30):
        task = await submit(store)
        lease = await take_one(store)
        effect, settled = await asyncio.gather(store.cancel(task), store.finish(lease, Later()))
        state = await state_of(store, task)
        seen.add((effect, settled.state, state))
        if state == "Running":
            await store.cancel(task)
    assert seen <= {("requested", "Canceled", "Canceled"), ("cancelled", "Running", "Canceled")}
    assert await store.verify() == []


async def test_a_cancelled_task_whose_worker_is_lost_ends(store: Store, clock: Clock) -> None:
    task = await submit(store)
    await take_one(store)
    await store.cancel(task)
    clock.advance(seconds=61)
    await store.sweep()
    assert await state_of(store, task) == "Canceled"


async def test_a_cancelled_task_is_never_claimed(store: Store) -> None:
    task = await submit(store)
    await store.cancel(task)
    assert await take(store) == []
    assert await store.claim_these([task], lasting=MINUTE, worker="w") == []


async def test_cancelling_nothing_says_so(store: Store) -> None:
    with pytest.raises(TaskNotFound):
        await store.cancel("01b8dac5-b400-730f-8c80-71bbed710aed")


@pytest.mark.parametrize("how", ["cancelled", "later", "failed", "lost", "handed back"])
async def test_the_reason_of_a_cancelling_outlives_the_worker_that_held_the_task(how: str, store: Store) -> None:
    task = await submit(store)
    lease = await take_one(store)
    await store.cancel(task, "not needed.", by="ada")
    match how:
        case "lost":
            await store.mark_lost([lease])
        case "handed back":
            await store.release_leases("worker")
        case _:
            ends: dict[str, Outcome] = {"cancelled": Cancelled(), "later": Later(), "failed": Failed("Transient", "no")}
            await store.finish(lease, ends[how])
    read = await store.read(task)
    assert (read["state"], read["note"]["reason"], read["note"]["by"]) == ("Canceled", "not needed.", "ada")
    assert (await store.explain(task)).sentence == "It ended as Canceled: not needed."
