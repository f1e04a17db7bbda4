"""The same key gives the same task, however many ask at once."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Submission
from holdfast.errors import KeyConflict
from holdfast.testing import Database
from tests.promises.stage import submit, take_one


async def test_fifty_callers_with_one_key_make_one_task(database: Database) -> None:
    async with database.store(connections=50) as store:
        answers = await asyncio.gather(
            *(store.submit(Submission("pay", {"order": 42}, key="pay-42")) for _ in range(50))
        )
        assert len({answer[0].id for answer in answers}) == 1
        assert [answer[0].created for answer in answers].count(True) == 1
    assert database.ask_owner("select count(*) from holdfast.task") == 1


async def test_a_key_answers_after_its_task_has_ended_too(store: Store) -> None:
    task = await submit(store, key="once")
    await store.finish(await take_one(store), Done())
    assert await submit(store, key="once") == task


@pytest.mark.parametrize(
    "other", [{"payload": {"order": 43}}, {"name": "refund"}, {"lifecycle": "batch"}, {"queue": "batch"}], ids=str
)
async def test_the_same_key_for_something_else_is_refused(other: dict[str, object], store: Store) -> None:
    same = {"name": "pay", "payload": {"order": 42}}
    await store.submit(Submission(**same, key="k"))  # type: ignore[arg-type]
    with pytest.raises(KeyConflict):
        await store.submit(Submission(**{**same, **other}, key="k"))  # type: ignore[arg-type]


async def test_keys_belong_to_their_owner(store: Store) -> None:
    assert await submit(store, key="k", owner="ada") != await submit(store, key="k", owner="bob")


async def test_a_key_that_was_rolled_back_is_free_again(store: Store, database: Database) -> None:
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        first = await submit(Store(connection), key="k")
        await transaction.rollback()
    assert await submit(store, key="k") != first


async def test_batches_with_the_same_keys_in_any_order_wait_for_each_other(database: Database) -> None:
    keys = [f"key-{n}" for n in range(30)]
    async with database.store(connections=8) as store:
        batches = [[Submission("work", key=key) for key in (keys if n % 2 else keys[::-1])] for n in range(8)]
        answers = await asyncio.gather(*(store.submit(*batch) for batch in batches))
    assert {one.id for answer in answers for one in answer} == {one.id for one in answers[0]}
    assert database.ask_owner("select count(*) from holdfast.task") == 30


async def test_a_run_submitted_again_makes_no_second_set_of_children(store: Store, database: Database) -> None:
    run = [
        Submission(lifecycle="ingest", key="run"),
        *(Submission(lifecycle="ingest_item", parent=0) for _ in range(3)),
    ]
    first = await store.submit(*run)
    again = await store.submit(*run)
    assert [one.created for one in first] == [True] * 4
    assert ([one.created for one in again], again[0].id) == ([False] * 4, first[0].id)
    assert database.ask_owner("select count(*) from holdfast.task") == 4


async def test_a_run_submitted_again_with_other_children_is_refused(store: Store) -> None:
    def run(*files: str) -> list[Submission]:
        items = (Submission(payload=file, lifecycle="ingest_item", parent=0) for file in files)
        return [Submission(lifecycle="ingest", key="run"), *items]

    await store.submit(*run("a", "b"))
    for other in (("a",), ("a", "c"), ("a", "b", "c")):
        with pytest.raises(KeyConflict):
            await store.submit(*run(*other))
    assert [one.created for one in await store.submit(*run("a", "b"))] == [False, False, False]


async def test_a_child_with_a_key_of_its_own_joins_its_parent_once(store: Store) -> None:
    run = Submission(lifecycle="ingest", key="run")
    first = Submission(lifecycle="ingest_item", parent=0, key="first")
    parent, one = await store.submit(run, first)
    _, again, two = await store.submit(run, first, Submission(lifecycle="ingest_item", parent=0, key="second"))
    assert (again, two.created) == (replace(one, created=False), True)
    assert parent.id
    await store.cancel(parent.id)
    assert (await store.submit(Submission(lifecycle="ingest_item", parent=parent.id, key="second")))[0].id == two.id
