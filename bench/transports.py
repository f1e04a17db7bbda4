"""Workers over HTTP beside workers over SQL: what it costs to have no database.

The same tasks, the same workers with the same settings, on databases of their own; over HTTP with one `holdfast up` in
front, on the same machine, so that what it takes of the processor is taken from the worker. The two take turns, and
each figure over HTTP stands beside the one over SQL of the same round. Idle latency is from the commit of a task, made
over SQL, until its handler runs.
"""

import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.sharing import free_ports
from tests.worker.crew import Crew
from tests.worker.servers import ServerProcess

from bench.app import five_steps, nothing
from bench.frame import Bench, Place
from bench.worker import SIZED, Clocked, asleep, crew_on, hire, latency, using
from holdfast.postgres.connections import open_connection

TRANSPORTS = ("SQL", "HTTP")


async def measure(bench: Bench) -> None:
    for _ in range(bench.rounds):
        for transport in TRANSPORTS:
            await note_drains(bench, transport)
            await note_latency(bench, transport)


async def note_drains(bench: Bench, transport: str) -> None:
    tasks = [nothing.submission(number) for number in range(bench.size(10_000))]
    steps = [five_steps.submission(number) for number in range(bench.size(500))]
    async with bench.database("transports") as place, crew_over(place, transport) as crew:
        clocked = Clocked(place, crew, [hire(crew, **SIZED)])
        await clocked.drain(bench, f"drain over {transport}", tasks, beside("drain", transport))
        await clocked.drain(bench, f"five steps over {transport}", steps, beside("five steps", transport))


async def note_latency(bench: Bench, transport: str) -> None:
    async with (
        bench.database("transports") as place,
        crew_over(place, transport) as crew,
        open_connection(place.owner_url) as owner,
    ):
        hire(crew)
        await asleep(owner, 1)
        with using(place):
            await latency()  # opens the application
            taken = [await latency() for _ in range(bench.size(100))]
    name = f"idle latency over {transport}, p50"
    bench.note(name, statistics.median(taken) * 1000, "ms", None if transport == "SQL" else name.replace("HTTP", "SQL"))


def beside(what: str, transport: str) -> str | None:
    return None if transport == "SQL" else f"{what} over SQL"


@contextlib.asynccontextmanager
async def crew_over(place: Place, transport: str) -> AsyncIterator[Crew]:
    """No worker yet; those that come speak SQL, or HTTP to a server of their own."""
    async with crew_on(place) as crew:
        if transport == "SQL":
            yield crew
            return
        key = (await crew.store.keys.make("bench", ["worker"])).secret
        with tempfile.TemporaryDirectory() as folder, serving(place, Path(folder)) as server:
            await asyncio.to_thread(server.start)
            crew.speak_http(server.address, key)
            yield crew
            crew.close()
            crew.workers = []


@contextlib.contextmanager
def serving(place: Place, folder: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(place.owner_url, folder, free_ports(1)[0])
    try:
        yield server
    finally:
        server.close()
