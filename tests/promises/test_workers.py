"""Who is there, who sleeps, and what becomes of the tasks of those that are gone."""

from datetime import timedelta

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Later
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, state_of, submit, take, take_one


async def hello(store: Store, worker: str = "worker", *queues: str) -> None:
    await store.hello(worker, label="here", queues=queues or ("default",), names=None, slots=1)


async def idle_workers(database: Database) -> int:
    return int(database.ask_owner("select count(*) from holdfast.worker where idle_since is not null"))


async def test_what_a_dead_worker_was_running_is_lost_at_once(store: Store) -> None:
    task = await submit(store)
    assert await store.mark_lost([await take_one(store)]) == 1
    read = await store.read(task)
    assert (read["state"], read["crashes"], read["attempt"], read["failures"]) == ("Queued", 1, 2, 0)
    await store.mark_lost([await take_one(store)])
    assert await state_of(store, task) == "Failed", "the first loss is made good at once, the second after a pause"


async def test_the_third_dead_worker_ends_a_task_and_the_last_attempt_is_marked(store: Store, clock: Clock) -> None:
    task = await submit(store)
    seen = []
    for _ in range(3):
        clock.advance(minutes=10)
        await store.sweep()
        lease = await take_one(store)
        seen.append(lease.last_chance)
        await store.mark_lost([lease])
    assert seen == [False, False, True]
    assert await state_of(store, task) == "Dead"


async def test_only_the_lease_that_is_held_can_be_lost(store: Store) -> None:
    task = await submit(store)
    old = await take_one(store)
    await store.finish(old, Later())
    new = await take_one(store)
    assert await store.mark_lost([old]) == 0
    assert (await store.finish(new, Done())).state == "Completed"
    assert await store.mark_lost([new]) == 0
    assert await state_of(store, task) == "Completed"


async def test_what_is_handed_back_costs_nothing_and_what_is_kept_stays(store: Store) -> None:
    for _ in range(4):
        await submit(store)
    mine = await take(store, n=3)
    free, kept, cancelled = [lease.task_id for lease in mine]
    (others,) = await take(store, worker="somebody else")
    await store.cancel(cancelled)
    assert await store.release_leases("worker", [kept]) == 2
    read = await store.read(free)
    assert (read["state"], read["attempt"], read["crashes"], read["failures"]) == ("Running", 1, 0, 0)
    assert await state_of(store, cancelled) == "Canceled"
    assert set(await store.heartbeat([*mine, others], lasting=MINUTE)) == {kept, others.task_id}
    assert (await take_one(store)).task_id == free


async def test_a_worker_is_idle_until_it_takes_something(store: Store, database: Database) -> None:
    await hello(store)
    assert await store.idle("worker") is None
    assert await idle_workers(database) == 1
    assert await take(store) == []
    assert await idle_workers(database) == 1
    await submit(store)
    await take_one(store)
    assert await idle_workers(database) == 0


async def test_an_idle_worker_learns_when_something_falls_due(store: Store) -> None:
    await hello(store)
    await submit(store, delay=timedelta(minutes=3), priority=0)
    await submit(store, delay=timedelta(minutes=2), priority=9)
    assert await store.idle("worker") == timedelta(minutes=2)
    assert await store.idle("nobody that is known") is None


async def test_the_newest_live_worker_tells_what_is_known_of_a_task(store: Store, clock: Clock) -> None:
    assert await store.known_task("greet") is None
    for worker, priority in (("old", 1), ("new", 2)):
        known = {"greet": {"queue": "default", "max_attempts": 5, "priority": priority}}
        await store.hello(worker, label="", queues=["default"], names=["greet"], slots=1, tasks=known)
        clock.advance(seconds=1)
    assert await store.known_task("greet") == {"queue": "default", "max_attempts": 5, "priority": 2}
    assert await store.known_task("other") is None
    clock.advance(seconds=31)
    assert await store.known_task("greet") is None
