"""The tasks that the measured workers run. Those that are counted leave a line in a file, which survives a kill."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from holdfast import Holdfast, step
from holdfast.batch import Ended, Input, Job, Provider, Result, Running
from holdfast.execution.context import current

hf = Holdfast()
ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if "LEDGER" in os.environ else -1


@hf.task
async def nothing(number: int) -> None:
    """As little as a task can do."""


@hf.task
async def tell_time() -> float:
    """When it began, by the clock that all processes of a machine share."""
    return time.monotonic()


def no_step(number: int) -> int:
    return number


@hf.task
async def five_steps(number: int) -> None:
    for index in range(5):
        await step(f"step {index}", no_step, index)


@hf.task
async def counted(seconds: float) -> None:
    """Runs so long, and says when it begins and when it has done its work."""
    write("begun")
    if seconds:
        await asyncio.sleep(seconds)
    write("done")


def write(event: str) -> None:
    os.write(ledger, f"{event} {current().task_id} {os.getpid()} {time.monotonic()}\n".encode())


class Busy(Provider):
    """A provider that is always at work, and answers at once."""

    name = "BENCH"

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        return job.token

    async def find(self, job: Job) -> str | None:
        return job.token

    async def poll(self, job: Job) -> Running | Ended:
        return Running("busy", again_in=timedelta(hours=1))

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        for one in inputs:
            yield Result(one.key)

    async def cancel(self, job: Job) -> None:
        """It is not stopped."""


hf.batch("transcription", Busy())
