"""A storm over workers, server and database: every task ends, and ends once.

Two witnesses: the database (one row and one final event for each task), and a file to which each execution is written.
Executions may be more than completions; completions may not be more than tasks. A task that was with a worker each of
three times that one was killed ends as failed, as it must: it could be the one that kills them.
"""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import pytest

from holdfast.errors import DatabaseError
from holdfast.kernel.embedded import Embedded, read_postmaster
from holdfast.kernel.migrate import migrate
from holdfast.kernel.postgres import Address, connected, pooled
from holdfast.kernel.store import Store
from tests.crash.load_app import SHAPES, worked
from tests.worker.crew import Crew, Worker, eventually

storm_seconds = float(os.environ.get("HOLDFAST_CRASH_SECONDS", "60"))
workers_wanted = 3
lease_seconds = 2.0
open_at_most = 300

KINDS = ("runner", "keeper", "both", "stop", "api", "postmaster", "backend")

ONE_END_EACH = (
    "select count(*) from (select d.id from holdfast.task_done d"
    " left join holdfast.event e on e.task_id = d.id and e.to_state = d.state"
    " group by d.id having count(e.version) <> 1) wrong"
)


class Storm:
    """Workers, a server and a database, and who strikes them."""

    def __init__(self, server: Embedded, crew: Crew, seed: int) -> None:
        self.server = server
        self.crew = crew
        self.chance = random.Random(seed)  # noqa: S311
        self.kills: Counter[str] = Counter()
        self.made: dict[str, UUID] = {}
        self.over = False
        self.drained = False
        self.alive: list[Worker] = []
        self.api: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    # Those who work

    async def man(self) -> None:
        """Replace workers and servers that are gone."""
        while not self.drained:
            self.alive = [worker for worker in self.alive if worker.process.poll() is None]
            while len(self.alive) < workers_wanted:
                with contextlib.suppress(pytest.fail.Exception):  # the database is away: it says so and ends
                    self.alive.append(await asyncio.to_thread(self.start_worker))
            if self.api is None or self.api.poll() is not None:
                self.start_api()
            await asyncio.sleep(0.1)

    def start_worker(self) -> Worker:
        return self.crew.start(app="tests.crash.load_app:hf", lease_seconds=lease_seconds, slots=10)

    def start_api(self) -> None:
        with (self.crew.folder / "api.log").open("a") as log:
            self.api = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "up", "--workers", "0"],
                cwd=self.crew.folder, stdout=log, stderr=log,
                env={**os.environ, **self.crew.environment, "HOLDFAST_PORT": str(self.port)},
            )  # fmt: skip

    # Those who want work done

    async def submit(self, first: int) -> None:
        """Keep submitting, each task with a key until somebody says that it is there."""
        number = first
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=5) as client:
            while not self.over:
                number += 2
                if len(self.made) - self.ended > open_at_most:
                    await asyncio.sleep(0.05)
                    continue
                shape = SHAPES[number % len(SHAPES)]
                key = f"{shape.name}-{number}"
                while key not in self.made:
                    with contextlib.suppress(httpx.HTTPError, DatabaseError):
                        self.made[key] = await (self.by_http(client, shape, number, key) if first else self.by_sql(
                            shape, number, key
                        ))  # fmt: skip
                    await asyncio.sleep(self.chance.uniform(0, 0.02))

    async def by_http(self, client: httpx.AsyncClient, shape: Any, number: int, key: str) -> UUID:
        body = {"task": shape.name, "payload": {"number": number}, "key": key, "max_attempts": (shape.retries or 2) + 1}
        answer = await client.post("/dispatch/tasks", json=body)
        if answer.status_code >= 500:
            raise httpx.HTTPError(answer.text)
        assert answer.status_code in (200, 201), answer.text
        return UUID(answer.json()["task_id"])

    async def by_sql(self, shape: Any, number: int, key: str) -> UUID:
        (task,) = await self.crew.submit(shape.opts(key=key).submission(number))
        return task

    ended = 0

    async def count(self) -> None:
        while not self.over:
            with contextlib.suppress(DatabaseError):
                self.ended = len(await self.crew.store.outcomes(self.made.values()))
            await asyncio.sleep(0.2)

    # Those who strike

    async def strike(self) -> None:
        kinds: list[str] = []
        while not self.over:
            await asyncio.sleep(self.chance.uniform(0.3, 2.0))
            if not kinds:
                kinds = self.chance.sample(KINDS, len(KINDS))
            kind = kinds.pop()
            with contextlib.suppress(psutil.NoSuchProcess):
                if await getattr(self, f"hit_{kind}")():
                    self.kills[kind] += 1

    def victim(self) -> Worker | None:
        return self.chance.choice(self.alive) if self.alive else None

    async def hit_runner(self) -> bool:
        worker = self.victim()
        if worker and (runners := worker.runners()):
            self.chance.choice(runners).kill()
            return True
        return False

    async def hit_keeper(self) -> bool:
        worker = self.victim()
        if worker:
            worker.kill(runners=False)
        return bool(worker)

    async def hit_both(self) -> bool:
        worker = self.victim()
        if worker:
            worker.kill()
        return bool(worker)

    async def hit_stop(self) -> bool:
        """Stop a runner, a keeper or both for longer than a lease."""
        worker = self.victim()
        if not worker:
            return False
        who = self.chance.choice([{"keeper": False}, {"runners": False}, {}])
        stopped = [
            *([] if "runners" in who else worker.runners()),
            *([] if "keeper" in who else [worker.keeper]),
        ]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(lease_seconds * self.chance.uniform(1.1, 2))
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
        return True

    async def hit_api(self) -> bool:
        if self.api is None or self.api.poll() is not None:
            return False
        self.api.kill()
        await asyncio.to_thread(self.api.wait)
        return True

    async def hit_postmaster(self) -> bool:
        running = read_postmaster(self.server.home)
        if running:
            psutil.Process(running.pid).kill()
        return bool(running)

    async def hit_backend(self) -> bool:
        running = read_postmaster(self.server.home)
        if not running:
            return False
        backends = [one for one in psutil.Process(running.pid).children() if "holdfast_app" in " ".join(one.cmdline())]
        if backends:
            self.chance.choice(backends).send_signal(self.chance.choice([signal.SIGTERM, signal.SIGKILL]))
        return bool(backends)

    async def rage(self) -> None:
        """Strike while there is work; then let all that is left end, with those who are there."""
        manning = asyncio.create_task(self.man())
        tasks = [asyncio.create_task(one) for one in (self.strike(), self.submit(0), self.submit(1), self.count())]
        try:
            await asyncio.wait([manning, *tasks], timeout=storm_seconds, return_when=asyncio.FIRST_EXCEPTION)
            self.over = True
            async with asyncio.timeout(60):  # what was asked for last is asked for until it is there
                await asyncio.gather(*tasks)
            await self.crew.ended(self.made.values(), within=120)
        finally:
            self.drained = True
            await manning


@pytest.fixture
async def storm(tmp_path: Path) -> AsyncIterator[Storm]:
    seed = int(os.environ.get("HOLDFAST_CRASH_SEED", time.time_ns()))
    print(f"\nseed {seed}")  # noqa: T201
    with Embedded(tmp_path / ".holdfast") as server:
        await migrate(server.owner_url(by_socket=True))
        url = server.url(by_socket=True)
        with contextlib.closing(Crew(url, tmp_path)) as crew:
            async with pooled(Address(given=url)) as pool:
                crew.store = Store(pool)
                storm = Storm(server, crew, seed)
                try:
                    yield storm
                finally:
                    if storm.api:
                        storm.api.kill()
                        storm.api.wait()


@pytest.mark.long
@pytest.mark.timeout(storm_seconds + 300)
async def test_a_storm_over_everything_ends_every_task_once(storm: Storm) -> None:
    crew = storm.crew
    storm.alive.append(await asyncio.to_thread(storm.start_worker))
    await storm.rage()

    ends = dict(zip(storm.made, await crew.ended(storm.made.values()), strict=True))
    executions = Counter(line.split()[0] for line in crew.ledger.read_text().splitlines())
    metrics = {name: value for name, labels, value in await crew.store.metrics() if not labels}
    failed = {key: end.note for key, end in ends.items() if end.outcome != "done"}
    print(  # noqa: T201
        f"{len(ends)} tasks, {sum(executions[key] for key in ends)} executions, kills {dict(storm.kills)},"
        f" {metrics['reaped']:.0f} reaped, {metrics['lost']:.0f} refused, {len(failed)} given up after three crashes"
    )

    async def settled() -> bool:
        return (await crew.store.list_tasks(live=True)).items == []

    await eventually(settled)
    async with connected(storm.server.owner_url(by_socket=True)) as owner:
        assert await owner.fetchval("select count(*) from holdfast.task_done") == len(ends), "submitted is completed"
        assert await owner.fetchval(ONE_END_EACH) == 0, "one end each"
    assert await crew.store.verify() == []
    for key, end in ends.items():
        if end.outcome == "done":
            assert end.result == worked(int(key.rpartition("-")[2])), key
            assert executions[key] >= 1, f"{key} was completed by nobody"
    assert all(note["kind"] == "lease_lost" for note in failed.values()), failed
    assert len(failed) < len(ends) / 20
    assert len(ends) > 50, "vacuous: hardly anything was submitted"
    assert set(storm.kills) == set(KINDS), f"vacuous: {storm.kills}"
    assert metrics["reaped"] > 0, "vacuous: no lease ran out"
    assert metrics["lost"] > 0, "vacuous: nothing was refused"
    assert sum(executions[key] for key in ends) > len(ends), "vacuous: nothing was run again"
