"""The live feed: every committed move once, the moves of one task in their order, wherever a reader breaks off."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.engine.task import Cancelled, Later, Move, Submission
from holdfast.errors import CursorGone, RequestInvalid
from holdfast.testing import Clock, Database, Ground
from tests.promises.stage import MINUTE, submit, take_one

WRITERS, TASKS_EACH, MOVES_EACH, LATE = 8, 32, 4, 4


@contextlib.asynccontextmanager
async def transaction(connection: asyncpg.Connection) -> AsyncIterator[Store]:
    """A transaction that already has its number."""
    async with connection.transaction():
        await connection.execute("select pg_current_xact_id()")
        yield Store(connection)


class Undone(Exception):
    """Rolls a transaction back."""


async def write(database: Database, seed: int) -> None:
    """Tasks of four moves each, by two connections whose transactions overlap, with every other attempt rolled back."""
    randomness = random.Random(seed)  # noqa: S311
    async with database.connect() as one, database.connect() as other:
        for _ in range(TASKS_EACH):
            with contextlib.suppress(Undone):
                async with transaction(one) as store:
                    await submit(store, "undone")
                    raise Undone
            async with contextlib.AsyncExitStack() as early:
                # The second connection has the lower number and makes the later moves.
                second = await early.enter_async_context(transaction(other)) if randomness.random() < 0.5 else None
                async with transaction(one) as store:
                    task = await submit(store, "work")
                async with transaction(one) as store:
                    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="one")
                    if randomness.random() < 0.3:
                        await one.execute("savepoint s")
                        await store.settle((lease, Cancelled()))
                        await one.execute("rollback to s")
                store = second or Store(other)
                await store.finish(lease, Later(MINUTE))
                await store.cancel(task, "enough")


async def read_to_the_end(store: Store, cursor: str, writing: "asyncio.Task[None]", seed: int) -> list[Move]:
    """What a reader gets that reads little at a time and breaks off anywhere, to go on from the last move it got."""
    randomness = random.Random(seed)  # noqa: S311
    got: list[Move] = []
    while True:
        last = writing.done()
        look = await store.feed(cursor, randomness.choice([1, 2, 3, 7, 40]))
        moves, cursor = look.moves, look.cursor
        if moves and randomness.random() < 0.3:
            moves = moves[: randomness.randint(1, len(moves))]
            cursor = moves[-1].cursor
        got += moves
        if last and not moves and not look.more:
            return got


def keys(moves: list[Move]) -> list[tuple[UUID, int]]:
    return [(move.task_id, move.version) for move in moves]


def assert_in_order(moves: list[Move]) -> None:
    versions: dict[UUID, list[int]] = {}
    for move in moves:
        versions.setdefault(move.task_id, []).append(move.version)
    assert {task: seen for task, seen in versions.items() if seen != list(range(len(seen)))} == {}


async def test_every_committed_move_comes_once_and_in_order_whatever_writers_do(every_ground: Ground) -> None:
    with every_ground.database() as database:
        async with database.store() as store, database.connect() as late, database.connect_owner() as owner:
            first = await submit(store)  # the first task of a lifecycle locks it until the end of its transaction
            begin = (await store.feed()).cursor

            async def write_all() -> None:
                async with transaction(late) as held:
                    for _ in range(LATE):
                        await submit(held, "late")
                    await asyncio.gather(*(write(database, seed) for seed in range(WRITERS)))

            writing = asyncio.create_task(write_all())
            readers = [asyncio.create_task(read_to_the_end(store, begin, writing, seed)) for seed in range(3)]
            await writing
            rows = await owner.fetch("select task_id, version from holdfast.event order by at, task_id, version")
            written = [tuple(row) for row in rows if row["task_id"] != first]
            assert len(written) == WRITERS * TASKS_EACH * MOVES_EACH + LATE == 1028
            turned = await owner.fetchval(
                "select count(*) from holdfast.event a join holdfast.event b"
                " on b.task_id = a.task_id and b.version = a.version + 1 where b.xid < a.xid"
            )
            assert turned > 50  # or the order was never in danger
            for got in await asyncio.gather(*readers):
                assert sorted(keys(got)) == sorted(written)
                assert_in_order(got)
            everything = await read_to_the_end(store, "start", writing, WRITERS)
            assert_in_order(everything)
            assert sorted(keys(everything)) == sorted([*written, (first, 0)])


async def test_a_transaction_that_stays_open_holds_nobody_back(store: Store, database: Database) -> None:
    await submit(store)
    cursor = (await store.feed()).cursor
    async with database.connect() as connection:
        async with transaction(connection) as slow:
            late = await submit(slow)
            first, second = await submit(store), await submit(store)
            look = await store.feed(cursor)
            assert set(keys(look.moves)) == {(first, 0), (second, 0)}
            assert (await store.feed(look.cursor)).moves == []
        assert keys((await store.feed(look.cursor)).moves) == [(late, 0)]


async def test_what_is_rolled_back_never_comes(store: Store, database: Database) -> None:
    cursor = (await store.feed()).cursor
    async with database.connect() as connection:
        with contextlib.suppress(Undone):
            async with transaction(connection) as undone:
                await submit(undone)
                raise Undone
        task = await submit(store)
    look = await store.feed(cursor)
    assert keys(look.moves) == [(task, 0)]
    assert keys((await store.feed("start")).moves) == [(task, 0)]


async def test_no_move_comes_before_the_one_it_stands_on_however_little_is_read(
    store: Store, database: Database
) -> None:
    begin = (await store.feed()).cursor
    async with database.connect() as a, database.connect() as b, transaction(a) as early, transaction(b) as middle:
        first = await submit(store, "first")
        await middle.cancel(first)
        second = await submit(middle, "second")
        await b.execute("commit")  # so that the one with the lowest number sees both
        await early.cancel(second)
        await b.execute("begin")
    for limit in range(1, 6):
        moves, cursor = [], begin
        while (look := await store.feed(cursor, limit)).more or look.moves:
            moves += look.moves
            cursor = look.cursor
        assert_in_order(moves)
        assert sorted(keys(moves)) == sorted([(first, 0), (first, 1), (second, 0), (second, 1)])


async def test_a_reader_chooses_lifecycles_tasks_and_owner(store: Store) -> None:
    begin = (await store.feed()).cursor
    mine = await submit(store, owner="me")
    others = await submit(store, owner="you")
    batch = await submit(store, None, lifecycle="batch", owner="me")

    async def heard(cursor: str = begin, **options: object) -> set[UUID]:
        return {move.task_id for move in (await store.feed(cursor, **options)).moves}  # type: ignore[arg-type]

    assert await heard() == await heard("start") == {mine, others, batch}
    assert await heard(owner="me") == {mine, batch}
    assert await heard(lifecycles=["batch"]) == {batch}
    assert await heard(tasks=[mine, others]) == await heard("start", tasks=[mine, others]) == {mine, others}
    assert await heard(tasks=[mine, others], owner="me") == {mine}
    assert await heard(tasks=[others], lifecycles=["batch"]) == {others, batch}
    await store.cancel(mine)
    assert [(move.version, move.to_state, move.lifecycle, move.name, move.owner) for move in (
        await store.feed("start", 1, tasks=[mine])).moves] == [(0, "Queued", "dispatch", "work", "me")]  # fmt: skip


async def test_a_cursor_of_another_database_is_refused(store: Store, ground: Ground) -> None:
    await submit(store)
    cursor = (await store.feed()).cursor
    with ground.database() as elsewhere:
        async with elsewhere.store() as other:
            with pytest.raises(CursorGone, match="another database"):
                await other.feed(cursor)
    mark = cursor.split(".")[0]
    with pytest.raises(CursorGone, match="another database"):
        await store.feed(f"{mark}.4000000000:4000000000:")


@pytest.mark.parametrize(
    "nonsense",
    ["", "x", "12", ".", "...", "{mark}", "{mark}.", "{mark}.5:4:", "{mark}.1:1:.2:2:", "{mark}.1:1:.2:2:.x.0",
     "{mark}.1:1:.2:2:.{task}.99999999999", "{mark}.99999999999999999999999:1:", "ünïcode", "a\0b",
     "{mark}.1:1:.2:2:.{task}.0.0", "{mark}.1:1:..{task}.0"],
)  # fmt: skip
async def test_what_is_no_cursor_is_refused(store: Store, nonsense: str) -> None:
    mark = (await store.feed()).cursor.split(".")[0]
    with pytest.raises(RequestInvalid) as caught:
        await store.feed(nonsense.replace("{mark}", mark).replace("{task}", str(UUID(int=7))))
    assert not isinstance(caught.value, CursorGone)


async def test_a_reader_that_missed_dropped_events_learns_so(store: Store, database: Database, clock: Clock) -> None:
    forget = "select holdfast.forget_events('2030-01-01')"
    await store.make_partitions(1)
    begin = (await store.feed()).cursor
    task = await submit(store)
    async with database.connect() as connection, database.connect_owner() as owner:
        async with transaction(connection) as still_open:
            await still_open.make_queue("held")  # its number is lower than those of what is dropped
            with pytest.raises(asyncpg.PostgresError, match="have not ended yet"):
                await owner.execute(forget)
            await store.cancel(task)
            ours = await connection.fetchval("select pg_current_xact_id()::text")
            seen = (await store.feed(begin)).cursor
            while seen.rpartition(":")[2] != ours:  # transactions of other databases of this server end soon
                seen = (await store.feed(seen)).cursor
            await owner.execute(forget)
            with pytest.raises(CursorGone, match="no longer kept"):
                await store.feed(begin)
            now = (await store.feed()).cursor
            assert (await store.feed(seen)).moves == (await store.feed(now)).moves == []
        clock.advance(days=1)
        task = await submit(store)
        assert keys((await store.feed(seen)).moves) == keys((await store.feed(now)).moves) == [(task, 0)]


async def test_the_feed_is_read_in_a_transaction_of_its_own(database: Database) -> None:
    async with database.connect() as connection:
        async with transaction(connection) as written:
            with pytest.raises(RequestInvalid, match="has written"):
                async with connection.transaction():
                    await written.feed()
        async with connection.transaction(isolation="repeatable_read"):
            with pytest.raises(RequestInvalid, match="READ COMMITTED"):
                await Store(connection).feed()


async def test_a_follower_gets_what_happens_while_it_follows(store: Store) -> None:
    feed = Feed(store)
    task = await submit(store)
    async with contextlib.aclosing(feed.moves("start", tasks=[task])) as moves:
        assert (await anext(moves)).version == 0
        lease = await take_one(store)
        assert (await anext(moves)).verb == "claim"
        await store.finish(lease, Later(MINUTE))
        assert (await anext(moves)).version == 2
    assert [move.version async for move in feed.moves("start", wait=False)] == [0, 1, 2]
    assert [move async for move in feed.moves(wait=False)] == []


async def test_followers_share_one_poll_that_stops_with_the_last(store: Store) -> None:
    feed = Feed(store)
    before = asyncio.all_tasks()
    async with contextlib.AsyncExitStack() as stack:
        looks = [await stack.enter_async_context(contextlib.aclosing(feed.looks())) for _ in range(5)]
        for look in looks:
            await anext(look)
        assert len(asyncio.all_tasks() - before) == 1
        await store.submit(*(Submission("work") for _ in range(3)))
        for look in looks:
            while not (got := await anext(look)).moves:
                pass
            assert len(got.moves) == 3
    while left := asyncio.all_tasks() - before:
        await asyncio.wait(left)


async def test_a_closed_feed_lets_its_followers_go(store: Store) -> None:
    feed = Feed(store)
    following = [asyncio.create_task(anext(feed.moves(), None)) for _ in range(3)]
    async with contextlib.aclosing(feed.looks()) as looks:
        await anext(looks)
        feed.close()
        assert await asyncio.gather(*following) == [None] * 3
        assert await anext(looks, None) is None
