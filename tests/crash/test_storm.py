"""A minute of kills at random: what was acknowledged is there, and nothing stays behind."""

import asyncio
import contextlib
import random
import time
from pathlib import Path

import pytest

from holdfast.errors import DatabaseError
from holdfast.postgres.connections import DRIVER_ERRORS, open_connection
from tests.crash.holders import Holder, assert_gone, rpcs_of, rulers_of

storm_seconds = 60


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_storm_of_kills_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / ".holdfast"
    seed = time.time_ns()
    rng = random.Random(seed)  # noqa: S311
    holders = [Holder(home) for _ in range(3)]
    url = {holder.wait_until_held() for holder in holders}.pop()
    async with open_connection(url) as connection:
        await connection.execute("create table public.kept (value int primary key)")
    acknowledged: list[int] = []
    kills = {"holder": 0, "watchdog": 0, "postmaster": 0}
    over = time.monotonic() + storm_seconds

    async def write() -> None:
        number = 0
        while time.monotonic() < over:
            with contextlib.suppress(DatabaseError, *DRIVER_ERRORS):
                async with open_connection(url) as connection:
                    while time.monotonic() < over:
                        number += 1
                        await connection.execute("insert into public.kept values ($1)", number)
                        acknowledged.append(number)
            await asyncio.sleep(0.02)

    async def kill() -> None:
        while time.monotonic() < over:
            await asyncio.sleep(rng.uniform(0.1, 3))
            victim = rng.choice(list(kills))
            if victim == "holder":
                holder = holders.pop(rng.randrange(len(holders)))
                await asyncio.to_thread(holder.kill)
                holders.append(await asyncio.to_thread(Holder, home))
                await asyncio.to_thread(holders[-1].wait_until_held)
                kills[victim] += 1
                continue
            for process in rulers_of(home):
                if ("embedded.watchdog" in rpcs_of(process)) == (victim == "watchdog"):
                    process.kill()
                    kills[victim] += 1

    await asyncio.gather(write(), kill())
    while True:
        with contextlib.suppress(DatabaseError):
            async with open_connection(url) as connection:
                kept = {row["value"] for row in await connection.fetch("select value from public.kept")}
            break
    for holder in holders:
        await asyncio.to_thread(holder.leave)
    print(f"seed {seed}: {len(acknowledged)} acknowledged, kills {kills}")  # noqa: T201
    assert min(kills.values()) > 0, f"vacuous: {kills}"
    assert len(acknowledged) > 100, "vacuous: hardly anything was written"
    assert set(acknowledged) <= kept, f"lost with seed {seed}"
    await asyncio.to_thread(assert_gone, home)
