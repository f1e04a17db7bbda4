"""Whoever strikes: at workers, at the database, at the network, and from within, by handlers that bring others down."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import psutil

from holdfast.engine.store.commands import Store
from holdfast.errors import DatabaseError
from holdfast.postgres.connections import DRIVER_ERRORS, connect
from holdfast.postgres.embedded import Embedded, read_postmaster
from holdfast.sdk.task import Task
from tests.crash import storm_app as app
from tests.crash.client import described
from tests.crash.faults import Faults
from tests.crash.fleet import Fleet
from tests.crash.history import History
from tests.worker.crew import Worker

left_at_work = 2
GROUPS = {
    "workers": (
        (0.4, 1.8),
        ("runner killed", "supervisor killed", "worker killed", "runner stopped", "supervisor stopped",
         "worker stopped", "worker drained", "raw worker killed", "raw worker stopped", "server killed"),
    ),
    "database": (
        (1.0, 3.5),
        ("backends terminated", "backend killed", "postmaster killed", "immediate stop", "fast restart",
         "table locked", "connections hoarded", "listeners lost"),
    ),
    "network": ((1.0, 3.5), ("connections reset", "replies dropped", "half open")),
    "handlers": ((2.0, 5.0), ("segfault", "exit", "endless loop", "always deadly")),
}  # fmt: skip
KINDS = tuple(kind for _, kinds in GROUPS.values() for kind in kinds)
OUTAGES = ("backend killed", "postmaster killed", "immediate stop", "fast restart", "table locked")
"""Faults during which the database is away from everybody."""

settle_down_seconds = 1.0
"""After an outage, what it takes until everybody is connected again; no recovery is measured until then."""


class Nemesis(Faults):
    groups = GROUPS

    def __init__(self, server: Embedded, fleet: Fleet, store: Store, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self.server = server
        self.fleet = fleet
        self.store = store
        self._number = 9 * 10**6

    async def strike(self, seconds: float) -> None:
        await super().strike(seconds)
        await self._until_answered()

    async def hunt(self, deaths: int) -> None:
        """One death at a time, while all else is well: what each costs until somebody takes up what was held."""
        rng = random.Random(f"{self.seed} hunt")  # noqa: S311
        await asyncio.sleep(settle_down_seconds)
        for kind in ("runner killed", "worker killed") * deaths:
            while not await self._workers(kind, rng):  # noqa: ASYNC110 - nobody is there to be struck
                await asyncio.sleep(0.1)
            await asyncio.sleep(self.fleet.lease_seconds + 1.5)

    # Workers

    async def _workers(self, kind: str, rng: random.Random) -> bool:
        who, _, what = kind.rpartition(" ")
        if who == "server":
            began = time.time()
            return self.fleet.kill_server() and self._say(kind, began)
        if who == "raw worker":
            return self._raw_worker(kind, rng)
        ready = self.fleet.ready()
        if len(ready) <= left_at_work:
            return False
        worker = rng.choice(ready)
        runners = worker.runners()
        if not runners:
            return False
        began = time.time()
        match kind:
            case "worker drained":
                worker.process.send_signal(signal.SIGTERM)
                return self._say(kind, began, pids=[worker.supervisor.pid])
            case "runner killed":
                struck = runners[:1]
            case "supervisor killed" | "supervisor stopped":
                struck = [worker.supervisor]
            case "runner stopped":
                struck = runners
            case _:
                struck = [*runners, worker.supervisor]
        if what == "killed":
            return self._killed(kind, struck)
        self.fleet.paused.add(worker)
        self._stop(kind, struck, self.fleet.lease_seconds * rng.uniform(1.2, 2.2), worker)
        return True

    def _raw_worker(self, kind: str, rng: random.Random) -> bool:
        alive = [psutil.Process(one.pid) for one in self.fleet.raw_workers if one.poll() is None]
        if not alive:
            return False
        struck = [rng.choice(alive)]
        if kind == "raw worker killed":
            return self._killed(kind, struck)
        self._stop(kind, struck, self.fleet.lease_seconds * rng.uniform(1.2, 2.2))
        return True

    def _killed(self, kind: str, struck: Sequence[psutil.Process]) -> bool:
        began = time.time()
        for process in struck:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return self._say(kind, began, pids=[one.pid for one in struck])

    def _stop(self, kind: str, struck: Sequence[psutil.Process], seconds: float, worker: Worker | None = None) -> None:
        async def stop() -> bool:
            began = time.time()
            for process in struck:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            await asyncio.sleep(seconds)
            for process in struck:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
            if worker:
                self.fleet.paused.discard(worker)
            return self._say(kind, began, pids=[one.pid for one in struck])

        task = asyncio.create_task(stop())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    # The database

    async def _database(self, kind: str, rng: random.Random) -> bool:
        began = time.time()
        try:
            done = await self._strike_database(kind, rng)
        except DRIVER_ERRORS:
            done = False
        await self._until_answered()
        return done and self._say(kind, began)

    async def _strike_database(self, kind: str, rng: random.Random) -> bool:
        match kind:
            case "postmaster killed":
                return self._signal_postmaster(signal.SIGKILL)
            case "immediate stop":
                return self._signal_postmaster(signal.SIGQUIT)
            case "fast restart":
                return self._signal_postmaster(signal.SIGINT)
            case "connections hoarded":
                return await self._hoard()
        async with self._owner() as owner:
            match kind:
                case "table locked":
                    async with owner.transaction():
                        await owner.execute("set local lock_timeout = '2s'")
                        await owner.execute("lock table holdfast.task in access exclusive mode")
                        await asyncio.sleep(rng.uniform(0.3, 1.4 * self.fleet.lease_seconds))
                    return True
                case "listeners lost":
                    await owner.execute("update holdfast.worker set idle_since = null")
                    pids = await self._backends(owner, "and query ilike 'listen%'")
                    return await self._terminate(owner, pids)
                case "backends terminated":
                    pids = await self._backends(owner)
                    return await self._terminate(owner, rng.sample(pids, (len(pids) + 1) // 2))
            pids = await self._backends(owner)
            if pids:
                psutil.Process(rng.choice(pids)).kill()
            return bool(pids)

    def _signal_postmaster(self, number: int) -> bool:
        running = read_postmaster(self.server.home)
        if not running or not running.ready:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(running.pid).send_signal(number)
        return True

    async def _hoard(self) -> bool:
        """Take every connection that is left, for a while."""
        taken: list[asyncpg.Connection] = []
        try:
            while True:
                taken.append(await connect(self.server.url()))
        except (*DRIVER_ERRORS, TimeoutError):
            await asyncio.sleep(1)
        finally:
            for one in taken:
                one.terminate()
        return bool(taken)

    @contextlib.asynccontextmanager
    async def _owner(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await connect(self.server.owner_url())
        try:
            yield connection
        finally:
            connection.terminate()

    async def _backends(self, owner: asyncpg.Connection, which: str = "") -> list[int]:
        rows = await owner.fetch(
            f"select pid from pg_stat_activity where usename = 'holdfast_app' {which} order by pid"
        )
        return [row["pid"] for row in rows]

    async def _terminate(self, owner: asyncpg.Connection, pids: list[int]) -> bool:
        await owner.execute("select pg_terminate_backend(pid) from unnest($1::int[]) pid", pids)
        return bool(pids)

    async def _until_answered(self) -> None:
        """Until the database takes connections and answers."""
        while True:
            with contextlib.suppress(*DRIVER_ERRORS):
                connection = await connect(self.server.url())
                try:
                    await connection.fetch("select holdfast.now()")
                    return
                finally:
                    connection.terminate()
            await asyncio.sleep(0.02)

    # The network

    async def _network(self, kind: str, rng: random.Random) -> bool:
        mode, seconds = {
            "connections reset": ("reset", 0.0),
            "replies dropped": ("mute", rng.uniform(0.05, 0.4)),
            "half open": ("half", self.fleet.lease_seconds * rng.uniform(0.5, 1.5)),
        }[kind]
        began = time.time()
        await self.fleet.tell_proxy(f"{mode} {seconds}")
        return self._say(kind, began)

    # Handlers

    async def _handlers(self, kind: str, rng: random.Random) -> bool:
        self._number += 1
        key = f"{self.history.name}-{self._number}"
        task: Task[..., Any] = app.spinning if kind == "endless loop" else app.deadly
        more = {
            "segfault": ("segfault", False), "exit": ("exit", False), "always deadly": ("segfault", True),
        }.get(kind, ())  # fmt: skip
        one = task.opts(key=key).submission(self._number, *more)
        began = time.time()
        call = self.history.invoke("submit", tasks=[described(one)], again=False)
        while True:
            with contextlib.suppress(DatabaseError):
                (made,) = await self.store.submit(one)
                break
            await asyncio.sleep(0.1)
        self.history.say("submit", "ok", call=call, ids=[made.id], created=[made.created])
        return self._say(kind, began, task=made.id)
