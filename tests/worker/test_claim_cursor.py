"""Where a claim begins: after what was taken, and at the start of the queue before anything could be missed."""

from datetime import datetime

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Lease
from holdfast.testing import Clock
from holdfast.worker import claim_loop
from holdfast.worker.claim_loop import ClaimCursor
from tests.promises.stage import MINUTE, submit, take


async def test_a_claim_begins_where_the_cursor_stands(store: Store, clock: Clock) -> None:
    tasks = []
    for _ in range(3):
        tasks.append(await submit(store))
        clock.advance(seconds=1)
    due = datetime.fromisoformat((await store.read(tasks[1]))["due_at"])
    _, behind = await store.settle_and_claim([], ["default"], 9, lasting=MINUTE, worker="w", since=(due, tasks[1]))
    assert [lease.task_id for lease in behind] == tasks[1:]
    _, whole = await store.settle_and_claim([], ["default"], 9, lasting=MINUTE, worker="w")
    assert [lease.task_id for lease in whole] == tasks[:1], "what was left out is still there for all others"


async def test_a_claim_that_finds_enough_goes_on_from_there(store: Store) -> None:
    leases, now = await claim_three(store), 100.0
    cursor = ClaimCursor(lambda: now)
    assert cursor.since() is None
    cursor.move(leases, len(leases))
    assert cursor.since() == min((lease.due_at, lease.task_id) for lease in leases)
    cursor.move([], 0)
    assert cursor.since() is not None, "a claim that asked for nothing has found nothing"
    now += 2 * claim_loop.full_scan_seconds
    assert cursor.since() is None, "something older may have come back"
    assert cursor.since() is not None


async def test_a_claim_that_finds_too_little_begins_at_the_start(store: Store) -> None:
    leases, cursor = await claim_three(store), ClaimCursor()
    cursor.since()
    cursor.move(leases, len(leases))
    cursor.move(leases[:1], 2)
    assert cursor.since() is None


async def claim_three(store: Store) -> list[Lease]:
    for _ in range(3):
        await submit(store)
    return await take(store, n=3)
