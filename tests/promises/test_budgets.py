"""A budget is shared by all and never overspent."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.errors import BudgetUnknown, RequestInvalid
from holdfast.kernel.store import Store
from holdfast.testing import Clock, Database

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


async def test_whoever_comes_back_at_the_time_it_was_told_is_served_in_turn(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 1, SECOND)
    assert (await store.spend("azure")).granted
    told = [(await store.spend("azure")).retry_at for _ in range(10)]
    assert len(set(told)) == 10
    for moment in told:
        assert moment is not None
        clock.set(moment)
        assert (await store.spend("azure", told=moment)).granted


async def test_whoever_comes_back_in_vain_goes_to_the_head_of_the_line(store: Store, clock: Clock) -> None:
    await store.set_budget("azure", 1, SECOND)
    await store.spend("azure")
    told, *_others = [(await store.spend("azure")).retry_at for _ in range(10)]
    assert told is not None
    clock.set(told)
    assert (await store.spend("azure")).granted  # somebody else was quicker
    again = await store.spend("azure", told=told)
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
