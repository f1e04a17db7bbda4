"""What every measurement shares: a durable server, databases on it, and the figures of every round.

The server is the one that `holdfast up` runs, with fsync and synchronous_commit on. Machines are shared and noisy: a
figure is worth something only beside the others of its own run, so variants take turns and a figure may name the one
that it stands `beside`, of the same round.
"""

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from bench import waits
from holdfast.engine.store.commands import Store
from holdfast.lifecycles import declare_all
from holdfast.postgres.connections import connect, open_connection
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.migrate import migrate

HERE = Path(__file__).parent
TEMPLATE = "bench_template"


@dataclass
class Figure:
    """One number, as each round saw it. `beside`: the figure that it is a multiple or a share of."""

    name: str
    unit: str
    beside: str | None = None
    rounds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """A database of the run."""

    name: str
    url: str
    owner_url: str

    @contextlib.asynccontextmanager
    async def connections(self, number: int = 1, *, prepared: bool = True) -> AsyncIterator[list[asyncpg.Connection]]:
        """So many connections as the owner."""
        async with contextlib.AsyncExitStack() as stack:
            made = []
            for _ in range(number):
                connection = await connect(self.owner_url, prepared=prepared)
                stack.push_async_callback(connection.close)
                made.append(connection)
            yield made


class Bench:
    """One measurement while it runs: its server, how much it is to do, and what it has seen."""

    def __init__(self, server: Embedded, *, rounds: int = 3, quick: bool = False, waits: bool = False) -> None:
        self.server = server
        self.rounds = rounds
        self.quick = quick
        self.waits = waits
        self.figures: dict[str, Figure] = {}
        self.profiles: dict[str, dict[str, Any]] = {}

    def size(self, tasks: int) -> int:
        """How many, of so many that would be enough for a steady figure."""
        return max(tasks // 10, 1) if self.quick else tasks

    def note(self, name: str, value: float, unit: str, beside: str | None = None) -> None:
        self.figures.setdefault(name, Figure(name, unit, beside)).rounds.append(value)

    def note_drain(self, name: str, tasks: int, spent: "Spent", beside: str | None = None) -> None:
        """Tasks in a second, and what each took of the server's processor."""
        of_processor = f"{beside}, processor" if beside else None
        self.note(name, tasks / spent.seconds, "tasks/s", beside)
        self.note(f"{name}, processor", spent.processor / tasks * 1e6, "µs/task", of_processor)

    @contextlib.asynccontextmanager
    async def watched(
        self, place: "Place", label: str, connections: Sequence[asyncpg.Connection] = ()
    ) -> AsyncIterator[None]:
        """With --waits: see where the time of this block goes."""
        if not self.waits:
            yield
            return
        async with waits.watching(place.owner_url, place.name, connections) as seen:
            yield
        self.profiles[label] = seen  # the last round's, as good as any

    @contextlib.asynccontextmanager
    async def database(self, name: str) -> AsyncIterator[Place]:
        """A database of its own, migrated, with the lifecycles declared; gone at the end."""
        place = self._place(f"bench_{name}")
        async with open_connection(self.server.owner_url("postgres", by_socket=True)) as owner:
            await self._make_template(owner)
            await owner.execute(f"create database {place.name} template {TEMPLATE}")
            for setting, value in waits.SETTINGS.items() if self.waits else ():
                await owner.execute(f"alter database {place.name} set {setting} = '{value}'")
            try:
                yield place
            finally:
                await owner.execute(f"drop database {place.name} with (force)")

    async def _make_template(self, owner: asyncpg.Connection) -> None:
        if await owner.fetchval("select true from pg_database where datname = $1", TEMPLATE):
            return
        await owner.execute(f"create database {TEMPLATE}")
        place = self._place(TEMPLATE)
        await migrate(place.owner_url)
        async with place.connections() as (connection,):
            await declare_all(Store(connection))
            await Store(connection).make_partitions()

    def _place(self, name: str) -> Place:
        url, owner_url = self.server.url(database=name, by_socket=True), self.server.owner_url(name, by_socket=True)
        return Place(name, url, owner_url)


@dataclass
class Spent:
    """What something took: by the clock, and of the processor by the processes that were watched."""

    seconds: float = 0.0
    processor: float = 0.0


@contextlib.contextmanager
def spending(processes: Sequence[int]) -> Iterator[Spent]:
    """Watch these processes; the answer is whole when the block has ended."""
    spent = Spent()
    before, start = sum(map(processor, processes)), time.perf_counter()
    yield spent
    spent.seconds = time.perf_counter() - start
    spent.processor = sum(map(processor, processes)) - before


def servers(connections: Sequence[asyncpg.Connection]) -> list[int]:
    return [connection.get_server_pid() for connection in connections]


def processor(process: int) -> float:
    """Seconds that a process has run: to the nanosecond where the kernel tells, else in ticks."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


async def describe(server: Embedded) -> dict[str, Any]:
    """Machine, server and commit: what a figure must not be read without."""
    async with open_connection(server.owner_url("postgres", by_socket=True)) as owner:
        asked = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
        settings = {name: await owner.fetchval("select current_setting($1)", name) for name in asked}
        version = await owner.fetchval("select current_setting('server_version')")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": run_command("git", "rev-parse", "HEAD")
        + ("+" if run_command("git", "status", "--porcelain") else ""),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "postgres": version,
            "memory_mb": psutil.virtual_memory().total // 2**20,
            "load": os.getloadavg()[0],
            "nice": os.nice(0),
        },
        "server": settings,
    }


def kept(figures: Mapping[str, Figure]) -> list[dict[str, Any]]:
    return [asdict(figure) for figure in figures.values()]


def run_command(*command: str) -> str:
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()
