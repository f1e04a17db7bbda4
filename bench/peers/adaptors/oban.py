"""Oban for Python, without its paid part."""

import asyncio
from collections.abc import Sequence

import uvloop
from oban import Oban, job
from oban.schema import install

from bench.peers.adaptors import contract
from bench.peers.tally import Tally

QUEUE = "bench"
PAGES: list[Tally] = []
recovery = {"best": {"lifeline": {"interval": 1.0, "rescue_after": 3.0}}}


@job(queue=QUEUE)
async def noop(number: int) -> None:
    PAGES[0].ran(number)


@job(queue=QUEUE)
async def nap(number: int) -> None:
    PAGES[0].ran(number)
    await asyncio.sleep(contract.nap_seconds)


TASKS = {"noop": noop, "nap": nap}


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        await install(await Oban.create_pool(contract.URL))

    async def open(self) -> None:
        self.oban = Oban(pool=await Oban.create_pool(contract.URL))
        await self.oban.start()

    async def submit(self, task: str, number: int) -> None:
        await self.oban.enqueue(TASKS[task].new(number))

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            await self.oban.enqueue_many([TASKS[task].new(number) for number in some])

    async def work(self, mode: str) -> None:
        PAGES.append(contract.tally())
        contract.wait_at_gate()
        pool = await Oban.create_pool(contract.URL, max_size=10)
        async with Oban(pool=pool, queues={QUEUE: contract.BATCH}, **recovery.get(mode, {})):
            await contract.until_stopped(asyncio.create_task(contract.forever()))


if __name__ == "__main__":
    from bench.peers.adaptors.oban import Peer as Imported  # jobs are found by name, in the module they name

    uvloop.install()
    contract.run(Imported())
