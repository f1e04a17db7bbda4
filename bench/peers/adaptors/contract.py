"""What every adaptor can do, by the same commands. Only the standard library: it runs in every environment.

    setup               make the schema
    submit TASK N       N tasks, one at a time; says how long it took
    bulk TASK N         N tasks in the fastest way that the peer documents; says how long it took
    idle N SECONDS      N tasks, each after the handler of the last one began; says how long each took from before the
                        call to the handler's first line. Stops after so many seconds
    work MODE           be a worker until SIGTERM. MODE: drain, idle, steps, default or best (how it recovers)

Tasks are called `noop`, `nap` (2 s) and `steps` (five checkpointed steps that do nothing). Connections are open before
a clock runs. A worker imports everything, reports itself by its tally, and waits at the gate for the frame.
"""

import asyncio
import json
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from bench.peers.tally import Tallies, Tally

URL = os.environ.get("PEER_URL", "")
FOLDER = Path(os.environ.get("PEER_FOLDER", "."))
MODE = os.environ.get("PEER_MODE", "")
BATCH = int(os.environ.get("PEER_BATCH", "500"))
STEPS = ("one", "two", "three", "four", "five")

nap_seconds = 2.0
pause_seconds = 0.01
warm_up_tasks = 10
patience_seconds = 60.0


class Adaptor(ABC):
    """A peer. `open` comes first, but for `work`, which opens what it needs."""

    @abstractmethod
    async def setup(self) -> None: ...

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def submit(self, task: str, number: int) -> None: ...

    @abstractmethod
    async def submit_many(self, task: str, numbers: Sequence[int]) -> None: ...

    @abstractmethod
    async def work(self, mode: str) -> None: ...


def tally() -> Tally:
    """This process's page; who makes it has imported what it needs."""
    return Tally(FOLDER)


def wait_at_gate() -> None:
    """Until the frame lets the workers go."""
    gate = Path(os.environ["PEER_GATE"])
    while not gate.exists():
        time.sleep(0.002)


def stop_event() -> asyncio.Event:
    """Set at SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


async def forever() -> None:
    await asyncio.Event().wait()


async def until_stopped(work: asyncio.Task[None]) -> None:
    """Let it run until SIGTERM. What it raises before is raised."""
    stopping = asyncio.create_task(stop_event().wait())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    os._exit(0)


def run(adaptor: Adaptor) -> None:
    """Do what the command line says."""
    command, *arguments = sys.argv[1:]
    if command == "work":
        asyncio.run(adaptor.work(arguments[0]))
        return
    answer = asyncio.run(obey(adaptor, command, arguments))
    print(json.dumps(answer), flush=True)
    os._exit(0)  # no peer's threads keep us


async def obey(adaptor: Adaptor, command: str, arguments: Sequence[str]) -> dict[str, object]:
    if command == "setup":
        await adaptor.setup()
        return {}
    await adaptor.open()
    if command == "idle":
        return {"milliseconds": await latencies(adaptor, int(arguments[0]), float(arguments[1]))}
    task, count = arguments[0], int(arguments[1])
    begun = time.perf_counter()
    if command == "bulk":
        await adaptor.submit_many(task, range(count))
    else:
        for number in range(count):
            await adaptor.submit(task, number)
    return {"tasks": count, "seconds": time.perf_counter() - begun}


async def latencies(adaptor: Adaptor, count: int, limit: float) -> list[float]:
    """Milliseconds from before the call until the handler began. The first few warm up and do not count."""
    tallies = Tallies(FOLDER)
    taken: list[float] = []
    deadline = float("inf")
    for number in range(count + warm_up_tasks):
        if number == warm_up_tasks:
            deadline = time.monotonic() + limit
        begun = time.time()
        await adaptor.submit("noop", number)
        while not (handled := tallies.began(number)):
            if time.time() - begun > patience_seconds:
                raise TimeoutError(f"task {number} never began")
            await asyncio.sleep(0.0002)
        if number >= warm_up_tasks:
            taken.append((handled - begun) * 1000)
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(pause_seconds)
    return taken


def in_lists(numbers: Sequence[int], most: int = 1000) -> list[Sequence[int]]:
    return [numbers[start : start + most] for start in range(0, len(numbers), most)]
