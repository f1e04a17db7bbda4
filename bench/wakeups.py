"""What wake-ups are worth, and what they cannot spoil: by Postgres and over SQS, in three worlds.

Heard: as they come. Dropped: none arrives, so that a worker finds its tasks by looking, once in its poll interval of a
second. Doubled: each arrives ten times, in any order. A pickup is the time from before a task is started until its
handler runs, with one worker; tasks are started at random moments, a few in a second, so that most find it asleep.
Executions are counted by a file to which every run of a task adds a line.

SQS is played by moto on this machine, in Python: a slow server, but on no slow line.
"""

import asyncio
import contextlib
import logging
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

from tests.sharing import shared
from tests.wakeups.amazon import KEYS, RECEIVE, Line, line_to, start_moto

from bench.app import counted, tell_time
from bench.frame import Bench
from bench.worker import crew_on, hire, patience_seconds, using
from holdfast.postgres.connections import open_connection
from holdfast.testing.providers.faults import change

TASKS = 200
pause_seconds = 0.4
copies = 10

WAKE = """
create or replace function holdfast.wake_workers(p_queues text[], p_names text[], p_tasks int) returns void
language plpgsql
as $$
begin
  perform pg_notify(holdfast.channel(w.id), n::text)
  from holdfast.worker w, generate_series(1, {copies}) n where w.idle_since is not null;
end $$
"""


async def measure(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder, shared(Path(folder, "moto"), start_moto) as moto:
        os.environ |= KEYS
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a line ends with a worker that still listens
        for _ in range(bench.rounds):
            for world in ("heard", "dropped", "doubled"):
                await note(bench, f"postgres, {world}", world, None)
                async with line_to(moto["AWS_ENDPOINT_URL"]) as line:
                    await note(bench, f"SQS, {world}", world, line)


async def note(bench: Bench, name: str, world: str, line: Line | None) -> None:
    async with bench.database("wakeups") as place, crew_on(place) as crew, open_connection(place.owner_url) as owner:
        if line:
            crew.environment |= line.variables
        elif world != "heard":
            await owner.execute(WAKE.format(copies=0 if world == "dropped" else copies))
        if line and world == "dropped":
            line.faults.add("POST", "/", change({}, remove=["Messages"]), headers=RECEIVE, times=None)
        hire(crew, poll_seconds=1)
        number = bench.size(TASKS)
        with using(place):
            await pickup(None)  # opens the application
            async with asyncio.TaskGroup() as group:
                taken = []
                for _ in range(number):
                    taken.append(group.create_task(pickup(line if world == "doubled" else None)))
                    await asyncio.sleep(random.uniform(0, pause_seconds))  # noqa: S311
            if world == "doubled":
                await run_counted(number, line)
                runs = sum(line.startswith("begun ") for line in crew.ledger.read_text().splitlines())
                bench.note(f"{name}: executions of a task", runs / number, "times")
        times = [task.result() for task in taken]
        bench.note(f"{name}: pickup, p50", statistics.median(times) * 1000, "ms")
        bench.note(f"{name}: pickup, p99", statistics.quantiles(times, n=100)[98] * 1000, "ms")


async def pickup(line: Line | None) -> float:
    start = time.monotonic()
    handle = await tell_time.astart()
    async with doubling(line, handle.id):
        begun = await handle.aresult(timeout=patience_seconds)
    return begun - start


async def run_counted(number: int, line: Line | None) -> None:
    handles = [await counted.astart(0.0) for _ in range(number)]
    async with contextlib.AsyncExitStack() as stack:
        for handle in handles:
            await stack.enter_async_context(doubling(line, handle.id))
        for handle in handles:
            await handle.aresult(timeout=patience_seconds)


@contextlib.asynccontextmanager
async def doubling(line: Line | None, task: object) -> AsyncIterator[None]:
    """Nine messages more, beside whatever is published: some before its task is taken, some after."""
    sending = asyncio.create_task(line.send(*[UUID(str(task))] * (copies - 1))) if line else None
    yield
    if sending:
        await sending
