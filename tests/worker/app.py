"""The tasks that the workers of these tests run. Each execution is written to a file: the second witness."""

import asyncio
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast import Fatal, Holdfast, RateLimited, SchemaInvalid, Transient, progress, step, usage
from holdfast.engine.lifecycle.model import Backoff, Lifecycle, final, work
from holdfast.engine.task import Later, Moved, Partial
from holdfast.execution.context import cancelled, current

hf = Holdfast()

CATEGORIES = {"RateLimited": RateLimited, "Transient": Transient, "SchemaInvalid": SchemaInvalid, "Fatal": Fatal}


# Nothing waits for long here, and no sweep is needed for a retry.
QUICK = hf.lifecycle(
    Lifecycle(
        "quick",
        start="READY",
        cancel="CANCELED",
        fail="DEAD",
        queue="default",
        backoff=Backoff(timedelta(seconds=0.02)),
        states=[
            work("READY", done="DONE"),
            final("DONE", "done"),
            final("DEAD", "failed"),
            final("CANCELED", "cancelled"),
        ],
    )
)


def note(mark: str) -> None:
    """One line in the ledger, whole whoever else writes there."""
    descriptor = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{mark} {os.getpid()}\n".encode())
    os.close(descriptor)


def gate(name: str) -> Path:
    """A file for which tasks wait."""
    return Path(os.environ["LEDGER"]).with_name(f"gate-{name}")


async def until_open(name: str) -> None:
    while not gate(name).exists():  # noqa: ASYNC110 - it is another process that opens it
        await asyncio.sleep(0.02)


def wait_for(name: str) -> None:
    while not gate(name).exists():
        time.sleep(0.02)


@hf.task
def add(a: int, b: int) -> int:
    note(f"add-{a}")
    return a + b


@hf.task(name="add_async", queue="other")
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@hf.task
async def hold(name: str, mark: str) -> str:
    note(mark)
    await until_open(name)
    note(f"{mark}-done")
    return mark


@hf.task
def hold_sync(name: str, mark: str) -> str:
    note(mark)
    wait_for(name)
    return mark


@hf.task(lifecycle=QUICK)
def die(way: str) -> None:
    """End the process, in one of the ways in which user code does."""
    note(f"die-{way}")
    match way:
        case "exit":
            os._exit(7)
        case "exit_0":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "forked":  # somebody lives on who holds all that the process had open
            if os.fork() == 0:
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)


@hf.task
async def die_once(way: str, mark: str) -> str:
    note(f"once-{mark}")
    if current().crashes == 0:
        die(way)
    return mark


@hf.task
def quit_politely(way: str) -> None:
    if way == "sys.exit":
        sys.exit(3)
    raise KeyboardInterrupt


def backtrack() -> None:
    re.match(r"(a|a)*b", "a" * 40)  # hours, in one call of C, with the interpreter lock held


@hf.task
def stuck(mark: str) -> None:
    note(mark)
    backtrack()


@hf.task(timeout="500ms", retries=1, lifecycle=QUICK)
def stuck_too_long() -> None:
    note("stuck_too_long")
    backtrack()


@hf.task
def busy(seconds: float) -> int:
    """Hold the interpreter lock for so long, bit by bit out of reach of every other thread."""
    note("busy")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            count += 1
        return count
    finally:
        sys.setswitchinterval(before)


@hf.task
def parse(seconds: float) -> float:
    """Read JSON so large that one call of C takes longer than this. The same key again and again: little is kept."""
    note("parse")
    keys, took = 10_000_000, 0.0
    while took < seconds:
        text = '{"":0' + ',"":0' * keys + "}"
        began = time.monotonic()
        json.loads(text)
        keys, took = keys * 2, time.monotonic() - began
    return took


@hf.task
async def cooperative(mark: str) -> None:
    note(mark)
    try:
        await asyncio.sleep(600)
    finally:
        note(f"{mark}-finally")


@hf.task
def cooperative_sync(mark: str) -> None:
    note(mark)
    try:
        while not cancelled():
            time.sleep(0.01)
        time.sleep(0.01)
    except asyncio.CancelledError:
        note(f"{mark}-cancelled")
        raise
    finally:
        note(f"{mark}-finally")


@hf.task
async def stubborn(mark: str) -> None:
    note(mark)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            note(f"{mark}-swallowed")


@hf.task(timeout="200ms", retries=1, lifecycle=QUICK)
async def too_long() -> None:
    note("too_long")
    await asyncio.sleep(600)


@hf.task(timeout="200ms", retries=0)
def too_long_sync() -> None:
    note("too_long_sync")
    while True:
        time.sleep(0.01)


@hf.task(retries=4, errors={ZeroDivisionError: Transient}, lifecycle=QUICK)
def fail(kind: str, times: int) -> int:
    """Fail so many times in this way."""
    note(f"fail-{kind}")
    done = Path(os.environ["LEDGER"]).read_text().count(f"fail-{kind} ")
    if done > times:
        return done
    match kind:
        case "mapped":
            return 1 // 0
        case "unmapped":
            raise RuntimeError("nobody expected it")
        case "returned":
            return Transient("later perhaps", retry_after=timedelta(seconds=0.01))  # type: ignore[return-value]
        case "self":
            raise asyncio.CancelledError
    raise CATEGORIES[kind]("no", retry_after=timedelta(seconds=0.01))


def write_down(mark: str) -> str:
    note(f"step-{mark}")
    usage("tiny", tokens_in=10, cost_cents=1)
    return mark


@hf.task
async def stepped(way: str) -> list[str]:
    first = await step("one", write_down, "one")
    if current().crashes == 0:
        die(way)
    second = await step("two", write_down, "two")
    both = await step.map("each", write_down, ["x", "y", "z"])
    usage("outside", tokens_in=1)
    return [first, second, *both]


@hf.task
def stepped_sync(way: str) -> list[str]:
    first = step.sync("one", write_down, "one")
    if current().crashes == 0:
        die(way)
    return [first, step.sync("two", write_down, "two")]


@hf.task
async def quits_in_a_step() -> None:
    async def leave() -> None:
        sys.exit(4)

    await asyncio.gather(step("leave", leave), step("stay", write_down, "stay"))


@hf.task
async def bad_step() -> float:
    return await step("nan", float, "nan")


@hf.task
async def shows(name: str) -> None:
    progress(3, 7, note="halfway")
    await until_open(name)


@hf.task
async def shows_nonsense(name: str) -> str:
    while not gate(name).exists():
        progress(float("nan"))
        progress(object())  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
    return "kept its lease"


@hf.task
def give(what: str) -> Any:
    match what:
        case "object":
            return threading.Lock()
        case "large":
            return "x" * 3_000_000
        case "nan":
            return [1.0, float("nan")]
        case "nul":
            return "a\0b"
        case "half":
            return "\ud800"
        case "loop":
            endless: list[Any] = []
            endless.append(endless)
            return endless
    return what


TICKET = hf.lifecycle(
    Lifecycle(
        "ticket", start="OPEN", cancel="DROPPED", fail="BROKEN",
        states=[
            work("OPEN", to=["CHECKED", "HALF"]), work("CHECKED", to=["CLOSED"]),
            final("CLOSED", "done"), final("HALF", "partial"), final("BROKEN", "failed"), final("DROPPED", "cancelled"),
        ],
    )
)  # fmt: skip


@hf.task(lifecycle=TICKET)
def ticket(way: str) -> Any:
    """Through a lifecycle of its own, in some way."""
    state = current().state
    note(f"ticket-{way}-{state}")
    if way == "later" and Path(os.environ["LEDGER"]).read_text().count("ticket-later-OPEN ") == 1:
        return Later(timedelta(seconds=0.01))
    match way, state:
        case (("moved" | "later"), "OPEN"):
            return Moved("CHECKED", {"looked": True})
        case _, "CHECKED":
            return Moved("CLOSED", {"all": "well"})
        case "partial", _:
            return Moved("HALF", {"half": 1})
        case "nowhere", _:
            return Moved("NOWHERE")
        case "forbidden", _:
            return Moved("CLOSED")
    return Partial({"some": 1})


@hf.task
async def note_slowly(mark: str) -> str:
    note(mark)
    await asyncio.sleep(0.3)
    return mark


@hf.task
def calls_others(count: int) -> int:
    """A task that starts tasks and waits for a program."""
    subprocess.run(["true"], check=True)
    return len([add.start(n, 1) for n in range(count)])


@hf.task
def sleeps(mark: str) -> None:
    """Deep in C, where no exception reaches it."""
    note(mark)
    time.sleep(600)


@hf.task(timeout="2s")
async def outlasts(mark: str) -> str:
    """It ends in time, though its result may have to wait."""
    note(mark)
    await asyncio.sleep(0.2)
    return mark
