"""A link that falls silent is given up within seconds, however long its kernel would have waited by itself."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.kernel.embedded import Embedded
from holdfast.kernel.migrate import migrate
from holdfast.kernel.postgres import silence_seconds
from tests.crash.holders import assert_gone
from tests.crash.hosted import start_database
from tests.crash.hosts import Network, NotAllowed
from tests.worker.crew import eventually

leeway_seconds = 10.0
"""What a slow machine may add. Without any care of ours, 30 s would pass."""


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(["db", "w1"])
    except NotAllowed as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.mark.long
async def test_a_connection_whose_link_falls_silent_is_given_up(network: Network, tmp_path: Path) -> None:
    server = Embedded(tmp_path / ".holdfast")
    database = await start_database(network["db"], server.home, tmp_path / "db.log")
    await migrate(server.owner_url(by_socket=True))
    url = server.url().replace("127.0.0.1", network["db"].address)
    said = tmp_path / "w1.log"
    command = [sys.executable, "-m", "tests.crash.silent_client"]
    client = network["w1"].start(command, said, {"HOLDFAST_URL": url}, stdin=subprocess.PIPE)
    assert client.stdin

    async def has_said(lines: int) -> list[str]:
        async def look() -> list[str]:
            found = said.read_text().splitlines()
            return found if len(found) >= lines else []

        return await eventually(look, f"line {lines} of {said}")

    await has_said(1)
    network.sever(network["db"], network["w1"])
    client.stdin.write(b"ask\n")
    client.stdin.flush()
    took = float((await has_said(2))[1])
    assert took < silence_seconds + leeway_seconds
    network.mend(network["db"], network["w1"])
    client.communicate()
    database.communicate()
    assert_gone(server.home)
