"""The history proves itself: replayed against the matrix it gives every row exactly, and a lie is found."""

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed
from holdfast.testing import Clock, Database
from tests.promises.stage import submit, take_one

LIES = {
    "a state that no event led to": (
        "update holdfast.task set state = 'Running' where state = 'Queued'", "its events say Queued"),
    "a lost event": ("delete from holdfast.event where version = 1", "event 2 follows 0"),
    "an event too much": (
        "insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)"
        " select task_id, 99, 'done', 'Running', 'Completed', 1 from holdfast.event limit 1", "event 99 follows"),
    "a move that is not declared": (
        "update holdfast.event set to_state = 'Completed', verb = 'magic' where verb = 'retry'", "is not declared"),
    "an end that was taken back": (
        "with gone as (delete from holdfast.task_done returning *) insert into holdfast.task (id, lifecycle, name,"
        " state, actor, queue, max_attempts, version, attempt) select id, lifecycle, name, state, 'worker', queue,"
        " max_attempts, version, attempt from gone", "Completed is final"),
    "a task in two places": (
        "insert into holdfast.task (id, lifecycle, name, state, actor, queue, max_attempts) select id, lifecycle, name,"
        " state, 'worker', queue, max_attempts from holdfast.task_done", "both live and finished"),
    "a task that vanished": ("delete from holdfast.task", "events without a task"),
    "attempts that were given back": (
        "update holdfast.event set attempt = 7 where verb = 'claim' and attempt = 2", "attempt 7 follows"),
}  # fmt: skip


@pytest.mark.parametrize(("lie", "found"), LIES.values(), ids=LIES.keys())
async def test_a_lie_is_found(lie: str, found: str, store: Store, database: Database, clock: Clock) -> None:
    await submit(store)
    await store.finish(await take_one(store), Done())
    await submit(store, max_attempts=2)
    for _ in range(2):
        lease = await take_one(store)
        await store.finish(lease, Failed("Transient", "no"))
        clock.advance(hours=1)
        await store.sweep()
    await submit(store)
    assert await store.verify() == []
    async with database.connect_owner() as owner:
        await owner.execute("set session_replication_role = replica")
        await owner.execute(lie)
    problems = await store.verify()
    assert any(found in problem for _, problem in problems), problems
    assert await store.verify([problems[0][0]]) != []
