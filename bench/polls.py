"""What it costs to ask about jobs that providers are at work on: one poll of all of them, by one worker.

The jobs are in one batch, or each in one of its own. The provider answers at once that a job runs, and wants to be
asked again in an hour; so a cycle is: all are due, and the clock runs until all were asked. Queries are transactions
that the database has seen meanwhile (each call of a worker is one), connections the most that were open at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
from tests.eventually import eventually

from bench.frame import Bench, Place
from bench.worker import crew_on, hire, patience_seconds
from holdfast.lifecycles.batch.store import Batches
from holdfast.postgres.connections import open_connection

JOBS = (100, 1_000, 10_000)
look_every_seconds = 0.05
SUBMITTED = """
insert into holdfast.batch_job (task_id, number, token, account, inputs, source, filename, inputs_key, status, running,
                                external_id, due_at, submitted_at, intended_at, tried_at)
select b.task_id, n, format('%s-%s', b.task_id, n), 'bench', 1, 'https://example.org/a.wav', 'a.wav', 'none',
       'SUBMITTED', true,
       format('%s-%s', b.task_id, n), holdfast.now() + interval '1 hour', holdfast.now(), holdfast.now(), holdfast.now()
from holdfast.batch b cross join generate_series(1, $1) n
"""
DUE = """
set session_replication_role = replica;
update holdfast.batch_job set due_at = holdfast.now(), polled_at = null;
update holdfast.task set due_at = holdfast.now() where queue = 'batch';
reset session_replication_role
"""
QUERIES = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
OPEN = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


async def measure(bench: Bench) -> None:
    for _ in range(bench.rounds):
        for jobs in JOBS:
            await note(bench, "one batch", 1, bench.size(jobs))
            await note(bench, "a batch each", bench.size(jobs), 1)


async def note(bench: Bench, form: str, batches: int, jobs: int) -> None:
    """One cycle over `batches` with so many jobs each."""
    number = batches * jobs
    async with bench.database("polls") as place, crew_on(place) as crew, open_connection(place.owner_url) as owner:
        hire(crew, slots=20)
        known = "select exists (select from holdfast.batch_provider where provider = 'BENCH')"
        await eventually(lambda: owner.fetchval(known), "its offer", patience_seconds)
        await crew.store.pause_queue("batch", "bench")
        for _ in range(batches):
            await Batches.over(crew.store).make("transcription", "BENCH", urls=["https://example.org/a.wav"])
        await owner.execute("update holdfast.batch set planned_at = holdfast.now(), inputs = $1", jobs)
        await owner.execute(SUBMITTED, jobs)
        await crew.store.resume_queue("batch")
        await asked(owner, "select not exists (select from holdfast.task where state = 'PENDING' and queue = 'batch')")
        await crew.store.pause_queue("batch", "bench")
        await owner.execute(DUE)
        async with counting(place) as seen:
            await crew.store.resume_queue("batch")
            await asked(owner, "select not exists (select from holdfast.batch_job where polled_at is null)")
        label = f"{number:,} jobs, {form}"
        beside = f"{bench.size(JOBS[0]):,} jobs, {form}"
        bench.note(f"{label}: queries", seen["queries"], "queries", None)
        bench.note(
            f"{label}: queries for each job", seen["queries"] / number, "queries", f"{beside}: queries for each job"
        )
        bench.note(f"{label}: connections", seen["connections"], "connections", f"{beside}: connections")
        bench.note(f"{label}: one cycle", seen["seconds"], "s", None)


async def asked(owner: asyncpg.Connection, until: str) -> None:
    await eventually(lambda: owner.fetchval(until), "the end of a cycle", patience_seconds)


@contextlib.asynccontextmanager
async def counting(place: Place) -> AsyncIterator[dict[str, float]]:
    """What the database sees while the block runs, but for who looks."""
    seen: dict[str, float] = {"connections": 0, "queries": 0, "seconds": 0}
    async with open_connection(place.owner_url) as looking:
        looks = 0
        began = asyncio.get_running_loop().time()
        before = await looking.fetchval(QUERIES)

        async def look() -> None:
            nonlocal looks
            while True:
                seen["connections"] = max(seen["connections"], await looking.fetchval(OPEN))
                looks += 1
                await asyncio.sleep(look_every_seconds)

        watching = asyncio.ensure_future(look())
        try:
            yield seen
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        seen["seconds"] = asyncio.get_running_loop().time() - began
        await looking.execute("select pg_stat_force_next_flush()")
        await asyncio.sleep(1.5)  # a session tells what it did once a second
        seen["queries"] = await looking.fetchval(QUERIES) - before - looks
