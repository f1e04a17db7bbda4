"""Workers that have no database finish their work while the servers they speak to are killed, one after the other."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.worker import app
from tests.worker.conftest import key_to
from tests.worker.crew import ROOT, Crew


class ServerProcess:
    """`holdfast up` on a port of its own, which may be killed and started again."""

    def __init__(self, database: Database, folder: Path, port: int) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.deaths = 0
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._environment = {
            **clean, "HOLDFAST_URL": database.owner_url, "HOLDFAST_PORT": str(port),
            "HOLDFAST_OBJECTS": f"file://{folder}/objects", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._log = (folder / f"server-{port}.log").open("a")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return once it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "up"], cwd=ROOT, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        assert self._process.stdout
        for line in self._process.stdout:
            if found := re.search(r"Holdfast is up: .*:(\d+)", line):
                assert int(found[1]) == self.port
                return
        pytest.fail(Path(self._log.name).read_text())

    def kill(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        self._process = None
        self.deaths += 1

    def close(self) -> None:
        if self._process:
            self.kill()
        self._log.close()


def free_ports(number: int) -> list[int]:
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in listening]
    for one in listening:
        one.close()
    return ports


@pytest.fixture
def servers(live: Database, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two of them, before one database."""
    two = [ServerProcess(live, tmp_path, port) for port in free_ports(2)]
    try:
        for one in two:
            one.start()
        yield two
    finally:
        for one in two:
            one.close()


@pytest.fixture
async def crew(live: Database, tmp_path: Path, servers: list[ServerProcess]) -> AsyncIterator[Crew]:
    """Nobody yet; whoever comes speaks to both servers."""
    crew = Crew(live.url, tmp_path)
    crew.speak_http(",".join(one.address for one in servers), await asyncio.to_thread(key_to, live))
    try:
        async with live.store() as crew.store:
            yield crew
            assert await crew.store.verify() == []
    finally:
        crew.close()


@pytest.mark.parametrize(("tasks", "deaths"), [(200, 2), pytest.param(5000, 10, marks=pytest.mark.long)])
@pytest.mark.timeout(600)
async def test_workers_without_a_database_finish_while_servers_are_killed(
    crew: Crew, servers: list[ServerProcess], tasks: int, deaths: int
) -> None:
    for _ in range(2):
        crew.start(slots=20, lease_seconds=10.0)
    ids = await crew.submit(*(app.note_slowly.submission(f"task-{n}") for n in range(tasks)))
    began = time.monotonic()

    async def until_done(number: int) -> None:
        while len(await crew.store.outcomes(ids)) < number:  # noqa: ASYNC110 - it is other processes that work
            await asyncio.sleep(0.05)

    for death in range(deaths):
        await until_done(tasks * (death + 1) // (deaths + 2))
        victim = servers[death % len(servers)]
        victim.kill()
        await until_done(tasks * (death + 1) // (deaths + 2) + tasks // 50)  # the other one is enough
        await asyncio.to_thread(victim.start)
    await until_done(tasks)
    took = time.monotonic() - began

    assert {end.outcome for end in await crew.ended(ids)} == {"done"}
    executions = Counter(line.split()[0] for line in crew.ledger.read_text().splitlines())
    crashes = 0
    for task in ids:
        crashes += (await crew.read(task))["crashes"]
        assert (await crew.verbs(task)).count("done") == 1
    assert set(executions) == {f"task-{n}" for n in range(tasks)}
    assert executions.total() <= tasks + crashes, "what is run twice has lost its lease before"
    assert sum(one.deaths for one in servers) == deaths
    sys.stderr.write(
        f"\n{tasks} tasks in {took:.1f} s, {deaths} servers killed, {executions.total()} executions, "
        f"{crashes} leases lost\n"
    )
