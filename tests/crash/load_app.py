"""Tasks of several shapes for a storm. Each execution is one line in a file, whoever dies in the next moment."""

import asyncio
import hashlib
import time

from holdfast import Holdfast, Transient, step
from holdfast.kernel.running import current
from tests.worker.app import note

hf = Holdfast()


def worked(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@hf.task
def quick(number: int) -> str:
    note(f"quick-{number}")
    return worked(number)


@hf.task
async def slow(number: int) -> str:
    note(f"slow-{number}")
    await asyncio.sleep(0.5 + number % 7 / 3)
    return worked(number)


@hf.task
def slow_sync(number: int) -> str:
    note(f"slow_sync-{number}")
    until = time.monotonic() + 0.3 + number % 5 / 4
    while time.monotonic() < until:
        time.sleep(0.01)
    return worked(number)


def part(number: int, index: int) -> str:
    note(f"part-{number}-{index}")
    return f"{number}/{index}"


@hf.task
async def stepped(number: int) -> str:
    note(f"stepped-{number}")
    for index in range(4):
        assert await step(f"part {index}", part, number, index) == f"{number}/{index}"
        await asyncio.sleep(0.05)
    return worked(number)


@hf.task(retries=2)
async def shaky(number: int) -> str:
    note(f"shaky-{number}")
    if current().attempt == 1:
        raise Transient("the first time always")
    return worked(number)


SHAPES = (quick, slow, slow_sync, stepped, shaky)
