"""Tasks that wait for tasks: released once, by the last one, in any order, also when all end at once."""

import asyncio
import itertools
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Lease, Policy, Submission
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, state_of, submit, take, take_one, until_somebody_waits_for_a_lock


async def leases_of(store: Store, *ids: UUID) -> list[Lease]:
    leases = {lease.task_id: lease for lease in await store.claim_these(ids, lasting=MINUTE, worker="worker")}
    return [leases[one] for one in ids]


async def graph(store: Store, *tasks: Submission) -> list[UUID]:
    return [one.id for one in await store.submit(*tasks) if one.id]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_the_last_of_its_dependencies_releases_a_task_in_any_order(order: tuple[int, ...], store: Store) -> None:
    *ids, joined = await graph(store, *(Submission("part") for _ in range(3)), Submission("join", after=[0, 1, 2]))
    leases = await leases_of(store, *ids)
    for place in order:
        assert await state_of(store, joined) == "Blocked"
        await store.finish(leases[place], Done())
    assert await state_of(store, joined) == "Queued"
    assert [event.verb for event in await store.events(joined)] == ["submit_blocked", "unblock"]


async def test_dependencies_that_end_at_the_same_moment_release_exactly_once(store: Store) -> None:
    for _ in range(20):
        *ids, joined = await graph(
            store, *(Submission("part") for _ in range(4)), Submission("join", after=[0, 1, 2, 3])
        )
        await asyncio.gather(*(store.finish(lease, Done()) for lease in await leases_of(store, *ids)))
        assert [event.verb for event in await store.events(joined)] == ["submit_blocked", "unblock"]
        await store.cancel(joined)
    assert await store.verify() == []


async def test_the_second_of_two_that_end_at_once_waits_for_the_first_and_then_releases(
    store: Store, database: Database
) -> None:
    """In forced order: both have ended, neither is committed, and one waits for the lock of the other."""
    one, two, joined = await graph(store, Submission("a"), Submission("b"), Submission("join", after=[0, 1]))
    first, second = await leases_of(store, one, two)
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await Store(connection).finish(first, Done())
        waiting = asyncio.create_task(store.finish(second, Done()))
        await blocked_on_a_lock(database)
        await transaction.commit()
        await waiting
    assert [event.verb for event in await store.events(joined)] == ["submit_blocked", "unblock"]


async def blocked_on_a_lock(database: Database) -> None:
    async with database.connect_owner() as owner:
        await until_somebody_waits_for_a_lock(owner)


@pytest.mark.parametrize("commits_first", ["the child", "the parent"])
async def test_a_task_submitted_while_its_dependency_ends_is_not_forgotten(
    commits_first: str, store: Store, database: Database
) -> None:
    parent = await submit(store)
    lease = await take_one(store)
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        if commits_first == "the child":
            (child,) = await Store(connection).submit(Submission("child", after=[parent]))
            other = asyncio.create_task(store.finish(lease, Done()))
            await blocked_on_a_lock(database)
            await transaction.commit()
            await other
        else:
            await Store(connection).finish(lease, Done())
            waiting = asyncio.create_task(store.submit(Submission("child", after=[parent])))
            await blocked_on_a_lock(database)
            await transaction.commit()
            (child,) = await waiting
    assert child.id
    assert await state_of(store, child.id) == "Queued"


@pytest.mark.parametrize(
    ("policy", "ends_as", "reason"),
    [("cancel", "Canceled", "upstream_ended"), ("skip", "Canceled", "skipped"), ("ignore", "Queued", None)],
)
async def test_each_dependency_says_what_follows_from_a_bad_end(
    policy: Policy, ends_as: str, reason: str | None, store: Store
) -> None:
    bad, good, child = await graph(
        store, Submission("bad"), Submission("good"), Submission("child", after=[0, 1], on_failure=policy)
    )
    first, second = await leases_of(store, bad, good)
    await store.finish(second, Done())
    await store.finish(first, Failed("Fatal", "no"))
    read = await store.read(child)
    assert (read["state"], (read["note"] or {}).get("kind")) == (ends_as, reason)
    assert (f"It waited for {bad}, which failed." in (await store.explain(child)).sentence) == (reason is not None)


async def test_a_bad_end_goes_down_the_whole_chain_however_long(store: Store) -> None:
    chain = await graph(store, Submission("first"), *(Submission("next", after=[place]) for place in range(999)))
    await store.finish((await leases_of(store, chain[0]))[0], Failed("Fatal", "no"))
    assert {await state_of(store, task) for task in (chain[1], chain[500], chain[-1])} == {"Canceled"}
    assert await store.verify() == []


async def test_a_task_whose_dependencies_have_all_ended_is_ready_at_once(store: Store) -> None:
    done = await submit(store)
    await store.finish(await take_one(store), Done())
    child = await submit(store, "child", after=[done])
    assert await state_of(store, child) == "Queued"


async def test_a_delay_holds_after_the_dependencies_have_ended(store: Store, clock: Clock) -> None:
    parent, child = await graph(store, Submission("a"), Submission("b", after=[0], delay=MINUTE))
    await store.finish((await leases_of(store, parent))[0], Done())
    assert await take(store) == []
    assert (await store.explain(child)).reason == "scheduled"
    clock.advance(seconds=60)
    assert (await take_one(store)).task_id == child


async def test_a_task_that_waits_says_for_whom(store: Store) -> None:
    parent, child = await graph(store, Submission("a"), Submission("b", after=[0]))
    why = await store.explain(child)
    assert why.reason == "dependency"
    assert str(parent) in why.sentence


# Parents and children


def run_of(items: int) -> list[Submission]:
    return [Submission(lifecycle="ingest"), *(Submission(lifecycle="ingest_item", parent=0) for _ in range(items))]


@pytest.mark.parametrize(
    ("failing", "expected"), [((), "COMPLETED"), ((0,), "PARTIAL"), ((1, 2), "PARTIAL"), ((0, 1, 2), "FAILED")]
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
async def test_a_parent_gathers_its_children_once_in_any_order(
    failing: tuple[int, ...], expected: str, order: tuple[int, ...], store: Store, database: Database
) -> None:
    run, *items = await graph(store, *run_of(3))
    async with database.connect_owner() as owner:
        await hasten(owner)
    leases = await leases_of(store, *items)
    for place in order:
        assert await state_of(store, run) == "RUNNING"
        outcome = Failed("Fatal", "no") if place in failing else Done()
        await store.finish(leases[place], outcome)
    read = await store.read(run)
    counts = {"done": 3 - len(failing), "failed": len(failing)}
    assert (read["state"], read["result"]) == (expected, {name: n for name, n in counts.items() if n})
    assert len(await store.events(run)) == 2


async def hasten(owner: asyncpg.Connection) -> None:
    """Let items be done from where they start, so that a test need not walk them through every step."""
    await owner.execute(
        "update holdfast.transition x set from_state = 'ENQUEUED' from holdfast.lifecycle l"
        " where l.id = x.lifecycle and l.name = 'ingest_item' and x.verb = 'done'"
    )


async def test_children_that_end_at_the_same_moment_end_their_parent_exactly_once(
    store: Store, database: Database
) -> None:
    async with database.connect_owner() as owner:
        await hasten(owner)
    for _ in range(10):
        run, *items = await graph(store, *run_of(8))
        await asyncio.gather(*(store.finish(lease, Done()) for lease in await leases_of(store, *items)))
        assert [event.verb for event in await store.events(run)] == ["submit", "done"]


async def test_cancelling_a_parent_cancels_its_children_and_tells_who_works_on_one(store: Store) -> None:
    run, *items = await graph(store, *run_of(3))
    (lease,) = await leases_of(store, items[0])
    assert await store.cancel(run) == "cancelled"
    assert [await state_of(store, item) for item in items] == ["ENQUEUED", "CANCELLED", "CANCELLED"]
    assert (await store.heartbeat([lease], lasting=MINUTE))[items[0]].cancel_requested
    assert await state_of(store, run) == "CANCELLED"


async def test_children_outlive_a_parent_that_ended_well_but_not_one_that_failed(store: Store) -> None:
    for outcome, lives in ((Done(), "Queued"), (Failed("Fatal", "no"), "Canceled")):
        parent = await submit(store, "parent")
        (lease,) = await leases_of(store, parent)
        child = await submit(store, "child", parent=parent)
        await store.finish(lease, outcome)
        assert await state_of(store, child) == lives


async def test_a_child_can_join_a_parent_that_still_runs(store: Store, database: Database) -> None:
    async with database.connect_owner() as owner:
        await hasten(owner)
    run, first = await graph(store, *run_of(1))
    second = await submit(store, None, lifecycle="ingest_item", parent=run)
    one, two = await leases_of(store, first, second)
    await store.finish(one, Done())
    assert await state_of(store, run) == "RUNNING"
    await store.finish(two, Done())
    assert await state_of(store, run) == "COMPLETED"
