"""Queues: the most urgent first, then the longest due; paused ones give nothing; limits per key hold."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.errors import QueueUnknown
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, submit, take, take_one


async def test_the_most_urgent_goes_first_then_the_longest_due(store: Store, clock: Clock) -> None:
    late = await submit(store, priority=0)
    urgent_second = await submit(store, priority=9, delay=timedelta(seconds=5))
    urgent_first = await submit(store, priority=9, delay=timedelta(seconds=4))
    clock.advance(seconds=6)
    middle = await submit(store, priority=5)
    urgent_third = await submit(store, priority=9, run_at=clock.now() - timedelta(days=10))
    claimed = [(await take_one(store)).task_id for _ in range(5)]
    assert claimed == [urgent_first, urgent_second, urgent_third, middle, late]


async def test_a_task_is_not_claimed_before_its_time(store: Store, clock: Clock) -> None:
    await submit(store, delay=timedelta(seconds=5))
    await submit(store, run_at=clock.now() + timedelta(seconds=5))
    clock.advance(seconds=4.999)
    assert await take(store, n=10) == []
    clock.advance(seconds=0.001)
    assert len(await take(store, n=10)) == 2


async def test_a_recovered_task_keeps_its_place(store: Store, clock: Clock) -> None:
    tasks = []
    for _ in range(3):
        tasks.append(await submit(store))
        clock.advance(seconds=1)
    lost, released, last = tasks
    _, lease = await take(store, n=2)
    assert lease.task_id == released
    clock.advance(seconds=61)
    await store.finish(lease, Later())
    await store.sweep()
    assert [one.task_id for one in await take(store, n=3)] == [lost, released, last]


async def test_nothing_of_a_paused_queue_is_claimed(store: Store) -> None:
    await store.make_queue("mail")
    task = await submit(store, queue="mail")
    other = await submit(store)
    await store.pause_queue("mail", by="ada")
    assert [lease.task_id for lease in await take(store, "mail", "default", n=10)] == [other]
    assert await store.claim_these([task], lasting=MINUTE, worker="w") == []
    why = await store.explain(task)
    assert (why.reason, "ada" in why.sentence) == ("queue_paused", True)
    await store.resume_queue("mail")
    assert (await take_one(store, "mail")).task_id == task


async def test_queues_must_be_made_before_they_are_used(store: Store) -> None:
    uses = [submit(store, queue="mial"), store.pause_queue("mial"), store.resume_queue("mial"), take(store, "mial")]
    for use in uses:
        with pytest.raises(QueueUnknown):
            await use


@pytest.mark.parametrize("allowed", [1, 3])
async def test_no_more_tasks_with_one_key_are_with_workers_than_allowed(allowed: int, database: Database) -> None:
    async with database.store(connections=8) as store:
        await store.submit(*(Submission("work", limit_key="tenant-1", limit_to=allowed) for _ in range(40)))
        running: Counter[str] = Counter()

        async def work(worker: int) -> int:
            done = 0
            while leases := await take(store, n=2, worker=str(worker)):
                running["now"] += len(leases)
                running["most"] = max(running["most"], running["now"])
                for lease in leases:
                    running["now"] -= 1
                    await store.finish(lease, Done())
                    done += 1
            return done

        finished = 0
        while finished < 40:
            finished += sum(await asyncio.gather(*(work(n) for n in range(8))))
        assert running["most"] <= allowed
        assert await store.verify() == []


async def test_a_task_that_waits_for_a_place_says_so_and_gets_it(store: Store) -> None:
    first = await submit(store, limit_key="k")
    second = await submit(store, limit_key="k")
    lease = await take_one(store)
    assert (lease.task_id, await take(store)) == (first, [])
    assert (await store.explain(second)).reason == "limit_reached"
    await store.finish(lease, Done())
    assert (await take_one(store)).task_id == second


@pytest.mark.parametrize(
    "outcome", [Later(MINUTE), Failed("Transient", "x"), Failed("RateLimited", "x"), Failed("Fatal", "x")]
)
async def test_whoever_does_not_work_gives_its_place_up(outcome: Failed | Later, store: Store) -> None:
    await submit(store, limit_key="k")
    other = await submit(store, limit_key="k")
    await store.finish(await take_one(store), outcome)
    assert (await take_one(store)).task_id == other


async def test_the_place_of_a_lost_worker_or_a_cancelled_task_is_free(store: Store, clock: Clock) -> None:
    lost, cancelled, next_one = [await submit(store, limit_key="k", priority=9 - n) for n in range(3)]
    await take_one(store)
    await store.cancel(lost)
    clock.advance(seconds=61)
    await store.sweep()
    await store.cancel(cancelled)
    assert (await take_one(store)).task_id == next_one


async def test_a_delayed_task_takes_no_place_until_it_is_due(store: Store, clock: Clock) -> None:
    later = await submit(store, limit_key="k", delay=MINUTE)
    now = await submit(store, limit_key="k")
    lease = await take_one(store)
    assert lease.task_id == now
    await store.finish(lease, Done())
    clock.advance(seconds=60)
    assert (await store.sweep()).admitted == 1
    assert (await take_one(store)).task_id == later


async def test_raising_a_limit_lets_those_who_wait_go(store: Store) -> None:
    await store.submit(*(Submission("work", limit_key="k") for _ in range(5)))
    assert len(await take(store, n=10)) == 1
    await store.limit_concurrency("k", 3)
    assert len(await take(store, n=10)) == 2
