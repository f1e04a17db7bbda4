"""Absurd: the async SDK. Its schema comes with absurdctl; for many tasks its SQL function is called in a pipeline."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import psycopg
import uvloop
from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.adaptors import contract

QUEUE = "bench"
SPAWN = "select absurd.spawn_task(%s, %s, %s, %s)"
concurrency = {"drain": 500, "steps": 100, "idle": 500, "default": 500, "best": 500}


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        async with await psycopg.AsyncConnection.connect(contract.URL, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
        await self.open()
        await self.app.create_queue(QUEUE)

    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(contract.URL, autocommit=True)
        self.app = AsyncAbsurd(self.connection, queue_name=QUEUE)

    async def submit(self, task: str, number: int) -> None:
        await self.app.spawn(task, {"number": number}, queue=QUEUE)

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            async with self.connection.pipeline(), self.connection.transaction():
                for number in some:
                    await self.connection.execute(SPAWN, (QUEUE, task, json.dumps({"number": number}), "{}"))

    async def work(self, mode: str) -> None:
        page = contract.tally()
        contract.wait_at_gate()
        await self.open()

        @self.app.register_task("noop")
        async def noop(given: Any, context: AsyncTaskContext) -> None:
            page.ran(given["number"])

        @self.app.register_task("nap")
        async def nap(given: Any, context: AsyncTaskContext) -> None:
            page.ran(given["number"])
            await asyncio.sleep(contract.nap_seconds)

        @self.app.register_task("steps")
        async def steps(given: Any, context: AsyncTaskContext) -> None:
            page.ran(given["number"])
            for name in contract.STEPS:
                await context.step(name, nothing)

        lease = {"claim_timeout": 5} if mode == "best" else {}
        running = self.app.start_worker(concurrency=concurrency[mode], **lease)
        await contract.until_stopped(asyncio.create_task(running))


async def nothing() -> None:
    """What a step does here."""


if __name__ == "__main__":
    uvloop.install()
    contract.run(Peer())
