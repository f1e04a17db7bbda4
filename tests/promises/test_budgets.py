"""A budget is shared by all and never overspent."""

import asyncio
from datetime import datetime, timedelta

import pytest

from holdfast import Holdfast, RateLimited, spend
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Failed
from holdfast.errors import BudgetUnknown, RequestInvalid
from holdfast.testing import Clock, Database, Engine
from tests.promises.stage import submit, take_one

SECOND = timedelta(seconds=1)


async def test_two_hundred_at_once_get_no_more_than_there_is(database: Database) -> None:
    async with database.store(connections=20) as store:
        await store.set_budget("azure", 100, SECOND)
        grants = await asyncio.gather(*(store.spend("azure") for _ in range(200)))
    assert sum(grant.granted for grant in grants) == 100


async def test_over_any_time_no_more_is_spent_than_the_rate_allows(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 5, SECOND)
    start, spent = clock.now(), 0.0
    for moment in range(400):
        clock.advance(seconds=0.25)
        amount = 1 + moment % 3
        if (await store.spend("azure", amount)).granted:
            spent += amount
        assert spent <= 5 + (clock.now() - start).total_seconds()
    assert spent >= 95


async def test_those_who_come_back_at_their_time_are_served_one_after_the_other(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 1, SECOND)
    assert (await store.spend("azure")).granted
    times = [(await store.spend("azure")).retry_at for _ in range(10)]
    assert len(set(times)) == 10
    for moment in times:
        assert moment is not None
        clock.set(moment)
        assert (await store.spend("azure", retry_at=moment)).granted


async def test_whoever_comes_back_in_vain_goes_to_the_head_of_the_line(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 1, SECOND)
    await store.spend("azure")
    first, *_others = [(await store.spend("azure")).retry_at for _ in range(10)]
    assert first is not None
    clock.set(first)
    assert (await store.spend("azure")).granted  # somebody else was quicker
    again = await store.spend("azure", retry_at=first)
    assert (again.granted, again.retry_at) == (False, clock.now() + SECOND)


async def test_those_who_never_come_back_make_nobody_wait_for_long(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 1, SECOND)
    for _ in range(1000):
        refused = await store.spend("azure")
    assert refused.retry_at is not None
    assert refused.retry_at - clock.now() <= timedelta(minutes=5)


async def test_a_new_rate_counts_from_now_on(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 100, timedelta(hours=1))
    await store.spend("azure", 100)
    clock.advance(minutes=30)
    await store.set_budget("azure", 100, SECOND)
    assert not (await store.spend("azure")).granted


async def test_a_provider_that_says_when_silences_everybody_until_then(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 5, SECOND)
    until = clock.now() + timedelta(minutes=3)
    await store.block_budget("azure", until)
    refused = await store.spend("azure")
    assert (refused.granted, refused.retry_at is not None and refused.retry_at >= until) == (False, True)
    clock.set(until - timedelta(milliseconds=1))
    assert not (await store.spend("azure")).granted
    clock.set(until)
    assert (await store.spend("azure")).granted


async def test_a_budget_that_nobody_has_set_begins_with_the_same_rate_whoever_blocks_it(
    store: Store, clock: Clock
) -> None:
    until = clock.now() + timedelta(minutes=1)
    await store.block_budget("asked", until)
    await submit(store)
    slow_down = Failed("RateLimited", "Too many requests.", retry_after=timedelta(minutes=1), budget="failed")
    await store.finish(await take_one(store), slow_down)
    for budget in ("asked", "failed"):
        assert not (await store.spend(budget)).granted
    clock.set(until)
    for budget in ("asked", "failed"):
        assert [(await store.spend(budget)).granted for _ in range(2)] == [True, False]
        with pytest.raises(RequestInvalid, match="never holds more than 50"):
            await store.spend(budget, 51)
    clock.advance(seconds=1)
    assert (await store.spend("asked", 50)).granted
    assert (await store.spend("failed", 50)).granted


async def test_a_clock_that_is_put_back_gives_nothing_away(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 2, SECOND)
    await store.spend("azure", 2)
    clock.advance(hours=-1)
    assert not (await store.spend("azure")).granted
    clock.advance(hours=1, seconds=1)
    assert (await store.spend("azure")).granted
    assert not (await store.spend("azure")).granted


async def test_what_can_never_be_granted_is_refused(store: Store) -> None:
    await store.set_budget("azure", 5, SECOND)
    for amount in (6, 0, -1, float("nan"), float("inf")):
        with pytest.raises(RequestInvalid):
            await store.spend("azure", amount)
    with pytest.raises(BudgetUnknown):
        await store.spend("azur")
    for capacity, every in ((0, SECOND), (-1, SECOND), (5, timedelta(0)), (float("nan"), SECOND)):
        with pytest.raises(RequestInvalid):
            await store.set_budget("azure", capacity, every)
    assert (await store.spend("azure", 5)).granted


async def test_a_request_to_slow_down_counts_for_all_who_share_the_budget(store: Store, clock: Clock) -> None:
    await submit(store)
    slow_down = Failed("RateLimited", "Too many requests.", retry_after=timedelta(minutes=3), budget="azure")
    settled = await store.finish(await take_one(store), slow_down)
    until = clock.now() + timedelta(minutes=3)
    assert settled.due_at == until
    refused = await store.spend("azure")
    assert (refused.granted, refused.retry_at is not None and refused.retry_at >= until) == (False, True)
    assert "azure" in (await store.explain(settled.task_id)).sentence
    clock.set(until)
    assert (await store.spend("azure")).granted


async def test_a_budget_that_was_set_keeps_its_rate_when_a_provider_says_when(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 5, SECOND)
    await submit(store)
    slow_down = Failed("RateLimited", "Too many requests.", retry_after=timedelta(minutes=1), budget="azure")
    await store.finish(await take_one(store), slow_down)
    clock.advance(minutes=1)
    assert (await store.spend("azure")).granted
    assert not (await store.spend("azure")).granted


def test_a_task_waits_for_its_share_without_a_place_or_an_attempt(holdfast: Engine) -> None:
    app = Holdfast()
    called: list[int] = []

    @app.task(retries=0)
    async def call(number: int) -> int:
        await spend("provider")
        called.append(number)
        return number

    holdfast.call(holdfast.store.set_budget("provider", 1, SECOND))
    began = holdfast.clock.now()
    handles = [holdfast.start(call, number) for number in range(5)]
    holdfast.drain()
    assert [handle.state for handle in handles] == ["Completed"] * 5
    assert sorted(called) == list(range(5))
    assert holdfast.clock.now() - began >= 4 * SECOND


def test_one_that_is_refused_keeps_the_others_from_asking(holdfast: Engine) -> None:
    app = Holdfast()
    asked: list[datetime] = []

    @app.task(retries=0)
    async def call(number: int) -> int:
        await spend("provider")
        asked.append(holdfast.clock.now())
        if len(asked) == 1:
            raise RateLimited("Too many requests.", retry_after="10m", budget="provider")
        return number

    first = holdfast.start(call, 0)
    holdfast.drain(moving=False)
    handles = [first, *(holdfast.start(call, number) for number in range(1, 9))]
    holdfast.drain()
    assert [handle.state for handle in handles] == ["Completed"] * 9
    assert all(at >= asked[0] + timedelta(minutes=10) for at in asked[1:])


async def test_outside_of_a_task_nothing_is_spent() -> None:
    await spend("provider")
