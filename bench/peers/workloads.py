"""What is measured, the same way for all.

drain    The tasks are in the database and the workers have imported everything when their gates open. The time runs
         from the first handler's first line to the moment the tables hold no unfinished task; they are asked every
         5 ms, and only after handlers have run as often as there are tasks. Starting up is not in it
idle     One worker with nothing to do; a task is submitted, and the next one 10 ms after its handler began
steps    A drain of tasks with five checkpointed steps that do nothing
million  A drain beside a million finished tasks, put there by SQL once for all rounds
snapshot A drain while a transaction that began before it holds its snapshot
default  20 tasks of 2 s; when all have begun, the worker and its children are killed (kill -9) and a second worker is
best     let go. The time runs from the kill until nothing is unfinished, and includes the 2 s of the second run
runner   The same, but only the process that runs the handlers is killed, and no second worker is started
killed   A drain whose worker is killed when a quarter of the handlers has run; a second one does the rest. The figure
         is how many handlers ran in excess
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import psutil
import psycopg

from bench.peers.frame import Failure, Ground, Stand, stand, wait_for
from bench.peers.registry import Peer

Raw = dict[str, Any]
Measured = dict[str, Raw]
"""Figures by metric. One workload may give more than one: who fills before a drain has measured a bulk submit."""

submit_tasks = 500
idle_tasks = 300
naps = 20
idle_seconds = 10.0
drain_seconds = 180.0
recovery_seconds = 150.0


class Run:
    """One run of the comparison: the server, what stays over its rounds, and how many tasks."""

    def __init__(self, ground: Ground, tasks: int | None = None) -> None:
        self.ground = ground
        self._tasks = tasks
        self._heavy: dict[str, str] = {}

    def tasks(self, peer: Peer) -> int:
        return min(peer.tasks, self._tasks) if self._tasks else peer.tasks

    def do(self, workload: str, peer: Peer) -> Measured:
        """Raises Failure."""
        work = WORKLOADS[workload]
        if workload == "million":
            with stand(peer, self._heavy_database(peer)) as one:
                return work(self, one)
        with self.ground.place(peer) as url, stand(peer, url, MODES.get(workload, "drain")) as one:
            return work(self, one)

    def _heavy_database(self, peer: Peer) -> str:
        """A database with a million finished tasks, filled when it is first asked for."""
        if peer.name not in self._heavy:
            name = f"heavy_{peer.name}"
            self.ground.run(f"create database {name} template {self.ground.template(peer)}")
            url = self.ground.server.owner_url(name)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(peer.finished.encode())
                connection.execute("vacuum analyze")
                connection.execute("checkpoint")
            self._heavy[peer.name] = url
        return self._heavy[peer.name]


def submit(run: Run, one: Stand) -> Measured:
    return {"submit": one.tell("submit", "noop", min(submit_tasks, run.tasks(one.peer)))}


def drain(run: Run, one: Stand, metric: str, workers: int) -> Measured:
    tasks = run.tasks(one.peer)
    filled = one.tell("bulk", "noop", tasks)
    return {"bulk": filled, metric: drained(one, tasks, workers)}


def drained(one: Stand, tasks: int, workers: int = 1) -> Raw:
    for worker in [one.start_worker() for _ in range(workers)]:
        worker.let_go()
    end = one.wait_until_finished(tasks, drain_seconds)
    return {"tasks": tasks, "seconds": end - one.tallies.first(), "runs": one.tallies.count()}


def idle(_: Run, one: Stand) -> Measured:
    one.start_worker().let_go()
    taken = one.tell("idle", idle_tasks, idle_seconds)["milliseconds"]
    assert isinstance(taken, list)  # noqa: S101
    hundredths = statistics.quantiles(taken, n=100)
    return {"idle": {"tasks": len(taken), "p50": statistics.median(taken), "p99": hundredths[98]}}


def steps(run: Run, one: Stand) -> Measured:
    tasks = min(one.peer.step_tasks, run.tasks(one.peer))
    one.tell("bulk", "steps", tasks)
    return {"steps": drained(one, tasks)}


def million(run: Run, one: Stand) -> Measured:
    return {"million": drain(run, one, "drain", 1)["drain"]}


def snapshot(run: Run, one: Stand) -> Measured:
    with psycopg.connect(one.url) as connection:
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        return {"snapshot": drain(run, one, "drain", 1)["drain"]}


def recover(_: Run, one: Stand) -> Measured:
    one.tell("bulk", "nap", naps)
    first, second = one.start_worker(), one.start_worker()
    first.let_go()
    wait_for(lambda: one.tallies.count() >= naps, 30, "all naps have begun")
    first.kill()
    killed = time.time()
    second.let_go()
    end = one.wait_until_finished(naps, recovery_seconds)
    return {one.mode: {"tasks": naps, "seconds": end - killed, "runs": one.tallies.count()}}


def lose_runner(_: Run, one: Stand) -> Measured:
    one.tell("bulk", "nap", naps)
    one.start_worker().let_go()
    wait_for(lambda: one.tallies.count() >= naps, 30, "all naps have begun")
    killed = time.time()
    for number in one.tallies.processes():
        psutil.Process(number).kill()
    end = one.wait_until_finished(naps, recovery_seconds)
    return {"runner": {"tasks": naps, "seconds": end - killed, "runs": one.tallies.count()}}


def killed_in_the_middle(run: Run, one: Stand) -> Measured:
    tasks = run.tasks(one.peer)
    one.tell("bulk", "noop", tasks)
    first, second = one.start_worker(), one.start_worker()
    first.let_go()
    wait_for(lambda: one.tallies.count() >= tasks // 4, drain_seconds, "a quarter has run")
    first.kill()
    if one.unfinished(tasks) == 0:
        raise Failure("it was finished before it could be killed")
    second.let_go()
    one.wait_until_finished(tasks, drain_seconds)
    runs = one.tallies.count()
    return {"killed": {"tasks": tasks, "runs": runs, "extra": runs - tasks}}


WORKLOADS: dict[str, Callable[[Run, Stand], Measured]] = {
    "submit": submit,
    "drain1": lambda run, one: drain(run, one, "drain1", 1),
    "drain2": lambda run, one: drain(run, one, "drain2", 2),
    "idle": idle,
    "steps": steps,
    "million": million,
    "snapshot": snapshot,
    "killed": killed_in_the_middle,
    "best": recover,
    "runner": lose_runner,
    "default": recover,
}
MODES = {"idle": "idle", "steps": "steps", "killed": "best", "best": "best", "runner": "default", "default": "default"}
"""How workers are to be set for a workload; for all others, for a drain."""
AT_ONCE = {"default": 12, "best": 4}
"""How many peers do it at the same time, where they mostly wait; everything else is done one by one."""
FIRST_ROUND_ONLY = frozenset({"default", "best", "killed"})
"""What takes minutes because leases have to pass. Who asks for it by name gets it in every round."""
