"""Who runs on the hosts: a database, two servers, four workers and a client, each on one of its own.

Workers are never started again: whatever happens to their links, they must find their way back. Those over HTTP have a
key and the servers' addresses; between them and the database there is no link at all, from the beginning to the end.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from holdfast.engine.store.commands import Store
from holdfast.lifecycles import declare_all
from holdfast.postgres.connections import Address, open_connection, open_pool
from holdfast.postgres.embedded import Embedded, read_postmaster
from holdfast.postgres.migrate import migrate
from tests.crash.hosts import NETWORK, Host, Network
from tests.crash.storm_app import WALLET, WALLET_SQL
from tests.eventually import eventually

SERVERS = "api1", "api2"
WORKERS = "w1", "w2", "w3", "w4"
HOSTS = "db", *SERVERS, *WORKERS, "client"
PEERS = {"sql": ("db",), "http": SERVERS}
"""Whom workers speak to, by the way they do."""

port = 7777
slots = 20
busy_with = 3
crash_budget = 50
"""To be cut off three times is bad luck here, and says nothing against a task."""

start_within_seconds = 90.0
leave_within_seconds = 40.0


async def start_database(host: Host, home: Path, log: Path) -> subprocess.Popen[bytes]:
    """A database that is ready, until the standard input of this process closes."""
    given = str(home), host.address, f"{NETWORK}.0/24"
    command = [sys.executable, "-m", "tests.crash.database_host", *given]
    process = host.start(command, log, {}, stdin=subprocess.PIPE)

    async def look() -> bool:
        running = read_postmaster(home)
        return bool(running and running.ready)

    await eventually(look, "the database to be ready", within=start_within_seconds)
    return process


class Hosted:
    store: Store
    """The kernel, asked over the database's socket: files reach farther than links."""

    def __init__(self, network: Network, folder: Path, seed: int, way: str, lease_seconds: float) -> None:
        self.network = network
        self.folder = folder
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.seed = seed
        self.way = way
        self.lease_seconds = lease_seconds
        self.database = Embedded(folder / ".holdfast")
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._everyone: list[subprocess.Popen[bytes]] = []
        self._keeping: asyncio.Task[None] | None = None

    @property
    def peers(self) -> list[Host]:
        """Whom workers speak to."""
        return [self.network[name] for name in PEERS[self.way]]

    @property
    def addresses(self) -> list[str]:
        """Where the servers are."""
        return [f"http://{self.network[name].address}:{port}" for name in SERVERS]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everybody is there and ready."""
        try:
            self._everyone.append(await start_database(self.network["db"], self.database.home, self.folder / "db.log"))
            async with open_pool(Address(given=self.database.url(by_socket=True))) as pool:
                self.store = Store(pool)
                await self._prepare()
                self._keeping = asyncio.create_task(self._keep_servers())
                self._keep_apart()
                await eventually(self._are_listening, "the servers to listen", within=start_within_seconds)
                self.workers = {name: self._start_worker(self.network[name]) for name in WORKERS}
                await eventually(self._is_ready, "everybody to be ready", within=start_within_seconds)
                yield
        finally:
            await self._close()

    async def _prepare(self) -> None:
        owner_url = self.database.owner_url(by_socket=True)
        await migrate(owner_url)
        async with open_connection(owner_url) as owner:
            await owner.execute(WALLET_SQL)
            await declare_all(self.store)
            await self.store.declare(WALLET)
            await owner.execute("update holdfast.lifecycle set crash_budget = $1", crash_budget)
        self.url = self.database.url().replace("127.0.0.1", self.network["db"].address)
        self.client_key = (await self.store.keys.make("client", ["user"])).secret
        self.worker_key = (await self.store.keys.make("workers", ["worker"])).secret

    def _keep_apart(self) -> None:
        """Between workers and whoever they do not speak to, let nothing arrive in either direction."""
        others = [self.network[name] for name in ("db", *SERVERS) if name not in PEERS[self.way]]
        for worker in (self.network[name] for name in WORKERS):
            for other in others:
                self.network.sever(worker, other)
                self.network.sever(other, worker)

    # Who works

    def _start(self, host: Host, *arguments: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        log = self.folder / f"{host.name}.log"
        process = host.start([sys.executable, *arguments], log, environment)
        self._everyone.append(process)
        return process

    def _start_worker(self, host: Host) -> subprocess.Popen[bytes]:
        options = "--app", "tests.crash.hosted_app:hf", "--queue", "default", "--slots", str(slots)
        lease = "--lease", f"{self.lease_seconds}s"
        by_http = {"HOLDFAST_API": ",".join(self.addresses), "HOLDFAST_KEY": self.worker_key}
        way = {"HOLDFAST_URL": self.url} if self.way == "sql" else by_http
        environment = {**way, "STORM_FOLDER": str(self.histories)}
        return self._start(host, "-m", "holdfast", "worker", *options, *lease, environment=environment)

    def _start_server(self, host: Host) -> subprocess.Popen[bytes]:
        environment = {
            "HOLDFAST_URL": self.url, "HOLDFAST_HOST": host.address, "HOLDFAST_PORT": str(port),
            "HOLDFAST_OBJECTS": f"file://{self.folder}/objects",
        }  # fmt: skip
        return self._start(host, "-m", "holdfast", "up", "--workers", "0", environment=environment)

    async def _keep_servers(self) -> None:
        """Start them again when they are gone: killed, or without a database when they began."""
        while True:
            for name in SERVERS:
                if name not in self.servers or self.servers[name].poll() is not None:
                    self.servers[name] = self._start_server(self.network[name])
            await asyncio.sleep(0.1)

    async def _is_ready(self) -> bool:
        if gone := [name for name, worker in self.workers.items() if worker.poll() is not None]:
            pytest.fail(f"{gone} did not start: see {self.folder}")
        return len(await self.store.workers()) == len(WORKERS)

    async def _are_listening(self) -> bool:
        """Whether every server has said that it is up."""
        logs = [(self.folder / f"{name}.log").read_text() if name in self.servers else "" for name in SERVERS]
        return all("Holdfast is up" in one for one in logs)

    def start_client(self) -> None:
        given = str(self.histories), str(self.seed), *self.addresses
        environment = {"HOLDFAST_KEY": self.client_key}
        self.client = self._start(
            self.network["client"], "-m", "tests.crash.caller", *given, environment=environment
        )  # fmt: skip

    async def check_ways(self) -> None:
        """Try from each host for a way to the database: servers must have one, workers if they speak to it."""
        at = self.network["db"].address, str(urlsplit(self.url).port)
        tried = {
            name: self._start(self.network[name], "-m", "tests.crash.knock", *at, environment={})
            for name in (*SERVERS, *WORKERS)
        }
        found = [name for name, process in tried.items() if await asyncio.to_thread(process.wait) == 0]
        assert found == [*SERVERS, *(WORKERS if "db" in PEERS[self.way] else ())]

    def runners(self, name: str) -> list[int]:
        """The processes of a worker in which tasks run."""
        return [child.pid for child in psutil.Process(self.workers[name].pid).children()]

    async def busy(self) -> list[str]:
        """The workers that hold several tasks at this moment."""
        labels = {worker.id: worker.label for worker in await self.store.workers()}
        leases = await self.store.current_leases()
        held = Counter(labels.get(lease["worker_id"], "").rpartition(":")[2] for lease in leases)
        return [name for name, worker in self.workers.items() if held[str(worker.pid)] >= busy_with]

    # How they go

    async def dismiss_client(self, within: float) -> None:
        """Let it learn what became of what it asked last. Raises if it failed."""
        (self.histories / "over").touch()
        code = await asyncio.to_thread(self.client.wait, within)
        assert code == 0, f"the client failed: see {self.folder}"

    async def leave(self) -> None:
        """Ask servers and workers to end, as they must, in good order."""
        if self._keeping:
            self._keeping.cancel()
        leaving = {**self.servers, **self.workers}
        for process in leaving.values():
            process.send_signal(signal.SIGTERM)
        for name, process in leaving.items():
            code = await asyncio.to_thread(process.wait, leave_within_seconds)
            assert code == 0, f"{name} left with {code}: see {self.folder}"

    async def _close(self) -> None:
        if self._keeping:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        for process in self._everyone[1:]:
            process.kill()
        for process in reversed(self._everyone):  # the database goes last, by itself
            await asyncio.to_thread(process.communicate)
