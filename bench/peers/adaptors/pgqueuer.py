"""PgQueuer: one asyncpg connection, as its own benchmark has it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.adaptors import contract

recovery = {
    "default": {},
    "best": {"heartbeat_timeout": timedelta(seconds=3), "dequeue_timeout": timedelta(seconds=1)},
}


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        await self.open()
        await self.queries.install()

    async def open(self) -> None:
        self.queries = Queries(AsyncpgDriver(await asyncpg.connect(contract.URL)))

    async def submit(self, task: str, number: int) -> None:
        await self.queries.enqueue(task, str(number).encode())

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            payloads = [str(number).encode() for number in some]
            await self.queries.enqueue([task] * len(some), payloads, [0] * len(some))

    async def work(self, mode: str) -> None:
        page = contract.tally()
        contract.wait_at_gate()
        queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(contract.URL))

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            page.ran(int(job.payload))

        @queuer.entrypoint("nap")
        async def nap(job: Job) -> None:
            page.ran(int(job.payload))
            await asyncio.sleep(contract.nap_seconds)

        running = queuer.run(batch_size=contract.BATCH, **recovery.get(mode, {}))
        await contract.until_stopped(asyncio.create_task(running))


if __name__ == "__main__":
    uvloop.install()
    contract.run(Peer())
