"""Any two verbs at once end as if one had come after the other, whoever was first, and nobody waits for ever.

A test for each verb that comes first: it holds its transaction open while the second one runs into it, which is every
verb that could notice it, in one of the two orders. The first tier tries some of those that come first, the deep tier
all; the long runs leave nothing out.
"""

import itertools
import random
from zlib import crc32

import pytest

from holdfast.postgres.migrate import ENGINE
from holdfast.testing import Database
from tests.interleavings.checks import (
    BY_THE_CLOCK,
    check_commit,
    check_queued,
    check_rollback,
    meet,
    refuse_deadlock,
)
from tests.interleavings.verbs import PARTITIONS, VERBS, WRITES_NOTHING
from tests.interleavings.world import World, opened
from tests.tiers import deep_but

IN_EVERY_RUN = (
    "submit_many, key", "submit_many, new limit", "act", "claim, names", "claim_these", "heartbeat", "checkpoint, move",
    "settle, done", "settle, last done", "settle, asked done", "complete", "mark_lost", "cancel, held",
    "cancel, dependent", "retry", "inbox_retry", "resolve", "spend", "pause_queue", "declare", "make_key", "goodbye",
)  # fmt: skip
"""One or two of every kind, those that meet few others."""

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


def in_this_order(first: str, second: str) -> bool:
    """One of the two orders in which a pair can meet: the same whatever verbs are added, and either as often."""
    a, b = sorted((first, second))
    return a == b or (first == a) == (crc32(f"{a}/{b}".encode()) % 2 == 0)


@pytest.mark.parametrize("first", deep_but(IN_EVERY_RUN, VERBS))
async def test_what_meets_an_open_transaction_ends_as_one_after_the_other(world: World, first: str) -> None:
    for second in VERBS:
        if in_this_order(first, second) and meet(world, first, second):
            for late in (False, True) if BY_THE_CLOCK & {first, second} else (False,):
                seen = await check_commit(world, first, second, late=late)
                if seen.waited:
                    await check_rollback(world, first, second, late=late)


@pytest.mark.deep
@pytest.mark.parametrize("first", VERBS)
async def test_two_in_line_for_a_row_do_not_lock_each_other_out(world: World, first: str) -> None:
    for second in itertools.dropwhile(lambda verb: verb != first, VERBS):
        rows = world.common(first, second)
        for row in rows if len(rows) > 1 else []:
            seen = await world.queued([first, second], row, late=False)
            if seen:
                refuse_deadlock([first, second], seen, late=False)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("first", VERBS)
async def test_any_two_end_as_one_after_the_other(world: World, first: str, late: bool) -> None:
    for second in VERBS:
        await check_commit(world, first, second, late=late)
        await check_rollback(world, first, second, late=late)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10))
async def test_three_in_line_end_as_one_after_another(world: World, seed: int) -> None:
    randomness = random.Random(seed)  # noqa: S311
    for _ in range(50):
        row = randomness.choice(sorted({row for rows in world.met.values() for row in rows if row[1]}))
        verbs = randomness.choices([verb for verb in VERBS if row in world.met[verb]], k=3)
        late = randomness.random() < 0.5
        seen = await world.queued(verbs, row, late=late)
        if seen:
            refuse_deadlock(verbs, seen, late=late)
            await check_queued(world, verbs, seen, late=late)


async def test_partitions_are_made_beside_writers(database: Database) -> None:
    async with opened(database) as own:
        first, second = PARTITIONS
        for verbs in ((first, "settle, done"), ("settle, done", second)):
            seen = await own.beside(*verbs, late=False, ending="commit")
            assert seen.state == (await own.serially(["settle, done"], [0], late=False)).state
            assert "DEADLOCK" not in str(seen.answers)


async def test_every_function_that_writes_is_in_a_pair(world: World) -> None:
    asked: list[str] = []
    for verb in VERBS:
        connection = world.sessions[0].connection
        with connection.query_logger(lambda record: asked.append(record.query)):
            await world.serially([verb], [0], late=False)
        called = verb.split(",")[0]
        assert any(f"holdfast.{called}(" in query for query in asked), f"{verb} does not call {called}"
        asked.clear()
    granted = await world.owner.fetch(
        "select distinct p.proname from pg_proc p where p.pronamespace = 'holdfast'::regnamespace"
        " and p.provolatile = 'v' and has_function_privilege('holdfast_app', p.oid, 'execute')"
    )
    kernel = "".join([*ENGINE.functions.values(), *(step.sql for step in ENGINE.migrations)])
    written = {row["proname"] for row in granted if f"function holdfast.{row['proname']}(" in kernel}
    paired = {verb.split(",")[0] for verb in [*VERBS, *PARTITIONS]}
    assert written == paired | WRITES_NOTHING.keys()
