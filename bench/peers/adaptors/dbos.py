"""DBOS: workflows on a queue that the database keeps; submitted by its client, many in one transaction."""

import asyncio
import os
from collections.abc import Sequence

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.peers.adaptors import contract

QUEUE = "bench"
polling = {"drain": 0.1, "idle": 0.05, "steps": 0.2, "default": 1.0, "best": 0.1}
at_once = {"drain": 1000, "idle": 1000, "steps": 200, "default": 1000, "best": 1000}
pool = {"steps": 50}


async def launch(mode: str) -> None:
    # With the same executor id it is the same worker, restarted; several workers must have different ones.
    executor = "bench" if mode == "best" else f"bench-{os.environ.get('PEER_WORKER', '')}"
    config = {"name": "bench", "system_database_url": contract.URL, "application_version": "1", "executor_id": executor,
              "log_level": "WARNING", "sys_db_pool_size": pool.get(mode, 20)}  # fmt: skip
    DBOS(config=config)
    DBOS.launch()
    await DBOS.register_queue_async(QUEUE, worker_concurrency=at_once[mode], polling_interval_sec=polling[mode])


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        await launch("drain")

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=contract.URL, application_name="bench")
        driver = contract.URL.replace("postgresql://", "postgresql+psycopg://")
        self.engine = sqlalchemy.create_engine(driver)

    async def submit(self, task: str, number: int) -> None:
        await self.client.enqueue_async({"workflow_name": task, "queue_name": QUEUE, "app_version": "1"}, number)

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        options = {"workflow_name": task, "queue_name": QUEUE, "app_version": "1"}
        for some in contract.in_lists(numbers):
            with self.engine.begin() as connection:
                for number in some:
                    self.client.enqueue_in_transaction(connection, options, number)

    async def work(self, mode: str) -> None:
        page = contract.tally()

        @DBOS.workflow(name="noop")
        async def noop(number: int) -> None:
            page.ran(number)

        @DBOS.workflow(name="nap")
        async def nap(number: int) -> None:
            page.ran(number)
            await asyncio.sleep(contract.nap_seconds)

        @DBOS.workflow(name="steps")
        async def steps(number: int) -> None:
            page.ran(number)
            for _ in contract.STEPS:
                await nothing()

        @DBOS.step()
        async def nothing() -> None:
            """What a step does here."""

        contract.wait_at_gate()
        await launch(mode)
        await contract.until_stopped(asyncio.create_task(contract.forever()))


if __name__ == "__main__":
    contract.run(Peer())
