"""Tasks of every shape for a storm. Each execution says when it starts, what it does and when it ends.

A result names the lease under which it was made (`version` is that of the claim), so the accepted one can be traced to
the one execution that made it.
"""

import asyncio
import contextlib
import ctypes
import os
import time
from datetime import timedelta
from pathlib import Path

from holdfast import Holdfast, Transient, step
from holdfast.engine.lifecycle.model import Backoff, Lifecycle, final, work
from holdfast.execution.context import cancelled, current
from tests.crash.history import History

hf = Holdfast()

retry_seconds = 0.2
tick_seconds = 0.1
steps_of_each = 3
limited_at_once = 3

# Every move and every step writes into a wallet that has no key at all: what is done twice is seen twice.
WALLET = hf.lifecycle(
    Lifecycle(
        "wallet", start="OPEN", cancel="DROPPED", fail="BROKEN", queue="default", effects="storm_effects",
        backoff=Backoff(timedelta(seconds=0.05)),
        states=[
            work("OPEN", done="PAID"),
            final("PAID", "done"), final("BROKEN", "failed"), final("DROPPED", "cancelled"),
        ],
    )
)  # fmt: skip
WALLET_SQL = """
create table holdfast.storm_wallet (task_id uuid, what text, version int);
create function holdfast.storm_effects(moved holdfast.moved[]) returns void language plpgsql as $$
begin
  insert into holdfast.storm_wallet
  select m.task_id, coalesce(m.step, m.verb), case when m.verb = 'done' then (m.data ->> 'version')::int end
  from unnest(moved) m;
end $$;
"""

HISTORY = History(Path(os.environ["STORM_FOLDER"]), "handler") if "STORM_FOLDER" in os.environ else None


def say(kind: str, **more: object) -> None:
    lease = current()
    if HISTORY:
        HISTORY.say(
            "run", kind, task=str(lease.task_id), version=lease.version, attempt=lease.attempt,
            token=str(lease.token), name=lease.name, **more,
        )  # fmt: skip


def result(number: int) -> dict[str, int]:
    say("end")
    return {"number": number, "version": current().version}


async def ticking(seconds: float) -> None:
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        await asyncio.sleep(tick_seconds)
        say("tick")


@hf.task
async def quick(number: int) -> dict[str, int]:
    say("start")
    return result(number)


@hf.task
def plain(number: int) -> dict[str, int]:
    say("start")
    return result(number)


@hf.task
async def slow(number: int) -> dict[str, int]:
    say("start")
    await ticking(0.2 + number % 7 / 6)
    return result(number)


@hf.task
async def long(number: int) -> dict[str, int]:
    say("start")
    await ticking(6)
    return result(number)


@hf.task
def blocking(number: int) -> dict[str, int]:
    say("start")
    until = time.monotonic() + 0.2 + number % 5 / 5
    while time.monotonic() < until and not cancelled():
        time.sleep(tick_seconds)
        say("tick")
    return result(number)


def part(number: int, index: int) -> str:
    say("step", step=f"part {index}")
    return f"{number}/{index}"


async def parts(number: int, pause: float) -> None:
    for index in range(steps_of_each):
        kept = await step(f"part {index}", part, number, index)
        if kept != f"{number}/{index}":
            raise AssertionError(f"step {index} of {number} came back as {kept}")
        say("kept", step=f"part {index}")
        await asyncio.sleep(pause)


@hf.task
async def stepped(number: int) -> dict[str, int]:
    say("start")
    await parts(number, 0.1)
    return result(number)


@hf.task(lifecycle=WALLET)
async def charged(number: int) -> dict[str, int]:
    say("start")
    await parts(number, 0.05)
    return result(number)


@hf.task(retries=2)
async def shaky(number: int) -> dict[str, int]:
    say("start")
    if current().attempt == 1:
        raise Transient("the first time always", retry_after=timedelta(seconds=retry_seconds))
    return result(number)


@hf.task
async def join(number: int) -> dict[str, int]:
    say("start")
    return result(number)


@hf.task
async def limited(number: int) -> dict[str, int]:
    say("start")
    await ticking(0.05)
    return result(number)


@hf.task(queue="raw")
async def held(number: int) -> dict[str, int]:
    say("start")
    return result(number)


@hf.task(queue="raw")
async def foreign(number: int) -> dict[str, int]:
    say("start")
    return result(number)


@hf.task(timeout="1s", retries=0)
def spinning(number: int) -> dict[str, int]:
    """Never returns and never listens."""
    say("start")
    while True:
        with contextlib.suppress(BaseException):
            sum(range(1000))


@hf.task
def deadly(number: int, way: str, always: bool) -> dict[str, int]:
    """Brings its process down the first time, or each time."""
    say("start")
    if always or current().crashes == 0:
        match way:
            case "segfault":
                ctypes.string_at(0)
            case "exit":
                os._exit(0)
    return result(number)
