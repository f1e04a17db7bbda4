"""Many tasks cancelled or retried: page by page, each once, whoever else does the same; a dry run changes nothing."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.lifecycle.model import Lifecycle, after, final, gather, work
from holdfast.engine.store.bulk import Action, BulkPage, Filters
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Submission
from holdfast.errors import RequestInvalid
from holdfast.testing import Clock, Database
from tests.promises.stage import meet, state_of, submit, take, take_one
from tests.promises.test_inbox import owner
from tests.promises.test_inbox_bulk import everything

__all__ = ["owner"]

WORK = Filters(name="work")


async def make(store: Store, n: int, name: str = "work", **options: Any) -> list[UUID]:
    return [one.id for one in await store.submit(*(Submission(name, **options) for _ in range(n))) if one.id]


async def fail_all(store: Store) -> None:
    while leases := await take(store, n=500):
        await store.settle(*((lease, Failed("Fatal", "broken")) for lease in leases))


async def let_pass(store: Store, clock: Clock) -> None:
    """A task whose time limit has passed, though nobody has swept since."""
    await store.declare(SHORT)
    await submit(store, lifecycle="short")
    clock.advance(minutes=2)


async def all_of(store: Store, action: Action, filters: Filters = WORK, limit: int = 200) -> list[BulkPage]:
    pages, cursor = [], None
    while True:
        pages.append(await store.bulk.run(action, filters, "ada", cursor=cursor, limit=limit))
        cursor = pages[-1].next
        if cursor is None:
            return pages


async def retries(store: Store) -> list[str]:
    page = await store.list_tasks(live=True, limit=1000)
    return [str((await store.read(one["id"]))["retry_of"]) for one in page.items]


async def test_two_thousand_are_cancelled_in_pages_and_no_other(store: Store) -> None:
    await make(store, 2000)
    (other,) = await make(store, 1, "mail")
    look = await store.bulk.preview("cancel", WORK)
    assert (look.number, look.capped) == (2000, False)
    assert [(one.lifecycle, one.state, one.number) for one in look.groups] == [("dispatch", "Queued", 2000)]
    pages = await all_of(store, "cancel", limit=500)
    assert ([page.done for page in pages], [page.refused for page in pages]) == ([500] * 4, [[]] * 4)
    assert (await store.list_tasks(live=True)).approx_count == 1
    assert await state_of(store, other) == "Queued"
    assert (await store.bulk.preview("cancel", WORK)).number == 0
    assert [page.done for page in await all_of(store, "cancel")] == [0]
    assert await store.verify() == []


async def test_who_did_it_and_why_is_kept(store: Store) -> None:
    (task,) = await make(store, 1)
    await store.bulk.run("cancel", WORK, "ada", reason="a mistake")
    assert (await store.events(task))[-1].data == {"kind": "cancelled", "by": "ada", "reason": "a mistake"}
    await store.bulk.run("retry", WORK, "bob")
    (again,) = (await store.list_tasks(live=True)).items
    assert (await store.step_events(again["id"]))[0].data["by"] == "bob"


async def test_what_a_worker_holds_is_asked_to_stop_and_asked_once(store: Store) -> None:
    await make(store, 3)
    await take_one(store)
    did = await store.bulk.run("cancel", WORK, "ada")
    assert (did.done, did.requested, did.refused) == (3, 1, [])
    assert (await store.bulk.preview("cancel", WORK)).number == 0
    assert (await store.bulk.run("cancel", WORK, "ada")).done == 0


async def test_each_failure_is_retried_once_however_often_that_is_asked(store: Store) -> None:
    tasks = await make(store, 5)
    await fail_all(store)
    (done,) = await make(store, 1)
    await store.finish(await take_one(store), Done())
    (cancelled,) = await make(store, 1)
    await store.cancel(cancelled)
    await store.retry(tasks[0])  # that one has its retry
    look = await store.bulk.preview("retry", WORK)
    assert {(one.state, one.number) for one in look.groups} == {("Dead", 4), ("Canceled", 1)}
    pages = await all_of(store, "retry", limit=2)
    assert (sum(page.done for page in pages), [one for page in pages for one in page.refused]) == (5, [])
    assert sorted(await retries(store)) == sorted(map(str, [*tasks, cancelled]))
    assert [page.done for page in await all_of(store, "retry")] == [0]
    assert str(done) not in await retries(store)
    assert await store.inbox.groups() == []


async def test_an_outcome_narrows_what_is_retried(store: Store) -> None:
    await make(store, 2)
    await fail_all(store)
    (cancelled,) = await make(store, 1)
    await store.cancel(cancelled)
    assert (await store.bulk.run("retry", Filters(outcome="cancelled"), "ada")).done == 1
    assert await retries(store) == [str(cancelled)]


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_a_look_changes_nothing(store: Store, owner: asyncpg.Connection, action: Action) -> None:
    await make(store, 3)
    await fail_all(store)
    await make(store, 3)
    before = await everything(owner)
    assert (await store.bulk.preview(action, WORK)).number == 3
    assert await everything(owner) == before


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_a_filter_that_fits_nothing_does_nothing(store: Store, owner: asyncpg.Connection, action: Action) -> None:
    await make(store, 3)
    await fail_all(store)
    await make(store, 3)
    before = await everything(owner)
    nothing = Filters(queue="nowhere")
    assert (await store.bulk.preview(action, nothing)).number == 0
    assert await store.bulk.run(action, nothing, "ada") == BulkPage(0, 0, [], None)
    assert await everything(owner) == before


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_two_operators_at_once_do_each_task_once(database: Database, store: Store, action: Action) -> None:
    tasks = await make(store, 300)
    if action == "retry":
        await fail_all(store)

    async def whole(connection: asyncpg.Connection) -> int:
        return sum(page.done for page in await all_of(Store(connection), action, limit=50))

    async with database.connect() as one, database.connect() as other:
        assert sum(await asyncio.gather(whole(one), whole(other))) == 300
    if action == "retry":
        assert sorted(await retries(store)) == sorted(map(str, tasks))
    else:
        assert (await store.list_tasks(live=True)).items == []
    assert await store.verify() == []


async def test_who_retries_one_while_another_retries_all_is_seen(database: Database, store: Store) -> None:
    (task,) = await make(store, 1)
    await store.cancel(task)  # without an inbox entry that both would wait for

    async def one(connection: asyncpg.Connection) -> None:
        await Store(connection).retry(task)

    did = await meet(database, one, lambda connection: Store(connection).bulk.run("retry", WORK, "ada"))
    assert (did.done, len(await retries(store))) == (0, 1)


async def test_what_moved_on_before_it_could_be_cancelled_is_left_alone(database: Database, store: Store) -> None:
    await make(store, 1)

    async def claims(connection: asyncpg.Connection) -> None:
        await take_one(Store(connection))

    queued = Filters(state="Queued")
    did = await meet(database, claims, lambda connection: Store(connection).bulk.run("cancel", queued, "ada"))
    assert did == BulkPage(0, 0, [], None)
    assert (await store.list_tasks(state="Running")).approx_count == 1


FAMILY = Lifecycle(
    "family",
    start="JOIN",
    states=[
        gather("JOIN", done="DONE", partial="DONE", fail="FAILED", cancel="CANCELLED"),
        final("DONE", "done"),
        final("FAILED", "failed"),
        final("CANCELLED", "cancelled"),
    ],
)


SHORT = Lifecycle(
    "short",
    start="WAITING",
    states=[
        work("WAITING", done="DONE", fail="FAILED", cancel="CANCELLED", limit=after(minutes=1, to="FAILED")),
        final("DONE", "done"),
        final("FAILED", "failed"),
        final("CANCELLED", "cancelled"),
    ],
)


async def test_a_parent_is_cancelled_with_its_children_and_not_failed_by_them(store: Store) -> None:
    await store.declare(FAMILY)
    made = await store.submit(Submission("work", lifecycle="family"), *(Submission("work", parent=0) for _ in range(6)))
    parent = made[0].id
    assert parent
    pages = await all_of(store, "cancel", limit=2)  # the children are younger: they fill the first three
    assert await state_of(store, parent) == "CANCELLED"
    assert (await store.list_tasks(live=True)).items == []
    assert sum(page.done for page in pages) >= 3
    assert await store.verify() == []


async def test_the_refusal_of_one_does_not_undo_the_others(store: Store, owner: asyncpg.Connection) -> None:
    tasks = await make(store, 3)
    await fail_all(store)
    await owner.execute("set session_replication_role = replica")
    await owner.execute("delete from holdfast.input where id = $1", tasks[1])
    did = await store.bulk.run("retry", WORK, "ada")
    assert (did.done, [one.task_id for one in did.refused]) == (2, [tasks[1]])
    assert did.refused[0].detail


async def test_a_task_past_its_time_is_too_late_to_cancel(store: Store, clock: Clock) -> None:
    await let_pass(store, clock)
    did = await store.bulk.run("cancel", WORK, "ada")
    assert (did.done, [one.code for one in did.refused]) == (0, ["move-refused"])


@pytest.mark.parametrize(
    ("action", "filters", "limit"),
    [
        ("explode", WORK, 10),
        ("cancel", Filters(outcome="failed"), 10),
        ("cancel", Filters(live=False), 10),
        ("retry", Filters(outcome="done"), 10),
        ("retry", Filters(live=True), 10),
        ("retry", WORK, 0),
        ("retry", WORK, 501),
        ("retry", Filters(name="a\0b"), 10),
    ],
)
async def test_what_makes_no_sense_is_refused(store: Store, action: Any, filters: Filters, limit: int) -> None:
    with pytest.raises(RequestInvalid):
        await store.bulk.run(action, filters, "ada", limit=limit)
    with pytest.raises(RequestInvalid):
        await store.bulk.run("cancel", WORK, "")
