"""A storm over workers, server, database and network: every task ends, and ends once.

The witnesses are the histories of all processes, a wallet without any key, and the event table; checker.py says whether
they can all be telling the truth. HOLDFAST_CRASH_SECONDS and HOLDFAST_CRASH_SEED make it longer and make it again.
"""

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.engine.store.commands import Store
from holdfast.lifecycles import declare_all
from holdfast.postgres.connections import Address, open_connection, open_pool
from holdfast.postgres.embedded import Embedded
from holdfast.postgres.migrate import migrate
from tests.crash.checker import verdict
from tests.crash.export import SETTINGS, export
from tests.crash.figures import Figures, figures
from tests.crash.fleet import Fleet
from tests.crash.history import History
from tests.crash.nemesis import KINDS, Nemesis
from tests.crash.storm_app import WALLET, WALLET_SQL
from tests.eventually import eventually
from tests.worker.crew import ROOT

storm_seconds = float(os.environ.get("HOLDFAST_CRASH_SECONDS", "120"))
seed = int(os.environ.get("HOLDFAST_CRASH_SEED", time.time_ns() % 10**6))
lease_seconds = 2.0
start_within_seconds = 90.0
answer_within_seconds = 60.0
quiet_at_most_seconds = 30.0
calm_within_seconds = 60.0
measured_from_seconds = 60.0
"""A shorter run is asked for the truth only, not for speed."""


class Storm:
    def __init__(self, server: Embedded, fleet: Fleet, nemesis: Nemesis, store: Store) -> None:
        self.server = server
        self.fleet = fleet
        self.nemesis = nemesis
        self.store = store

    async def strike(self) -> float:
        """Let it rage; then let everything come to its end. How long that took after the last fault had healed."""
        self.fleet.man()
        await eventually(self._ready, "the first workers", within=start_within_seconds)
        self.fleet.start_clients()
        await self.nemesis.strike(storm_seconds)
        self.fleet.ask_for_less()
        await eventually(self._has_little, "what had piled up to end", within=answer_within_seconds)
        await self.nemesis.hunt(deaths=int(storm_seconds / 20))
        healed = time.monotonic()
        await self.fleet.dismiss_clients(within=answer_within_seconds)
        await self._calm()
        return time.monotonic() - healed

    async def _ready(self) -> bool:
        return len(self.fleet.ready()) >= 2

    async def _has_little(self) -> bool:
        return await self._left() < 100

    async def _calm(self) -> None:
        """Until all has ended; or nothing more for so long that the rest is stuck, and then the checker shows it."""
        left, since = await self._left(), time.monotonic()
        while left and time.monotonic() - since < quiet_at_most_seconds:
            await asyncio.sleep(0.1)
            now = await self._left()
            if now < left:
                left, since = now, time.monotonic()

    async def _left(self) -> int:
        return (await self.store.list_tasks(live=True, limit=1)).approx_count


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everything of this run is; what failed is kept until the same seed runs again."""
    folder = ROOT / ".cache" / "crash" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"\nseed {seed}, histories in {folder}")  # noqa: T201
    yield folder
    if (folder / "passed").exists():
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)  # the server may still be taking its socket away


@pytest.fixture
async def storm(folder: Path) -> AsyncIterator[Storm]:
    settings = {**SETTINGS, "max_connections": "90"}
    with Embedded(folder / ".holdfast", settings=settings) as server:
        await migrate(server.owner_url())
        async with open_connection(server.owner_url()) as owner:
            await owner.execute(WALLET_SQL)
        async with open_pool(Address(given=server.url())) as pool:
            store = Store(pool)
            await declare_all(store)
            await store.declare(WALLET)
            await store.make_queue("raw")
            fleet = Fleet(server.url(), folder, seed, lease_seconds)
            try:
                yield Storm(
                    server, fleet, Nemesis(server, fleet, store, History(fleet.histories, "nemesis"), seed), store
                )
            finally:
                await fleet.close()


@pytest.mark.long
@pytest.mark.timeout(storm_seconds + 300)
async def test_a_storm_over_everything_ends_every_task_once(storm: Storm) -> None:
    calm_after = await storm.strike()
    async with open_connection(storm.server.owner_url()) as owner:
        world = await export(owner, storm.fleet.histories, lease_seconds)
    found = figures(world)
    summary = storm.fleet.folder / "summary.json"
    summary.write_text(json.dumps({**found.dump(), "calm_after_seconds": calm_after}, indent=2))
    print(f"{found.table()}\n{'all ended, after the last fault':32} {calm_after:.1f} s\n{summary}")  # noqa: T201
    if violations := verdict(world):
        pytest.fail(violations)
    assert await storm.store.verify() == []
    refuse_vacuous(found)
    if storm_seconds >= measured_from_seconds:
        refuse_slow(found)
        assert calm_after < calm_within_seconds
    (storm.fleet.folder / "passed").touch()


def refuse_vacuous(found: Figures) -> None:
    """A run in which nothing happened proves nothing."""
    for what in ("reaped", "stale_refused", "cancel_races", "ambiguous_resolved"):
        assert getattr(found, what) > 0, f"vacuous: no {what}"
    assert found.executions > 100, "vacuous: hardly anything was run"
    assert len(found.faults) >= 8, f"vacuous: only {found.faults}"


def refuse_slow(found: Figures) -> None:
    """What is asked of two cores that have nothing else to do."""
    share = storm_seconds / 120
    assert found.tasks >= 10_000 * share
    assert sum(found.faults.values()) >= 150 * share
    missing = [kind for kind in KINDS if found.faults.get(kind, 0) < int(2 * share)]
    assert not missing, f"vacuous: hardly any {missing}"
    assert found.worker_killed.tasks > 0, "vacuous: no recovery of a worker was measured"
    assert found.runner_killed.tasks > 0, "vacuous: no recovery of a runner was measured"
    assert found.worker_killed.p99 <= lease_seconds + 0.5
    assert found.runner_killed.p99 < 1
