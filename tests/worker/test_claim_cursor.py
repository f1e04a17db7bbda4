"""Where a worker begins to look: after what it has taken, and at the whole line before anything could be missed."""

from datetime import datetime

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Lease
from holdfast.testing import Clock
from holdfast.worker import claim_cursor
from holdfast.worker.claim_cursor import ClaimCursor
from tests.promises.stage import MINUTE, submit, take


async def test_a_turn_begins_where_it_is_told(store: Store, clock: Clock) -> None:
    tasks = []
    for _ in range(3):
        tasks.append(await submit(store))
        clock.advance(seconds=1)
    due = datetime.fromisoformat((await store.read(tasks[1]))["due_at"])
    _, behind = await store.turn([], ["default"], 9, lasting=MINUTE, worker="w", since=(due, tasks[1]))
    assert [lease.task_id for lease in behind] == tasks[1:]
    _, whole = await store.turn([], ["default"], 9, lasting=MINUTE, worker="w")
    assert [lease.task_id for lease in whole] == tasks[:1], "what was left out is still there for all others"


async def test_who_finds_enough_goes_on_from_there(store: Store) -> None:
    leases, now = await line_of(store), 100.0
    line = ClaimCursor(lambda: now)
    assert line.since() is None
    line.saw(leases, len(leases))
    assert line.since() == min((lease.due_at, lease.task_id) for lease in leases)
    line.saw([], 0)
    assert line.since() is not None, "who asked for nothing has seen nothing"
    now += 2 * claim_cursor.look_again_seconds
    assert line.since() is None, "something older may have come back"
    assert line.since() is not None


async def test_who_finds_too_little_looks_at_the_whole_line(store: Store) -> None:
    leases, line = await line_of(store), ClaimCursor()
    line.since()
    line.saw(leases, len(leases))
    line.saw(leases[:1], 2)
    assert line.since() is None


async def line_of(store: Store) -> list[Lease]:
    for _ in range(3):
        await submit(store)
    return await take(store, n=3)
