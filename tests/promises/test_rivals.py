"""Two transactions at once, in forced order: nobody is forgotten, and nobody is held up by a stranger.

Here is what needs more than two verbs that meet; every two of those meet in tests/interleavings.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.lifecycle.model import Lifecycle, clock, final, gather, work
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Lease, Moved, Submission
from holdfast.errors import RequestInvalid, TaskBusy
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, state_of, submit, take_one, until_somebody_waits_for_a_lock

TREE = Lifecycle(
    "tree", start="SPLIT", cancel="CANCELLED", fail="FAILED",
    states=[
        work("SPLIT", done="DONE", to=["JOIN", "REST"]),
        clock("REST", due="JOIN"),
        gather("JOIN", done="DONE", partial="DONE", fail="FAILED"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip


async def family(store: Store) -> tuple[UUID, Lease, Lease]:
    """A parent that is being split and its only child, both with a worker."""
    await store.declare(TREE)
    parent = await submit(store, lifecycle="tree")
    split = await take_one(store, "tree")
    await submit(store, parent=parent)
    return parent, split, await take_one(store)


@contextlib.asynccontextmanager
async def open_transaction(database: Database) -> AsyncIterator[tuple[Store, asyncpg.transaction.Transaction]]:
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Store(connection), transaction


async def beside(database: Database, transaction: asyncpg.transaction.Transaction, asked: Awaitable[object]) -> None:
    """Ask while the transaction is open; it commits once the other waits for it, or has its answer."""
    asking = asyncio.ensure_future(asked)
    async with database.connect_owner() as owner:
        waiting = asyncio.create_task(until_somebody_waits_for_a_lock(owner))
        await asyncio.wait([asking, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.wait([waiting])
    await transaction.commit()
    await asking


async def test_a_parent_that_time_lets_wait_while_its_child_ends_is_not_forgotten(
    store: Store, database: Database, clock: Clock
) -> None:
    parent, split, child = await family(store)
    await store.finish(split, Moved("REST"))
    async with open_transaction(database) as (own, transaction):
        assert (await own.sweep()).due == 1
        await beside(database, transaction, store.finish(child, Done()))
    assert await state_of(store, parent) == "DONE"


async def test_many_parents_and_children_at_once_leave_nobody_waiting(database: Database) -> None:
    async with database.store(connections=12) as store:
        for _ in range(60):
            parent, split, child = await family(store)
            await asyncio.gather(store.finish(split, Moved("JOIN")), store.finish(child, Done()))
            assert await state_of(store, parent) == "DONE"


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_what_would_be_overlooked_with_an_old_snapshot_is_refused(
    level: str, store: Store, database: Database
) -> None:
    parent = await submit(store)
    async with database.connect() as connection, connection.transaction(isolation=level):
        own = Store(connection)
        assert await submit(own)  # a task of its own is no trouble
        for wrong in ({"after": [parent]}, {"limit_key": "k"}):
            with pytest.raises(RequestInvalid, match="READ COMMITTED"):
                async with connection.transaction():
                    await submit(own, "child", **wrong)


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_a_plain_task_can_be_submitted_at_any_isolation_level(
    level: str, store: Store, database: Database
) -> None:
    async with database.connect() as connection, connection.transaction(isolation=level):
        task = await connection.fetchval("select holdfast.submit('work', key => 'once')")
    assert (await take_one(store)).task_id == task


async def test_a_child_submitted_by_plain_sql_does_not_hide_its_parent_from_workers(
    store: Store, database: Database
) -> None:
    parent = await submit(store)
    async with database.connect() as connection, connection.transaction():
        await connection.fetchval("select holdfast.submit('child', parent => $1)", parent)
        assert (await take_one(store)).task_id == parent


async def test_a_stranger_who_holds_a_place_open_holds_up_no_sweep(
    store: Store, database: Database, clock: Clock
) -> None:
    await submit(store, limit_key="k")
    waiting = await submit(store, limit_key="k")
    lost = await submit(store, "lost", priority=9)
    await take_one(store)
    clock.advance(seconds=61)
    async with open_transaction(database) as (own, _):
        await submit(own, limit_key="k")
        assert (await store.sweep()).reaped == 1
        assert await state_of(store, lost) == "Queued"
    assert (await store.explain(waiting)).reason == "limit_reached"


async def test_a_stranger_who_waits_for_a_task_that_time_ends_holds_up_no_other(
    store: Store, database: Database, clock: Clock
) -> None:
    held, other = await submit(store, lifecycle="analysis"), await submit(store, lifecycle="analysis")
    clock.advance(minutes=15)
    async with open_transaction(database) as (own, _):
        await submit(own, after=[held])
        assert (await store.sweep()).expired == 1
        assert await state_of(store, other) == "EXPIRED"
    await store.sweep()
    assert await state_of(store, held) == "EXPIRED"


async def test_a_failing_child_and_its_dependent_sibling_end_together(store: Store) -> None:
    parent, child, _ = [one.id for one in await store.submit(
        Submission("parent"), Submission("child", parent=0), Submission("sibling", parent=0, after=[1])
    )]  # fmt: skip
    leases = await store.claim_these([one for one in (parent, child) if one], lasting=MINUTE, worker="w")
    await store.settle(*((lease, Failed("Fatal", "no")) for lease in leases))
    assert await store.verify() == []


async def test_families_that_end_from_above_and_from_below_at_once_all_end(database: Database) -> None:
    async with database.store(connections=12) as store:

        async def family_of(n: int) -> None:
            root, *rest = [one.id for one in await store.submit(
                Submission("root"), *(Submission("child", parent=0) for _ in range(3)), Submission("after", after=[1])
            )]  # fmt: skip
            leases = await store.claim_these([one for one in (root, *rest) if one], lasting=MINUTE, worker="w")
            ends = [store.settle((lease, Failed("Fatal", "no") if n % 2 else Done())) for lease in leases]
            assert root
            await asyncio.gather(*ends, store.cancel(root))

        await asyncio.gather(*(family_of(n) for n in range(40)))
        assert await store.verify() == []


async def test_a_worker_does_not_wait_for_ever_for_a_transaction_of_somebody_elses(
    store: Store, database: Database
) -> None:
    await store.submit(Submission("a"), Submission("b"))
    held, free = await store.claim(["default"], 2, lasting=MINUTE, worker="w")
    async with open_transaction(database) as (own, transaction):
        await own.submit(Submission("next", after=[held.task_id]))
        with pytest.raises(TaskBusy):
            await store.finish(held, Done())
        assert await store.mark_lost([held]) == 0
        assert await store.release_leases("w") == 1
        assert (await store.read(free.task_id))["state"] == "Running"
        await transaction.commit()
    assert await store.release_leases("w") == 1
    assert await store.verify() == []


async def test_a_limit_that_stays_as_it_is_holds_nobody_up(store: Store, database: Database) -> None:
    await submit(store, limit_key="k", limit_to=2)
    async with open_transaction(database) as (own, transaction):
        await submit(own, limit_key="k", limit_to=2)
        await submit(store, limit_key="k", limit_to=2)
        await transaction.rollback()


async def test_processes_that_start_together_make_each_partition_once(store: Store) -> None:
    made = await asyncio.gather(*(store.make_partitions(1) for _ in range(3)))
    assert (sum(made), await store.make_partitions(1)) == (12, 0)
