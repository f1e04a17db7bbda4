"""Procrastinate: the async worker and connector."""

import asyncio
from collections.abc import Sequence

import uvloop
from procrastinate import App, PsycopgConnector

from bench.peers.adaptors import contract

concurrency = 20


class Peer(contract.Adaptor):
    def __init__(self) -> None:
        self.app = App(connector=PsycopgConnector(conninfo=contract.URL, min_size=4, max_size=concurrency))

    async def setup(self) -> None:
        await self.open()
        await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def submit(self, task: str, number: int) -> None:
        await self.app.configure_task(task).defer_async(number=number)

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        deferrer = self.app.configure_task(task)
        for some in contract.in_lists(numbers):
            await deferrer.batch_defer_async(*({"number": number} for number in some))

    async def work(self, mode: str) -> None:
        page = contract.tally()

        @self.app.task(name="noop")
        async def noop(number: int) -> None:
            page.ran(number)

        @self.app.task(name="nap")
        async def nap(number: int) -> None:
            page.ran(number)
            await asyncio.sleep(contract.nap_seconds)

        contract.wait_at_gate()
        await self.open()
        beats = {"update_heartbeat_interval": 1.0, "stalled_worker_timeout": 3.0} if mode == "best" else {}
        worker = self.app.run_worker_async(concurrency=concurrency, install_signal_handlers=False, **beats)
        running = asyncio.create_task(worker)
        if mode == "best":
            running = asyncio.create_task(self.beside_rescue(running))
        await contract.until_stopped(running)

    async def beside_rescue(self, worker: "asyncio.Task[None]") -> None:
        """The loop that its documentation tells users to write: jobs of workers that went silent are tried again."""
        while not worker.done():
            for job in await self.app.job_manager.get_stalled_jobs(seconds_since_heartbeat=3):
                await self.app.job_manager.retry_job(job)
            await asyncio.sleep(1)
        worker.result()


if __name__ == "__main__":
    uvloop.install()
    contract.run(Peer())
