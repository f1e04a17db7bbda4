"""Holdfast by its public API; the worker is `holdfast worker`."""

import asyncio
import os
import sys
from collections.abc import Sequence

from bench.peers.adaptors import contract
from holdfast import Holdfast, step

hf = Holdfast(contract.URL)
app = "bench.peers.adaptors.holdfast:hf"
fast = ["--slots", "2000"]
options = {
    "drain": fast,
    "idle": [],
    "steps": ["--slots", "500"],
    "default": [],
    "best": [*fast, "--lease", "1s"],
}


@hf.task
async def noop(number: int) -> None:
    page.ran(number)


@hf.task
async def nap(number: int) -> None:
    page.ran(number)
    await asyncio.sleep(contract.nap_seconds)


@hf.task
async def steps(number: int) -> None:
    page.ran(number)
    for name in contract.STEPS:
        await step(name, nothing)


async def nothing() -> None:
    """What a step does here."""


class Ours(contract.Adaptor):
    async def setup(self) -> None:
        await self.open()

    async def open(self) -> None:
        await hf.asubmit([])

    async def submit(self, task: str, number: int) -> None:
        await hf.tasks[task].astart(number)

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            await hf.asubmit([hf.tasks[task].submission(number) for number in some])

    async def work(self, mode: str) -> None:
        os.environ.update(HOLDFAST_URL=contract.URL, PEER_RUNS_HERE="yes")
        os.execv(sys.executable, [sys.executable, "-m", "holdfast", "worker", "--app", app, *options[mode]])  # noqa: S606


if os.environ.get("PEER_RUNS_HERE"):
    page = contract.tally()
    contract.wait_at_gate()
if __name__ == "__main__":
    contract.run(Ours())
