"""What a kill -9 costs: the time until others have taken up what was lost, and what was run more than once.

Recovery: 20 tasks of 2 s with default settings and a second worker alive; killed is the worker that holds more of
them, whole (supervisor and runner) or its runner alone. `taken up` ends when the last lost task has begun again,
`ended` when all 20 have ended. Extra executions: two workers drain, the busier is killed whole in the middle; counted
are the executions beyond one for each task, those that were begun and those that had done all their work.
"""

import time
from collections import Counter
from dataclasses import dataclass

from tests.eventually import eventually
from tests.worker.crew import Crew, Worker

from bench.app import counted
from bench.frame import Bench
from bench.worker import SIZED, asleep, crew_on, emptied, fill, hire, patience_seconds
from holdfast.postgres.connections import open_connection

LONG, LONG_SECONDS = 20, 2.0


@dataclass(frozen=True)
class Line:
    """What an execution wrote down."""

    event: str
    task: str
    process: int
    at: float


async def measure(bench: Bench) -> None:
    for _ in range(bench.rounds):
        await note_recovery(bench, "worker killed", supervisor=True)
        await note_recovery(bench, "runner killed", supervisor=False)
        await note_extra(bench, "no-op handlers", bench.size(20_000), 0.0, SIZED)
        await note_extra(bench, "handlers of 10 ms", bench.size(10_000), 0.01, SIZED)
        await note_extra(bench, "handlers of 10 ms and default settings", bench.size(4_000), 0.01, {})


async def note_recovery(bench: Bench, name: str, *, supervisor: bool) -> None:
    async with bench.database("crashes") as place, crew_on(place) as crew, open_connection(place.owner_url) as owner:
        for _ in range(2):
            hire(crew)
        await asleep(owner, 2)
        await fill(place, [counted.submission(LONG_SECONDS)] * LONG)
        await wait_for(crew, "begun", LONG)
        victim = busiest(crew)
        lost = begun_by(crew, victim)
        killed = time.monotonic()
        victim.kill(supervisor=supervisor)
        await emptied(owner)
        ended = time.monotonic()
        again = max(line.at for line in lines(crew, "begun") if line.task in lost)
    bench.note(f"{name}, taken up", again - killed, "s")
    bench.note(f"{name}, ended", ended - killed, "s")


async def note_extra(bench: Bench, name: str, tasks: int, seconds: float, plan: dict[str, int]) -> None:
    async with bench.database("crashes") as place, crew_on(place) as crew, open_connection(place.owner_url) as owner:
        await crew.store.pause_queue("default", "bench")
        await fill(place, [counted.submission(seconds)] * tasks)
        for _ in range(2):
            hire(crew, **plan)
        await asleep(owner, 2)
        await crew.store.resume_queue("default")
        await wait_for(crew, "done", tasks // 2)
        busiest(crew).kill()
        await emptied(owner)
        for event in ("begun", "done"):
            times = Counter(line.task for line in lines(crew, event))
            bench.note(f"extra executions, {name}, {event}", sum(times.values()) - tasks, "tasks")


def lines(crew: Crew, event: str) -> list[Line]:
    """What was written so far; of a line that is just being written, nothing."""
    whole = crew.ledger.read_text().rpartition("\n")[0]
    parts = [line.split() for line in whole.splitlines()]
    return [Line(event, task, int(process), float(at)) for event, task, process, at in parts if event == event]


def begun_by(crew: Crew, worker: Worker) -> set[str]:
    runners = {runner.pid for runner in worker.runners()}
    return {line.task for line in lines(crew, "begun") if line.process in runners}


def busiest(crew: Crew) -> Worker:
    return max(crew.workers, key=lambda worker: len(begun_by(crew, worker)))


async def wait_for(crew: Crew, event: str, number: int) -> None:
    """Until it was written so often."""

    async def written() -> bool:
        return crew.ledger.read_bytes().count(f"{event} ".encode()) >= number

    await eventually(written, f"{number} x {event!r}", patience_seconds)
