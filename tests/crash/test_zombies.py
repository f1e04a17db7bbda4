"""A hundred workers that come back after their lease has run out: each is refused, whatever it tries.

Twenty leases are held by processes that are really stopped while others take over; eighty by the hand of the test,
which keeps the old proofs. Only the lease's end is not waited for: the clock is moved.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Lease
from holdfast.testing import Clock, Database
from tests.crash.zombie import try_everything
from tests.promises.stage import submit, take

ROOT = Path(__file__).parents[2]
EVERYTHING = """
select md5(string_agg(line, '|' order by line)) from (
  select t::text as line from holdfast.task t union all select d::text from holdfast.task_done d
  union all select e::text from holdfast.event e union all select s::text from holdfast.step s
  union all select s::text from holdfast.step_event s union all select b::text from holdfast.beat b
  union all select i::text from holdfast.inbox i) everything
"""


async def overtake(store: Store, clock: Clock, n: int, *, complete: bool) -> list[Lease]:
    """Somebody else takes what has run out, and perhaps completes it."""
    clock.advance(seconds=61)
    assert (await store.sweep()).reaped == n
    leases = await take(store, n=n, worker="successor")
    assert len(leases) == n
    if complete:
        await finish(store, leases)
    return leases


async def finish(store: Store, leases: list[Lease]) -> None:
    assert {one.status for one in await store.settle(*((lease, Done("in time")) for lease in leases))} == {"ok"}


async def judge(
    store: Store, database: Database, answers: list[dict[str, str]], before: str, taken: list[Lease]
) -> None:
    """Nothing was accepted, nothing has changed, and the successor's word stands."""
    assert {answer for one in answers for answer in one.values()} <= {"lost", "stale"}
    assert database.ask_owner(EVERYTHING) == before
    if (await store.read(taken[0].task_id))["outcome"] is None:
        await finish(store, taken)
    ends = await store.outcomes([lease.task_id for lease in taken])
    assert [end and end.result for end in ends.values()] == ["in time"] * len(taken)
    assert await store.verify() == []


@pytest.mark.parametrize("complete", [True, False], ids=["completed", "held"])
async def test_eighty_old_proofs_are_worth_nothing_once_others_have_it(
    store: Store, database: Database, clock: Clock, complete: bool
) -> None:
    for _ in range(40):
        await submit(store)
    zombies = await take(store, n=40, worker="zombie")
    taken = await overtake(store, clock, 40, complete=complete)
    before = database.ask_owner(EVERYTHING)
    answers = [await try_everything(store, zombie) for zombie in zombies]
    assert len(answers) == 40
    await judge(store, database, answers, before, taken)


@contextlib.contextmanager
def start_zombie(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.zombie", url, "10"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as zombie:
        try:
            yield zombie
        finally:
            zombie.kill()  # one that is stopped would never end


@pytest.mark.parametrize("complete", [True, False], ids=["completed", "held"])
async def test_twenty_stopped_processes_come_back_in_vain(
    store: Store, database: Database, clock: Clock, complete: bool
) -> None:
    for _ in range(10):
        await submit(store)
    with start_zombie(database.url) as zombie:
        assert zombie.stdin
        assert zombie.stdout
        assert await asyncio.to_thread(zombie.stdout.readline) == "holding\n"
        zombie.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED((await asyncio.to_thread(os.waitpid, zombie.pid, os.WUNTRACED))[1])
        zombie.stdin.write("go on\n")
        zombie.stdin.flush()
        taken = await overtake(store, clock, 10, complete=complete)
        before = database.ask_owner(EVERYTHING)
        zombie.send_signal(signal.SIGCONT)
        answers = json.loads(await asyncio.to_thread(zombie.stdout.read))
    assert len(answers) == 10
    await judge(store, database, answers, before, taken)
