"""Right and wrong uses, for the type checkers alone. A line marked `# wrong` must be rejected, and no other."""

from collections.abc import Awaitable
from typing import assert_type

from holdfast import Handle, Holdfast, Transient, step

hf = Holdfast()


@hf.task
def plain(a: int, *, b: str = "") -> float:
    return a + len(b)


@hf.task(retries=3, queue="mail", errors={OSError: Transient})
async def asynchronous(a: int, b: str) -> list[str]:
    return [b] * a


def half(n: int) -> float:
    return n / 2


async def name(n: int) -> str:
    return str(n)


async def right() -> None:
    assert_type(plain(1, b="x"), float)
    assert_type(await asynchronous(1, "x"), list[str])
    assert_type(plain.start(1), Handle[float])
    assert_type(plain.start(1, b="x").result(), float)
    assert_type(asynchronous.start(1, "x").result(timeout=1), list[str])
    assert_type(await asynchronous.astart(1, b="x"), Handle[list[str]])
    assert_type(await (await asynchronous.astart(1, "x")), list[str])
    assert_type(await (await plain.astart(1)).aresult(), float)
    assert_type(plain.opts(key="k", delay="5m", priority=9, after=[plain.start(1)]).start(1), Handle[float])
    assert_type(await asynchronous.opts(tags=["a"]).astart(1, "x"), Handle[list[str]])
    assert_type(await step("half", half, 1), float)
    assert_type(await step("name", name, n=1), str)
    assert_type(await step("task", asynchronous, 1, "x"), list[str])
    assert_type(step.sync("half", half, 1), float)
    assert_type(await step.map("halves", half, [1, 2]), list[float])
    assert_type(await step.map("names", name, [1, 2]), list[str])


def takes(text: str) -> None: ...


async def wrong() -> None:
    plain("1")  # wrong
    plain(1, "x")  # wrong
    plain.start("1")  # wrong
    plain.start()  # wrong
    plain.start(1, c=2)  # wrong
    await plain.astart(None)  # wrong
    await asynchronous.astart(1)  # wrong
    asynchronous.start(1, 2)  # wrong
    plain.opts(key="k").start("1")  # wrong
    plain.opts(key=1)  # wrong
    plain.opts(until="5m")  # wrong
    plain.opts(on_failure="explode")  # wrong
    await asynchronous.opts().astart(1, 2)  # wrong
    takes(plain.start(1).result())  # wrong
    takes(await asynchronous.astart(1, "x"))  # wrong
    takes(asynchronous(1, "x"))  # wrong
    await step("half", half, "1")  # wrong
    await step("name", name)  # wrong
    await step(half, 1)  # wrong
    takes(await step("half", half, 1))  # wrong
    step.sync("half", half, n="1")  # wrong
    await step.map("halves", half, ["1"])  # wrong
    hf.task(retries="3")  # wrong
    hf.task(errors={OSError: OSError})  # wrong


def is_awaitable(handle: Handle[int]) -> Awaitable[int]:
    return handle
