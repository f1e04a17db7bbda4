"""The worker as a whole: `holdfast worker`'s two processes, tasks of an application, nothing left out.

Drains: the queue is paused while 20,000 tasks are made and the workers start and fall asleep; then it is resumed, and
the clock runs until the last task has ended. Idle latency: from before a task is started until its handler runs, one
after the other, with the worker asleep in between. Slots and batch are those a drain of small tasks asks for.
"""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

import asyncpg
import psutil
from tests.eventually import eventually
from tests.worker.crew import Crew, Worker

from bench import limits
from bench.app import five_steps, hf, nothing, tell_time
from bench.engine import AT_ONCE
from bench.frame import Bench, Place, processor
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.postgres.connections import Address, open_connection, open_pool
from holdfast.worker.config import WorkerConfig

DEFAULTS = WorkerConfig("")
SIZED = {"slots": 2000, "batch": 500}
DRAINED, LASTING = 20_000, 50_000
between_tasks_seconds = 0.01
patience_seconds = 300.0


@contextlib.asynccontextmanager
async def crew_on(place: Place) -> AsyncIterator[Crew]:
    """No worker yet; all are gone at the end."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Crew(place.url, Path(folder))) as crew:
        async with open_pool(Address(given=place.url)) as pool:
            crew.store = Store(pool)
            yield crew


def hire(crew: Crew, **plan: int) -> Worker:
    """One more worker, with the times that a worker has by default."""
    times = {name: getattr(DEFAULTS, name) for name in ("lease_seconds", "grace_seconds", "cancel_seconds")}
    return crew.start(app="bench.app:hf", **times, **plan)


async def fill(place: Place, submissions: Iterable[Submission]) -> None:
    wanted = list(submissions)
    async with place.connections() as (connection,):
        for first in range(0, len(wanted), AT_ONCE):
            await Store(connection).submit(*wanted[first : first + AT_ONCE])


async def asleep(owner: asyncpg.Connection, workers: int) -> None:
    """Wait until so many are there, with nothing to do."""
    query = "select count(*) >= $1 from holdfast.worker where idle_since is not null"
    await eventually(lambda: owner.fetchval(query, workers), "sleep", patience_seconds)


async def emptied(owner: asyncpg.Connection) -> None:
    """Wait until no task is live."""
    await eventually(
        lambda: owner.fetchval("select not exists (select from holdfast.task)"), "their end", patience_seconds
    )


class Clocked:
    """A drain: from the moment the queue is resumed to the end of the last task, by the database's clock."""

    def __init__(self, place: Place, crew: Crew, workers: Sequence[Worker]) -> None:
        self.place = place
        self.crew = crew
        self.workers = workers

    async def drain(self, bench: Bench, name: str, submissions: Sequence[Submission], beside: str | None) -> None:
        store = self.crew.store
        await store.pause_queue("default", "bench")
        await fill(self.place, submissions)
        async with open_connection(self.place.owner_url) as owner:
            await asleep(owner, len(self.workers))
            async with bench.watched(self.place, name):
                before = self.used()
                start = await owner.fetchval("select clock_timestamp()")
                await store.resume_queue("default")
                await emptied(owner)
                after = self.used()
            end = await owner.fetchval("select max(finished_at) from holdfast.task_done")
            await owner.execute("vacuum holdfast.task")
        bench.note(name, len(submissions) / (end - start).total_seconds(), "tasks/s", beside)
        for part, seconds in after.items():
            bench.note(f"{name}, processor of {part}", (seconds - before[part]) / len(submissions) * 1e6, "µs/task")

    def used(self) -> dict[str, float]:
        """The processor time so far, of whom."""
        runners = [runner.pid for worker in self.workers for runner in worker.runners()]
        return {
            "the server": sum(map(processor, self.servers())),
            "the runners": sum(map(processor, runners)),
            "the supervisors": sum(processor(worker.supervisor.pid) for worker in self.workers),
        }

    def servers(self) -> list[int]:
        """The server's processes that serve this database."""
        return [
            process.pid for process in psutil.process_iter() if f" {self.place.name} " in " ".join(cmdline(process))
        ]


def cmdline(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


async def measure(bench: Bench) -> None:
    async with bench.database("limit") as bare, bare.connections(2) as connections:
        await connections[0].execute(limits.TABLE)
        for _ in range(bench.rounds):
            await limits.note_drain(bench, connections[:1], 500, bench.size(30_000))
            await limits.note_drain(bench, connections, 500, bench.size(30_000))
            await note_drains(bench)
            bench.note("one commit", await limits.commit(connections[0], bench.size(500)) * 1000, "ms")
            await note_latency(bench)


async def note_drains(bench: Bench) -> None:
    tasks = [nothing.submission(number) for number in range(bench.size(DRAINED))]
    steps = [five_steps.submission(number) for number in range(bench.size(1_000))]
    async with staffed(bench, 1, **SIZED) as clocked:
        bench.note("memory of a worker, at its start", memory(clocked.workers[0]), "MB")
        await clocked.drain(bench, "drain, 1 worker", tasks, limits.named(500, 1))
        await note_memory(bench, clocked, bench.size(LASTING) - len(tasks))
        await clocked.drain(bench, "tasks of five steps, 1 worker", steps, None)
    async with staffed(bench, 2, **SIZED) as clocked:
        await clocked.drain(bench, "drain, 2 workers", tasks, limits.named(500, 2))
        await clocked.drain(bench, "tasks of five steps, 2 workers", steps, None)
    async with staffed(bench, 1) as clocked:
        await clocked.drain(bench, "drain, 1 worker with default settings", tasks, limits.named(500, 1))


@contextlib.asynccontextmanager
async def staffed(bench: Bench, number: int, **plan: int) -> AsyncIterator[Clocked]:
    """So many workers on a database of their own."""
    async with bench.database("worker") as place, crew_on(place) as crew:
        yield Clocked(place, crew, [hire(crew, **plan) for _ in range(number)])


async def note_latency(bench: Bench) -> None:
    async with bench.database("worker") as place, crew_on(place) as crew, open_connection(place.owner_url) as owner:
        hire(crew)
        await asleep(owner, 1)
        with using(place):
            await latency()  # opens the application
            taken = [await latency() for _ in range(bench.size(300))]
    bench.note("idle latency, p50", statistics.median(taken) * 1000, "ms", "one commit")
    bench.note("idle latency, p99", statistics.quantiles(taken, n=100)[98] * 1000, "ms", "one commit")


@contextlib.contextmanager
def using(place: Place) -> Iterator[None]:
    """Let the application of this process use that database."""
    os.environ["HOLDFAST_URL"] = place.url
    try:
        yield
    finally:
        hf.close()
        del os.environ["HOLDFAST_URL"]


async def latency() -> float:
    start = time.monotonic()
    handle = await tell_time.astart()
    begun = await handle.aresult(timeout=patience_seconds)
    await asyncio.sleep(between_tasks_seconds)
    return begun - start


async def note_memory(bench: Bench, clocked: Clocked, tasks: int) -> None:
    """What supervisor and runner hold of the machine's memory, shared pages counted twice, after so many more tasks."""
    await fill(clocked.place, [nothing.submission(0)] * tasks)
    async with open_connection(clocked.place.owner_url) as owner:
        await emptied(owner)
    name = f"memory of a worker, after {bench.size(LASTING):,} tasks"
    bench.note(name, memory(clocked.workers[0]), "MB", "memory of a worker, at its start")


def memory(worker: Worker) -> float:
    return float(sum(process.memory_info().rss for process in (worker.supervisor, *worker.runners())) / 2**20)
