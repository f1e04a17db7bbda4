"""Whoever cuts links: of workers, of servers, of the database; one way, both ways, quietly or not; and heals them.

Most cuts outlast a lease. Whoever is cut off holds nothing any more when it comes back, and must know it.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests.crash.faults import Faults
from tests.crash.history import History
from tests.crash.hosted import SERVERS, Hosted
from tests.crash.hosts import Host

GROUPS = {
    "workers": (
        (0.5, 1.5),
        ("worker cut off", "worker not heard", "worker told nothing", "worker unplugged", "worker without a way",
         "worker blinked"),
    ),
    "servers": (
        (1.0, 3.0),
        ("server cut off from database", "server told nothing by database", "server cut off from client",
         "client told nothing", "server killed"),
    ),
    "database": ((18.0, 24.0), ("database unplugged",)),
}  # fmt: skip
KINDS = tuple(kind for _, kinds in GROUPS.values() for kind in kinds)

worker_leases = 1.3, 1.9
database_leases = 2.2, 2.6
blink_leases = 0.2, 0.3
server_seconds = 2.0, 6.0


class Cuts(Faults):
    groups = GROUPS

    def __init__(self, hosted: Hosted, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self.hosted = hosted
        self.network = hosted.network

    async def _workers(self, kind: str, rng: random.Random) -> bool:
        busy = await self.hosted.busy()
        if not busy:
            return False
        name = rng.choice(busy)
        worker, peers = self.network[name], self.hosted.peers
        leases = blink_leases if kind == "worker blinked" else worker_leases
        seconds = rng.uniform(*leases) * self.hosted.lease_seconds
        match kind:
            case "worker not heard":
                cut = self._severed([worker], peers)
            case "worker told nothing":
                cut = self._severed(peers, [worker])
            case "worker unplugged":
                cut = self._unplugged(worker)
            case "worker without a way":
                cut = self._without_a_way(worker)
            case _:
                cut = self._severed([worker], peers, both=True)
        return await self._last(kind, seconds, cut, host=name, pids=self.hosted.runners(name))

    async def _servers(self, kind: str, rng: random.Random) -> bool:
        name = rng.choice(SERVERS)
        server, database, client = (self.network[one] for one in (name, "db", "client"))
        match kind:
            case "server cut off from database":
                cut = self._severed([server], [database], both=True)
            case "server told nothing by database":
                cut = self._severed([database], [server])
            case "server cut off from client":
                cut = self._severed([server], [client], both=True)
            case "client told nothing":
                cut = self._severed([server], [client])
            case _:
                process = self.hosted.servers[name]
                began = time.time()
                process.kill()
                await asyncio.to_thread(process.wait)
                return self._say(kind, began, host=name)
        return await self._last(kind, rng.uniform(*server_seconds), cut, host=name)

    async def _database(self, kind: str, rng: random.Random) -> bool:
        seconds = rng.uniform(*database_leases) * self.hosted.lease_seconds
        return await self._last(kind, seconds, self._unplugged(self.network["db"]), host="db")

    async def _last(self, kind: str, seconds: float, cut: contextlib.AbstractContextManager[None], **more: Any) -> bool:
        began = time.time()
        with cut:
            await asyncio.sleep(seconds)
        return self._say(kind, began, **more)

    @contextlib.contextmanager
    def _severed(self, senders: Sequence[Host], receivers: Sequence[Host], *, both: bool = False) -> Iterator[None]:
        pairs = [(sender, receiver) for sender in senders for receiver in receivers]
        if both:
            pairs += [(receiver, sender) for sender, receiver in pairs]
        for sender, receiver in pairs:
            self.network.sever(sender, receiver)
        try:
            yield
        finally:
            for sender, receiver in pairs:
                self.network.mend(sender, receiver)

    @contextlib.contextmanager
    def _unplugged(self, host: Host) -> Iterator[None]:
        self.network.unplug(host)
        try:
            yield
        finally:
            self.network.plug(host)

    @contextlib.contextmanager
    def _without_a_way(self, host: Host) -> Iterator[None]:
        self.network.lower_link(host)
        try:
            yield
        finally:
            self.network.raise_link(host)
