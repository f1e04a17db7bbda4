"""How many tasks at once, in how large lists, in how many calls: drains by one worker, varied one at a time.

What `holdfast.worker.config` has by default is chosen by these; slots are the user's to choose, by what a task needs.
"""

from bench.app import nothing
from bench.frame import Bench
from bench.worker import DEFAULTS, staffed
from holdfast.engine.task import Submission

PLAN = {"slots": 1000, "batch": DEFAULTS.batch, "calls": DEFAULTS.calls}
VARIED = {"slots": (20, 100, 500), "batch": (50, 100, 200, 1000), "calls": (1, 3, 4)}


async def measure(bench: Bench) -> None:
    tasks = [nothing.submission(number) for number in range(bench.size(10_000))]
    for _ in range(bench.rounds):
        await note(bench, tasks, PLAN, None)
        for name, sizes in VARIED.items():
            for size in sizes:
                await note(bench, tasks, {**PLAN, name: size}, named(PLAN))


async def note(bench: Bench, tasks: list[Submission], plan: dict[str, int], beside: str | None) -> None:
    async with staffed(bench, 1, **plan) as clocked:
        await clocked.drain(bench, named(plan), tasks, beside)


def named(plan: dict[str, int]) -> str:
    return f"{plan['slots']} slots, lists of {plan['batch']}, {plan['calls']} calls"
