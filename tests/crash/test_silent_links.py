"""A link that falls silent is given up within seconds, however long its kernel would have waited by itself."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.engine.store.commands import Store
from holdfast.postgres.connections import Address, open_connection, open_pool
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.keepalive import unanswered_seconds
from holdfast.postgres.migrate import migrate
from tests.crash.holders import assert_gone
from tests.crash.hosted import start_database, start_within_seconds
from tests.crash.hosts import Host, Network, NotAllowed
from tests.eventually import eventually

port = 7777
leeway_seconds = 10.0
"""What a slow machine may add. Without any care of ours, 30 s would pass after a question and 50 s in a sleep."""


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(["db", "w1"])
    except NotAllowed as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture
async def database(network: Network, tmp_path: Path) -> AsyncIterator[Embedded]:
    """On a host of its own."""
    server = Embedded(tmp_path / ".holdfast")
    process = await start_database(network["db"], server.home, tmp_path / "db.log")
    await migrate(server.owner_url(by_socket=True))
    yield server
    process.communicate()
    assert_gone(server.home)


class Client:
    """One that asks when it is told to, on a host of its own."""

    def __init__(self, host: Host, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        command = [sys.executable, "-m", "tests.crash.silent_client"]
        self.process = host.start(command, log, environment, stdin=subprocess.PIPE)

    async def read_lines(self, lines: int) -> str:
        """Its newest word, when it has said so many."""

        async def look() -> list[str]:
            found = self.log.read_text().splitlines()
            return found if len(found) >= lines else []

        return (await eventually(look, f"line {lines} of {self.log}"))[-1]

    def ask(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"ask\n")
        self.process.stdin.flush()


def address(database: Embedded, host: Host) -> str:
    return database.url().replace("127.0.0.1", host.address)


@pytest.mark.long
async def test_a_connection_whose_link_falls_silent_is_given_up(
    network: Network, database: Embedded, tmp_path: Path
) -> None:
    host, other = network["w1"], network["db"]
    client = Client(host, tmp_path / "w1.log", {"HOLDFAST_URL": address(database, other)})
    await client.read_lines(1)
    network.sever(other, host)
    client.ask()
    took = float(await client.read_lines(2))
    assert took < unanswered_seconds + leeway_seconds
    network.mend(other, host)
    client.process.communicate()


@pytest.mark.long
async def test_a_sleep_at_a_server_that_falls_silent_is_given_up(
    network: Network, database: Embedded, tmp_path: Path
) -> None:
    host, other = network["w1"], network["db"]
    async with open_pool(Address(given=database.url(by_socket=True))) as pool:
        key = (await Store(pool).keys.make("silent", ["worker"])).secret
    async with (
        serving(other, address(database, other), tmp_path),
        open_connection(database.owner_url(by_socket=True)) as owner,
    ):
        environment = {"HOLDFAST_API": f"http://{other.address}:{port}", "HOLDFAST_KEY": key}
        client = Client(host, tmp_path / "w1.log", environment)
        await client.read_lines(1)
        woken = await owner.fetchval("select idle_since from holdfast.worker")

        async def is_asleep() -> bool:
            return bool(await owner.fetchval("select idle_since > $1 from holdfast.worker", woken))

        client.ask()
        await eventually(is_asleep, "the client to sleep at the server")
        network.sever(other, host)
        took = float(await client.read_lines(2))
        assert took < unanswered_seconds + leeway_seconds
        network.mend(other, host)
        client.process.communicate()


@contextlib.asynccontextmanager
async def serving(host: Host, url: str, folder: Path) -> AsyncIterator[None]:
    """A server on this host, which listens."""
    log = folder / "server.log"
    environment = {
        "HOLDFAST_URL": url, "HOLDFAST_HOST": host.address, "HOLDFAST_PORT": str(port),
        "HOLDFAST_OBJECTS": f"file://{folder}/objects",
    }  # fmt: skip
    process = host.start([sys.executable, "-m", "holdfast", "up", "--workers", "0"], log, environment)

    async def listens() -> bool:
        return "Holdfast is up" in log.read_text()

    try:
        await eventually(listens, "the server to listen", within=start_within_seconds)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
