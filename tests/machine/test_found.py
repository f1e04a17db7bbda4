"""What the machine has found: the shortest way to each fault, and what must happen instead."""

from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Failed, Later, Lease, Submission
from holdfast.errors import DependencyInvalid
from holdfast.testing import Clock
from tests.promises.stage import declare_polled

LEASE = timedelta(seconds=30)


async def claim(store: Store, *tasks: UUID | None, lasting: timedelta = LEASE) -> list[Lease]:
    return await store.claim_these([task for task in tasks if task], lasting=lasting, worker="worker")


async def states(store: Store, *tasks: UUID | None) -> list[str]:
    return [(await store.read(task))["state"] for task in tasks if task]


async def test_a_child_cannot_wait_for_the_parent_that_gathers_it(store: Store) -> None:
    run, _ = await store.submit(
        Submission("run", lifecycle="ingest"), Submission("item", lifecycle="ingest_item", parent=0)
    )
    assert run.id
    with pytest.raises(DependencyInvalid):
        await store.submit(Submission("child", parent=run.id, after=[run.id]))


async def test_what_only_looks_like_a_cycle_is_accepted(store: Store) -> None:
    run, _ = await store.submit(
        Submission("run", lifecycle="ingest"), Submission("item", lifecycle="ingest_item", parent=0)
    )
    (other,) = await store.submit(Submission("other"))
    assert run.id
    assert other.id
    await store.submit(Submission("child of the other", after=[run.id], parent=other.id))
    (after,) = await store.submit(Submission("after", after=[other.id]))
    assert after.id
    await store.submit(Submission("late child", parent=run.id, after=[after.id]))


async def test_a_child_that_waits_for_its_parent_ends_with_it(store: Store) -> None:
    (parent,) = await store.submit(Submission("parent"))
    assert parent.id
    (child,) = await store.submit(Submission("child", parent=parent.id, after=[parent.id]))
    assert await store.cancel(parent.id) == "cancelled"
    assert await states(store, parent.id, child.id) == ["Canceled", "Canceled"]


async def test_a_task_can_lose_its_parent_and_its_dependency_in_one_call(store: Store) -> None:
    parent, other, child = await store.submit(
        Submission("parent"), Submission("other"), Submission("child", parent=0, after=[1])
    )
    leases = await claim(store, parent.id, other.id)
    await store.settle(*((lease, Failed("Fatal", "no")) for lease in leases))
    assert await states(store, parent.id, other.id, child.id) == ["Dead", "Dead", "Canceled"]


async def test_a_tree_can_be_cancelled_whose_branches_wait_for_each_other(store: Store) -> None:
    tree = await store.submit(
        Submission("root", lifecycle="ingest"),
        Submission("first", parent=0),
        Submission("branch", lifecycle="ingest", parent=0),
        Submission("leaf", parent=2, after=[1]),
    )
    assert tree[0].id
    assert await store.cancel(tree[0].id) == "cancelled"
    assert await states(store, *(one.id for one in tree)) == ["CANCELLED", "Canceled", "CANCELLED", "Canceled"]


async def stale_and_current(store: Store, clock: Clock) -> tuple[Lease, Lease]:
    (task,) = await store.submit(Submission("a"))
    (stale,) = await claim(store, task.id)
    clock.advance(seconds=31)
    await store.sweep()
    (current,) = await claim(store, task.id)
    return stale, current


async def test_a_stale_lease_in_the_same_heartbeat_does_not_cost_the_current_one(store: Store, clock: Clock) -> None:
    stale, current = await stale_and_current(store, clock)
    assert await store.heartbeat([stale, current], lasting=LEASE) != {}


async def test_a_stale_lease_in_the_same_settle_does_not_cost_the_current_one(store: Store, clock: Clock) -> None:
    stale, current = await stale_and_current(store, clock)
    answers = await store.settle((stale, Later()), (current, Later()))
    assert sorted(answer.status for answer in answers) == ["lost", "ok"]


async def test_a_stale_lease_in_the_same_checkpoint_does_not_cost_the_current_one(store: Store, clock: Clock) -> None:
    stale, current = await stale_and_current(store, clock)
    answers = await store.checkpoint(Checkpoint(stale, "s", 1), Checkpoint(current, "s", 2))
    assert sorted(answer.status for answer in answers) == ["lost", "ok"]


async def test_a_stale_lease_in_the_same_death_does_not_hide_the_current_one(store: Store, clock: Clock) -> None:
    stale, current = await stale_and_current(store, clock)
    assert await store.mark_lost([stale, current]) == 1


async def test_a_key_never_leads_to_a_task_that_was_not_made(store: Store) -> None:
    run = Submission("run", lifecycle="ingest", key="run")
    await store.submit(run, Submission("first", lifecycle="ingest_item", parent=0, key="first"))
    await store.submit(run, Submission("second", lifecycle="ingest_item", parent=0, key="second"))
    (found,) = await store.submit(Submission("second", lifecycle="ingest_item", key="second"))
    assert found.id
    await store.read(found.id)


async def test_a_call_can_be_repeated_after_the_parent_has_ended(store: Store) -> None:
    call = [Submission("run", lifecycle="ingest", key="run"), Submission("item", lifecycle="ingest_item", parent=0)]
    run, _ = await store.submit(*call)
    assert run.id
    await store.cancel(run.id)
    again = await store.submit(*call)
    assert (again[0].id, again[0].created) == (run.id, False)


async def test_a_call_with_a_waiting_task_can_be_repeated(store: Store) -> None:
    call = [
        Submission("run", lifecycle="ingest", key="run"),
        Submission("item", lifecycle="ingest_item", parent=0),
        Submission("after", after=[1]),
    ]
    first = await store.submit(*call)
    again = await store.submit(*call)
    assert again[0].id == first[0].id


async def test_a_worker_that_runs_everything_takes_what_nobody_knew(store: Store) -> None:
    await store.submit(Submission("a"))
    assert await store.claim(["default"], lasting=LEASE, worker="knows b", names=["b"]) == []
    await store.hello("knows all", label="", queues=["default"], names=None, slots=1)
    assert await store.claim(["default"], lasting=LEASE, worker="knows all")


async def test_failures_in_a_step_that_is_done_count_too(store: Store, clock: Clock) -> None:
    (task,) = await store.submit(Submission("a", lifecycle="pipeline", max_attempts=2))
    for _ in range(2):
        (lease,) = await claim(store, task.id)
        await store.keep(lease, "step", 1)
        settled = await store.finish(lease, Failed("Transient", "no", step="step"))
        clock.advance(minutes=1)
    assert settled.state == "FAILED"


async def test_a_retry_of_a_retry_keeps_what_both_have_done(store: Store) -> None:
    (task,) = await store.submit(Submission("a", lifecycle="pipeline"))
    (lease,) = await claim(store, task.id)
    await store.keep(lease, "first", 1)
    await store.finish(lease, Failed("Fatal", "no", step="second"))
    second = await store.retry(lease.task_id, "second")
    (lease,) = await claim(store, second)
    await store.finish(lease, Failed("Fatal", "no", step="second"))
    third = await store.retry(second, "second")
    assert [step.name for step in await store.steps(third)] == ["first"]


async def test_a_claim_goes_by_the_order_of_the_queues(store: Store) -> None:
    await store.submit(Submission("a", lifecycle="pipeline", priority=9), Submission("b"))
    (lease,) = await store.claim(["default", "pipeline"], lasting=LEASE, worker="worker")
    assert lease.queue == "default"


async def test_a_task_that_is_to_be_cancelled_is_not_handed_out_again(store: Store, clock: Clock) -> None:
    await declare_polled(store)
    (task,) = await store.submit(Submission("a", lifecycle="polled", time_limit=timedelta(minutes=1)))
    (lease,) = await claim(store, task.id, lasting=timedelta(hours=1))
    await store.keep(lease, to="IN_PROGRESS")
    assert await store.cancel(lease.task_id) == "requested"
    clock.advance(minutes=1)
    await store.sweep()
    assert await claim(store, lease.task_id) == []


async def test_lowering_a_limit_breaks_no_promise(store: Store) -> None:
    tasks = await store.submit(*(Submission("a", limit_key="key", limit_to=2) for _ in range(2)))
    assert len(await claim(store, *(task.id for task in tasks))) == 2
    await store.limit_concurrency("key", 1)
    assert await store.verify() == []
