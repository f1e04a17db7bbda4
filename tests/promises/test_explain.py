"""Nothing is stuck without a reason, and every reason comes with what can be done."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.engine.lifecycle import model
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.testing import Clock
from tests.promises.stage import MINUTE, submit, take_one


async def no_worker(store: Store) -> UUID:
    return await submit(store)


async def queue_paused(store: Store) -> UUID:
    await store.pause_queue("default")
    return await submit(store)


async def limit_reached(store: Store) -> UUID:
    await store.hello("w", label="w", queues=["default"], names=None, slots=1)
    return await submit(store)


async def rate_budget(store: Store) -> UUID:
    task = await submit(store)
    await store.finish(await take_one(store), Failed("RateLimited", "429", retry_after=MINUTE))
    return task


async def backoff(store: Store) -> UUID:
    task = await submit(store)
    await store.finish(await take_one(store), Failed("Transient", "no answer"))
    return task


async def scheduled(store: Store) -> UUID:
    return await submit(store, delay=MINUTE)


async def dependency(store: Store) -> UUID:
    _, child = await store.submit(Submission("a"), Submission("b", after=[0]))
    assert child.id
    return child.id


async def leased(store: Store) -> UUID:
    task = await submit(store)
    await take_one(store)
    return task


async def provider_poll(store: Store) -> UUID:
    task = await submit(store, lifecycle="batch")
    await store.finish(await take_one(store, "batch"), Later(MINUTE, kind="provider_poll"))
    return task


async def files_missing(store: Store) -> UUID:
    task = await submit(store, lifecycle="analysis")
    await store.act(task, "upload_urls")
    await store.act(task, "files_missing", {"kind": "files_missing", "missing": ["primary.csv"]})
    return task


async def owner(store: Store) -> UUID:
    return await submit(store, lifecycle="analysis")


async def cancel_pending(store: Store) -> UUID:
    task = await leased(store)
    await store.cancel(task)
    return task


async def unknown_task(store: Store) -> UUID:
    await store.hello("w", label="w", queues=["default"], names=["other"], slots=1)
    return await submit(store)


async def final(store: Store) -> UUID:
    task = await submit(store)
    await store.finish(await take_one(store), Done())
    return task


REASONS = [
    no_worker, queue_paused, limit_reached, rate_budget, backoff, scheduled, dependency, leased, provider_poll,
    files_missing, owner, cancel_pending, unknown_task, final,
]  # fmt: skip


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.__name__)
async def test_a_task_says_why_it_is_where_it_is(reason: Callable[[Store], Awaitable[UUID]], store: Store) -> None:
    why = await store.explain(await reason(store))
    assert why.reason == reason.__name__
    assert why.sentence.endswith(".")
    assert bool(why.fix) == (why.reason != "final")


async def test_who_is_silent_is_named_when_its_lease_has_ended(store: Store, clock: Clock) -> None:
    task = await leased(store)
    clock.advance(seconds=90)
    why = await store.explain(task)
    assert (why.reason, "silent" in why.sentence) == ("leased", True)


async def test_a_worker_that_says_nothing_any_more_is_not_counted_on(store: Store, clock: Clock) -> None:
    task = await limit_reached(store)
    clock.advance(seconds=31)
    assert (await store.explain(task)).reason == "no_worker"
    await store.hello("w", label="w", queues=["default"], names=None, slots=1)
    assert (await store.explain(task)).reason == "limit_reached"
    await store.goodbye("w")
    assert (await store.explain(task)).reason == "no_worker"


async def test_it_says_since_when_and_until_when(store: Store, clock: Clock) -> None:
    since = clock.now()
    task = await owner(store)
    clock.advance(minutes=5)
    why = await store.explain(task)
    assert (why.actor, why.since, why.until) == ("owner", since, since + timedelta(minutes=15))
    assert "upload_urls" in why.fix


async def test_a_message_of_many_lines_becomes_one_line(store: Store) -> None:
    task = await submit(store)
    await store.finish(await take_one(store), Failed("Fatal", "It broke by itself.\nTraceback: ..."))
    assert (await store.explain(task)).sentence == "It ended as Dead: It broke by itself."


async def test_an_owner_without_a_limit_has_no_time_to_keep(store: Store) -> None:
    draft = model.owner("DRAFT", acts={"publish": "PUBLISHED"}, cancel="DROPPED")
    ends = model.final("PUBLISHED", "done"), model.final("DROPPED", "cancelled")
    await store.declare(model.Lifecycle("leaflet", start="DRAFT", states=[draft, *ends]))
    why = await store.explain(await submit(store, lifecycle="leaflet"))
    assert (why.sentence, why.until) == ("Its owner acts next.", None)


async def test_the_next_in_line_does_not_wait_for_busy_slots(store: Store) -> None:
    why = await store.explain(await limit_reached(store))
    assert why.sentence == "It is next in line for queue default, whose workers have 1 slot in all."
