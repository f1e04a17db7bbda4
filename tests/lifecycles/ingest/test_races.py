"""Sessions that meet in the SQL of ingestion: each ends as if one had come after the other, and no reader notices."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Checkpoint, Done, Lease, Submission
from holdfast.errors import LeaseLost
from holdfast.lifecycles.ingest.handlers import OVER_BUDGET
from holdfast.lifecycles.ingest.store import Hit, Library, Mode, Passage
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, meet, state_of, until_somebody_waits_for_a_lock

T = TypeVar("T")

NAME = "tides"
QUERY = [1.0, 0.0]
MOVES = ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED")
PAUSE = """
do $$ begin
  execute replace(pg_get_functiondef('holdfast.nearest_chunks'::regproc),
                  E'begin\\n  if v_schema', E'begin\\n  perform pg_advisory_xact_lock(1);\\n  if v_schema');
end $$;
select pg_advisory_lock(1)
"""
"""Whoever searches is held up before the vectors are looked at, and after everything else has begun."""

STUCK = "select count(*) from holdfast.task t where t.state = 'OVER_BUDGET' and holdfast.may_spend(t.id)"
HALF = """
select count(*) from holdfast.document_version n
left join holdfast.document d on d.current = n.task_id
where (select count(*) from holdfast.chunk c where c.version = n.task_id) <>
  case when d.id is null then 0 else n.chunks end
"""
"""Versions that are shown and not whole, or not shown and still found."""


class Stage:
    """A run, the leases of its items, and what a worker does with them."""

    def __init__(self, store: Store, database: Database) -> None:
        self.store = store
        self.library = Library.over(store)
        self.database = database
        self.run = UUID(int=0)

    async def begin(self, *names: str, budget_cents: float | None = None) -> list[Lease]:
        """A run with an item for each name, taken by workers, in their order."""
        budget = {} if budget_cents is None else {"budget_cents": budget_cents}
        items = [Submission("documents", {"uri": "file:///a", "name": name}, "ingest_item", parent=0) for name in names]
        self.run, *made = [
            one.id for one in await self.store.submit(Submission("documents", budget, "ingest"), *items) if one.id
        ]
        leases = await self.store.claim_these(made, lasting=MINUTE, worker="w")
        return sorted(leases, key=lambda lease: made.index(lease.task_id))

    async def persist(self, lease: Lease, text: str, *, dimensions: int = 2, library: Library | None = None) -> UUID:
        """All steps up to PERSISTED, with one chunk of this text."""
        document = await (library or self.library).persist(
            lease, name=str(lease.payload["name"]), sha256=text, recipe="r", about={"title": text},
            passages=[Passage(0, 0, len(text), None, text)], embedder="e", dimensions=dimensions,
            vectors=array("f", [1.0, *[0.0] * (dimensions - 1)]), entities=[],
        )  # fmt: skip
        if library is None:
            for state in MOVES:
                await self.store.checkpoint(Checkpoint(lease, state, None, state))
        return document

    async def publish(self, lease: Lease, store: Store | None = None) -> str:
        """The step INDEXED; what came of it."""
        (kept,) = await (store or self.store).checkpoint(indexed(lease))
        return kept.status

    async def published(self, text: str) -> tuple[UUID, UUID]:
        """A document that is found, by its item and its id."""
        (lease,) = await self.begin(NAME)
        document = await self.persist(lease, text)
        assert await self.publish(lease) == "ok"
        await self.store.finish(lease, Done())
        return lease.task_id, document

    async def found(self, mode: Mode = "hybrid") -> list[Hit]:
        return await self.library.search("tides", embedder="e", vector=QUERY, mode=mode)

    async def texts(self, mode: Mode = "hybrid") -> list[str]:
        return [hit.text for hit in await self.found(mode)]

    async def is_whole(self) -> bool:
        async with self.database.connect_owner() as owner:
            return int(await owner.fetchval(HALF)) == 0


def indexed(lease: Lease) -> Checkpoint:
    return Checkpoint(lease, "INDEXED", None, "INDEXED")


@pytest.fixture
async def stage(store: Store, database: Database) -> Stage:
    return Stage(store, database)


# Versions of one document


@pytest.mark.parametrize("newer_first", [False, True], ids=["in order", "overtaken"])
async def test_of_two_versions_that_are_published_at_once_the_newer_is_seen(
    stage: Stage, clock: Clock, newer_first: bool
) -> None:
    await stage.published("tides before")
    clock.advance(seconds=1)
    (older,) = await stage.begin(NAME)
    clock.advance(seconds=1)
    (newer,) = await stage.begin(NAME)
    await stage.persist(older, "tides older")
    await stage.persist(newer, "tides newer")
    first, second = (newer, older) if newer_first else (older, newer)

    async def look() -> None:
        assert await stage.texts() == ["tides before"]

    status = await meet(
        stage.database,
        lambda connection: stage.publish(first, Store(connection)),
        lambda connection: stage.publish(second, Store(connection)),
        between=look,
    )
    assert status == "ok"
    assert await stage.texts() == ["tides newer"]
    assert await stage.is_whole()
    await stage.store.settle((older, Done()), (newer, Done()))
    assert await stage.texts() == ["tides newer"]


async def test_two_versions_in_one_call_leave_the_newer(stage: Stage) -> None:
    leases = await stage.begin(NAME, NAME)
    for number, lease in enumerate(leases):
        await stage.persist(lease, f"tides {number}")
    await stage.store.checkpoint(*[indexed(lease) for lease in reversed(leases)])
    assert await stage.texts() == ["tides 1"]
    assert await stage.is_whole()


@pytest.mark.deep
async def test_searchers_see_one_version_at_every_moment(stage: Stage, clock: Clock) -> None:
    await stage.published("tides 0")
    over = asyncio.Event()
    looks = 0

    async def search(mode: Mode) -> None:
        nonlocal looks
        while not over.is_set():
            hits = await stage.found(mode)
            assert len(hits) == 1, [hit.text for hit in hits]
            looks += 1

    async def publish() -> None:
        for number in range(1, 21):
            clock.advance(seconds=1)
            await stage.published(f"tides {number}")
        over.set()

    searching = [asyncio.create_task(search(mode)) for mode in ("text", "vector", "hybrid")]
    publishing = asyncio.create_task(publish())
    await asyncio.wait([publishing, *searching], return_when=asyncio.FIRST_EXCEPTION)
    over.set()
    await asyncio.gather(publishing, *searching)
    assert looks > 3
    assert await stage.texts() == ["tides 20"]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
@pytest.mark.parametrize("persisted", [False, True], ids=["made meanwhile", "published meanwhile"])
async def test_one_search_sees_one_moment(stage: Stage, clock: Clock, mode: Mode, persisted: bool) -> None:
    await stage.published("tides before")
    clock.advance(seconds=1)
    (lease,) = await stage.begin(NAME)
    if persisted:
        await stage.persist(lease, "tides after")
    async with stage.database.connect_owner() as owner:
        await owner.execute(PAUSE)
        searching = asyncio.create_task(stage.texts(mode))
        await until_somebody_waits_for_a_lock(owner)
        if not persisted:
            await stage.persist(lease, "tides after")
        assert await stage.publish(lease) == "ok"
        await owner.execute("select pg_advisory_unlock(1)")
        assert await searching == ["tides before"]
    assert await stage.texts(mode) == ["tides after"]


# Leases that were lost


@pytest.mark.parametrize("successor_persisted", [False, True], ids=["before its successor", "after its successor"])
async def test_a_worker_that_lost_its_lease_persists_and_publishes_nothing(
    stage: Stage, clock: Clock, successor_persisted: bool
) -> None:
    (zombie,) = await stage.begin(NAME)
    await stage.persist(zombie, "tides of the dead")
    clock.advance(minutes=2)
    await stage.store.sweep()
    clock.advance(minutes=2)
    await stage.store.sweep()
    (successor,) = await stage.store.claim_these([zombie.task_id], lasting=MINUTE, worker="x")
    if successor_persisted:
        await stage.persist(successor, "tides of the living")
    with pytest.raises(LeaseLost):
        await stage.persist(zombie, "tides of the dead, again")
    assert await stage.publish(zombie) == "lost"
    assert await stage.found() == []
    if not successor_persisted:
        await stage.persist(successor, "tides of the living")
    assert await stage.publish(successor) == "ok"
    assert await stage.publish(zombie) == "lost"
    assert await stage.texts() == ["tides of the living"]


async def test_chunks_that_come_after_the_lease_was_lost_are_refused(stage: Stage, clock: Clock) -> None:
    (zombie,) = await stage.begin(NAME)
    await stage.persist(zombie, "tides of the dead")
    clock.advance(minutes=2)
    await stage.store.sweep()
    given = [[1], [0], [5], [None], ["tides"], "e", 2, QUERY]
    async with stage.database.connect() as connection:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(
                "select holdfast.persist_chunks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                zombie.task_id, zombie.attempt, zombie.token, *given,
            )  # fmt: skip
    assert refused.value.sqlstate == LeaseLost.sqlstate
    async with stage.database.connect_owner() as owner:
        assert await owner.fetchval("select count(*) from holdfast.chunk") == 1


# Budgets


async def spent_up(stage: Stage) -> Lease:
    """An item whose run has spent its budget of a cent."""
    (lease,) = await stage.begin(NAME, budget_cents=1)
    used = [{"model": "m", "tokens_in": 1, "tokens_out": 0, "cost_cents": 1}]
    await stage.store.checkpoint(Checkpoint(lease, "FETCHED", None, "FETCHED", used))
    assert not await stage.library.may_spend(lease.task_id)
    return lease


async def nobody_is_stuck(stage: Stage) -> bool:
    async with stage.database.connect_owner() as owner:
        return int(await owner.fetchval(STUCK)) == 0


def parking(lease: Lease) -> Callable[[asyncpg.Connection], Awaitable[Any]]:
    return lambda connection: Store(connection).settle((lease, OVER_BUDGET))


def setting(stage: Stage, cents: int | None) -> Callable[[asyncpg.Connection], Awaitable[int]]:
    given = None if cents is None else Decimal(cents)
    return lambda connection: Library(connection).set_budget(stage.run, given)


@pytest.mark.parametrize("cents", [5, None], ids=["more", "as much as it takes"])
async def test_a_budget_that_is_raised_while_an_item_parks_lets_it_go_on(stage: Stage, cents: int | None) -> None:
    lease = await spent_up(stage)
    assert await meet(stage.database, parking(lease), setting(stage, cents)) == 1
    assert await state_of(stage.store, lease.task_id) == "ENQUEUED"


@pytest.mark.parametrize("cents", [5, None], ids=["more", "as much as it takes"])
async def test_an_item_that_parks_while_the_budget_is_raised_goes_on(stage: Stage, cents: int | None) -> None:
    lease = await spent_up(stage)
    await meet(stage.database, setting(stage, cents), parking(lease))
    assert await state_of(stage.store, lease.task_id) == "ENQUEUED"
    assert await nobody_is_stuck(stage)


async def test_a_raise_that_is_undone_leaves_the_item_parked(stage: Stage) -> None:
    lease = await spent_up(stage)
    await meet(stage.database, setting(stage, 5), parking(lease), commit=False)
    assert await state_of(stage.store, lease.task_id) == "OVER_BUDGET"
    assert await stage.library.set_budget(stage.run, Decimal(5)) == 1


async def test_a_parking_that_is_undone_holds_up_nobody(stage: Stage) -> None:
    lease = await spent_up(stage)
    assert await meet(stage.database, parking(lease), setting(stage, 5), commit=False) == 0
    assert await stage.library.may_spend(lease.task_id)
    await stage.store.settle((lease, OVER_BUDGET))
    assert await state_of(stage.store, lease.task_id) == "ENQUEUED"


@pytest.mark.parametrize(("first", "last"), [(5, 1), (1, 5), (0, None)], ids=str)
async def test_of_two_budgets_set_at_once_the_last_one_counts(
    stage: Stage, first: int, last: int | None
) -> None:  # fmt: skip
    lease = await spent_up(stage)
    await stage.store.settle((lease, OVER_BUDGET))
    await meet(stage.database, setting(stage, first), setting(stage, last))
    run = await stage.library.run(stage.run)
    assert run.budget_cents == last
    assert await nobody_is_stuck(stage)


# Ends


@pytest.mark.parametrize("cancel_first", [False, True], ids=["published first", "cancelled first"])
async def test_a_run_that_is_cancelled_while_an_item_publishes_leaves_no_half_version(
    stage: Stage, cancel_first: bool
) -> None:
    (lease,) = await stage.begin(NAME)
    await stage.persist(lease, "tides")

    async def cancel(connection: asyncpg.Connection) -> str:
        return await Store(connection).cancel(stage.run)

    async def publish(connection: asyncpg.Connection) -> str:
        return await stage.publish(lease, Store(connection))

    await meet(stage.database, *((cancel, publish) if cancel_first else (publish, cancel)))
    assert await stage.texts() == ["tides"]  # the step was kept, under a lease that was still good
    await stage.store.settle((lease, Cancelled()))
    assert await state_of(stage.store, stage.run) == "CANCELLED"
    assert await stage.is_whole()


async def test_an_item_that_is_cancelled_before_it_publishes_leaves_nothing(stage: Stage) -> None:
    (lease,) = await stage.begin(NAME)
    await stage.persist(lease, "tides")
    await stage.store.cancel(stage.run)
    await stage.store.settle((lease, Cancelled()))
    assert await stage.publish(lease) == "lost"
    assert await stage.found() == []
    assert await stage.is_whole()


async def test_a_document_that_is_removed_while_it_is_published_is_gone(stage: Stage, clock: Clock) -> None:
    _, document = await stage.published("tides before")
    clock.advance(seconds=1)
    (lease,) = await stage.begin(NAME)
    await stage.persist(lease, "tides after")
    assert await meet(
        stage.database,
        lambda connection: stage.publish(lease, Store(connection)),
        lambda connection: Library(connection).remove(document),
    )
    assert await stage.found() == []
    assert await stage.is_whole()


async def test_a_document_that_is_published_while_it_is_removed_is_there_again(stage: Stage, clock: Clock) -> None:
    _, document = await stage.published("tides before")
    clock.advance(seconds=1)
    (lease,) = await stage.begin(NAME)
    await stage.persist(lease, "tides after")
    status = await meet(
        stage.database,
        lambda connection: Library(connection).remove(document),
        lambda connection: stage.publish(lease, Store(connection)),
    )
    assert status == "ok"
    assert await stage.texts() == ["tides after"]
    assert await stage.is_whole()


# Vectors of a new length


async def test_two_who_bring_vectors_of_a_new_length_make_one_index(stage: Stage) -> None:
    one, other = await stage.begin("one", "other")
    await meet(
        stage.database,
        lambda connection: stage.persist(one, "tides", dimensions=7, library=Library(connection)),
        lambda connection: stage.persist(other, "tides", dimensions=7, library=Library(connection)),
    )
    async with stage.database.connect_owner() as owner:
        assert await owner.fetchval("select count(*) from pg_indexes where indexname = 'chunk_vector_7'") == 1
        assert await owner.fetchval("select count(*) from holdfast.chunk where dimensions = 7") == 2


async def test_an_index_is_made_beside_whoever_publishes_the_same_document(stage: Stage, clock: Clock) -> None:
    (older,) = await stage.begin(NAME)
    clock.advance(seconds=1)
    (newer,) = await stage.begin(NAME)
    await stage.persist(older, "tides older")
    await meet(
        stage.database,
        lambda connection: stage.publish(older, Store(connection)),
        lambda connection: stage.persist(newer, "tides newer", dimensions=5, library=Library(connection)),
    )
    assert await stage.texts("text") == ["tides older"]
    async with stage.database.connect_owner() as owner:
        assert await owner.fetchval("select count(*) from holdfast.chunk where dimensions = 5") == 1
