"""SAQ with its Postgres queue."""

import asyncio
from collections.abc import Sequence
from typing import Any

import uvloop
from saq import Job, Worker
from saq.queue.postgres import PostgresQueue

from bench.peers.adaptors import contract

concurrency = 50


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        await self.open()

    async def open(self) -> None:
        self.queue = PostgresQueue.from_url(contract.URL)
        await self.queue.connect()

    async def submit(self, task: str, number: int) -> None:
        # Without a heartbeat nobody notices that a worker is gone before the job's timeout; see `nap`.
        more = {"heartbeat": 3, "retries": 3} if contract.MODE == "best" else {}
        await self.queue.enqueue(Job(task, kwargs={"number": number}, **more))

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            await asyncio.gather(*(self.submit(task, number) for number in some))

    async def work(self, mode: str) -> None:
        page = contract.tally()

        async def noop(_: Any, *, number: int) -> None:
            page.ran(number)

        async def nap(context: Any, *, number: int) -> None:
            page.ran(number)
            await asyncio.sleep(contract.nap_seconds / 2)
            await context["job"].update()
            await asyncio.sleep(contract.nap_seconds / 2)

        contract.wait_at_gate()
        await self.open()
        timers = {"sweep": 1} if mode == "best" else {}
        functions = [("noop", noop), ("nap", nap)]
        worker = Worker(self.queue, functions, concurrency=concurrency, timers=timers)
        worker.SIGNALS = []
        await contract.until_stopped(asyncio.create_task(worker.start()))


if __name__ == "__main__":
    uvloop.install()
    contract.run(Peer())
