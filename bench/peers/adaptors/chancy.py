"""Chancy: the async executor."""

import asyncio
from collections.abc import Sequence

import uvloop
from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.leadership import Leadership
from chancy.plugins.recovery import Recovery

from bench.peers.adaptors import contract
from bench.peers.tally import Tally

QUEUE = Queue("bench", concurrency=1000, executor=Chancy.Executor.Async, eager_polling=True)
PAGES: list[Tally] = []


async def noop(number: int) -> None:
    PAGES[0].ran(number)


async def nap(number: int) -> None:
    PAGES[0].ran(number)
    await asyncio.sleep(contract.nap_seconds)


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        await self.open()
        await self.chancy.migrate()
        await self.chancy.declare(QUEUE)

    async def open(self) -> None:
        plugins = []
        if contract.MODE == "best":
            plugins = [Recovery(poll_interval=1), Leadership(poll_interval=1, timeout=3)]
        self.chancy = Chancy(contract.URL, plugins=plugins)
        await self.chancy.__aenter__()

    async def submit(self, task: str, number: int) -> None:
        await self.chancy.push(job(task, number))

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        async for _ in self.chancy.push_many([job(task, number) for number in numbers]):
            pass

    async def work(self, mode: str) -> None:
        PAGES.append(contract.tally())
        contract.wait_at_gate()
        await self.open()
        beats = {"heartbeat_poll_interval": 1, "heartbeat_timeout": 3} if mode == "best" else {}
        async with Worker(self.chancy, register_signal_handlers=False, **beats) as worker:
            await contract.until_stopped(asyncio.create_task(worker.wait_for_shutdown()))


def job(task: str, number: int) -> Job:
    return Job(func=f"bench.peers.adaptors.chancy.{task}", queue=QUEUE.name, kwargs={"number": number})


if __name__ == "__main__":
    from bench.peers.adaptors.chancy import Peer as Imported  # jobs are found by name, in the module they name

    uvloop.install()
    contract.run(Imported())
