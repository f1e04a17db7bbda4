"""What many tests begin with: a task in a given state, a lease, a worker's hands."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import asyncpg

from holdfast.engine.lifecycle.model import Backoff
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Lease, Submission
from holdfast.lifecycles.batch.declaration import BATCH
from holdfast.testing import Database

T = TypeVar("T")

MINUTE = timedelta(minutes=1)

# As a batch is polled, with no jobs beside it that have a say.
POLLED = replace(
    BATCH, name="polled", queue="polled", effects=None, max_attempts=3, crash_budget=3, backoff=Backoff()
)  # fmt: skip


async def declare_polled(store: Store) -> None:
    await store.declare(POLLED)
    await store.make_queue("polled")


async def submit(store: Store, name: str | None = "work", **options: Any) -> UUID:
    """One task; its id."""
    task = (await store.submit(Submission(name, **options)))[0].id
    assert task is not None
    return task


async def take(
    store: Store, *queues: str, n: int = 1, worker: str = "worker", lasting: timedelta = MINUTE
) -> list[Lease]:
    return await store.claim(queues or ("default",), n, lasting=lasting, worker=worker)


async def take_one(store: Store, *queues: str, worker: str = "worker", lasting: timedelta = MINUTE) -> Lease:
    (lease,) = await take(store, *queues, worker=worker, lasting=lasting)
    return lease


async def state_of(store: Store, task: UUID) -> str:
    return str((await store.read(task))["state"])


async def until_somebody_waits_for_a_lock(owner: asyncpg.Connection) -> None:
    """Return once a session of this database is blocked by another."""
    waits = (
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    )
    while not await owner.fetchval(waits):
        pass


async def meet(
    database: Database,
    first: Callable[[asyncpg.Connection], Awaitable[Any]],
    second: Callable[[asyncpg.Connection], Awaitable[T]],
    *,
    commit: bool = True,
    between: Callable[[], Awaitable[object]] | None = None,
) -> T:
    """What the second gets that runs into the open transaction of the first."""
    async with database.connect() as one, database.connect() as other, database.connect_owner() as owner:
        transaction = one.transaction()
        await transaction.start()
        await first(one)
        waiting = asyncio.ensure_future(second(other))
        watching = asyncio.ensure_future(until_somebody_waits_for_a_lock(owner))
        await asyncio.wait([waiting, watching], return_when=asyncio.FIRST_COMPLETED)
        assert not waiting.done(), "they did not meet"
        await watching
        if between:
            await between()
        await (transaction.commit() if commit else transaction.rollback())
        return await waiting


async def place(owner: asyncpg.Connection, lifecycle: str, state: str, *, leased: bool = False) -> UUID:
    """A task put into any state at all, past the triggers, with the one event that says so."""
    task, token = uuid4(), uuid4() if leased else None
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        await owner.execute(
            "insert into holdfast.task (id, lifecycle, name, state, actor, queue, max_attempts, lease_token,"
            " lease_expires_at, worker_id)"
            " select $1, l.id, 'placed', s.name, s.actor, l.queue, 3, $4::uuid,"
            " case when $4 is not null then holdfast.now() + interval '1 minute' end, 'worker'"
            " from holdfast.lifecycle l join holdfast.state s on s.lifecycle = l.id where l.name = $2 and s.name = $3",
            task, lifecycle, state, token,
        )  # fmt: skip
        await owner.execute("insert into holdfast.input (id, payload) values ($1, '{}')", task)
        await owner.execute(
            "insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)"
            " values ($1, 0, 'submit', '', $2, 1)",
            task, state,
        )  # fmt: skip
    return task


async def lease_of(owner: asyncpg.Connection, task: UUID) -> Lease:
    """The lease that a placed task is under, as its worker would hold it."""
    row = await owner.fetchrow(
        "select t.*, l.name as machine from holdfast.task t join holdfast.lifecycle l on l.id = t.lifecycle"
        " where t.id = $1",
        task,
    )
    return Lease(
        task, row["attempt"], row["lease_token"], row["lease_expires_at"], row["machine"], row["name"], row["owner"],
        row["state"], row["queue"], row["priority"], row["due_at"], row["deadline"], row["timed_out"],
        row["max_attempts"], row["version"], {},
    )  # fmt: skip
