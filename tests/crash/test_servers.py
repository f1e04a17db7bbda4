"""Workers that have no database finish their work while the servers they speak to are killed, one after the other."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.eventually import eventually
from tests.over_http import key_to
from tests.sharing import free_ports
from tests.worker import app
from tests.worker.crew import Crew
from tests.worker.servers import ServerProcess


@pytest.fixture
def servers(live: Database, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two of them, before one database."""
    two = [ServerProcess(live.owner_url, tmp_path, port) for port in free_ports(2)]
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


@pytest.mark.deep
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
        async def is_done() -> bool:
            return len(await crew.store.outcomes(ids)) >= number

        await eventually(is_done, f"the end of {number} tasks", within=600)

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
