"""A worker without a supervisor, that says every word it exchanges with the kernel; it knows one task only.

`python -m tests.crash.raw_worker FOLDER URL SEED LEASE_SECONDS`, until the file `over` is there. Now and then it
oversleeps its lease on purpose and goes on as if nothing had happened, or settles what it has settled.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Done, Lease, Outcome
from holdfast.errors import DatabaseError
from tests.crash.history import History
from tests.crash.patience import patient_store

T = TypeVar("T")

KNOWN = ["held"]
claimed_at_once = 3
tries_at_most = 6


class RawWorker:
    def __init__(self, folder: Path, store: Store, seed: int, lease_seconds: float) -> None:
        self.history = History(folder, "raw")
        self.rng = random.Random(seed)  # noqa: S311
        self.store = store
        self.over = folder / "over"
        self.lease = timedelta(seconds=lease_seconds)

    async def work(self) -> None:
        while not self.over.exists():
            leases = await self.claim()
            if leases:
                await asyncio.gather(*(self.run(one) for one in leases))
            else:
                await asyncio.sleep(self.rng.uniform(0.05, 0.2))

    async def claim(self) -> list[Lease]:
        call = self.history.invoke("claim", names=KNOWN)
        try:
            leases = await self.store.claim(
                ["raw"], claimed_at_once, lasting=self.lease, worker=self.history.name, names=KNOWN
            )
        except DatabaseError as error:
            self.history.say("claim", "info", call=call, error=type(error).__name__)
            return []
        claimed = [{**proved(one), "name": one.name, "expires": one.expires_at.timestamp()} for one in leases]
        self.history.say("claim", "ok", call=call, names=KNOWN, leases=claimed)
        return leases

    async def run(self, lease: Lease) -> None:
        """One task: short, or kept by heartbeats, or overslept."""
        self.history.say("run", "start", **proved(lease), name=lease.name)
        way = self.rng.choice(["short", "short", "kept", "overslept"])
        if way == "kept":
            for _ in range(self.rng.randint(1, 4)):
                await asyncio.sleep(self.lease.total_seconds() / 3)
                await self.beat(lease)
        elif way == "overslept":
            await asyncio.sleep(self.lease.total_seconds() * self.rng.uniform(1.2, 1.8))
            await self.beat(lease)
        await self.keep(lease)
        self.history.say("run", "end", **proved(lease), name=lease.name)
        outcome = Done({"number": lease.payload["number"], "version": lease.version})
        await self.settle(lease, outcome, "first")
        if self.rng.random() < 0.2:
            await self.settle(lease, outcome, "same")
        if self.rng.random() < 0.2:
            await self.settle(lease, Done("something else"), "other")

    async def beat(self, lease: Lease) -> None:
        asked = self.store.heartbeat([lease], lasting=self.lease)
        answer = await self.ask("beat", lease, asked)
        if answer is not None:
            alive = answer.get(lease.task_id)
            self.note("beat", lease, "ok" if alive else "lost", expires=alive.expires_at.timestamp() if alive else None)

    async def keep(self, lease: Lease) -> None:
        answer = await self.ask("keep", lease, self.store.checkpoint(Checkpoint(lease, "kept", lease.token.hex)))
        if answer is not None:
            self.note("keep", lease, answer[0].status)

    async def settle(self, lease: Lease, outcome: Outcome, which: str) -> None:
        """Until it is answered, but not for ever: the lease is over long before that."""
        for _ in range(tries_at_most):
            answer = await self.ask("settle", lease, self.store.settle((lease, outcome)), which=which)
            if answer is not None:
                self.note("settle", lease, answer[0].status, which=which)
                return
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))

    async def ask(self, op: str, lease: Lease, asked: Awaitable[T], **more: Any) -> T | None:
        call = self.history.invoke(op, **proved(lease), **more)
        with contextlib.suppress(DatabaseError):
            return await asked
        self.history.say(op, "info", call=call, **proved(lease), **more)
        return None

    def note(self, op: str, lease: Lease, status: str, **more: Any) -> None:
        kind = "ok" if status in ("ok", "stored", "repeat") else "fail"
        self.history.say(op, kind, **proved(lease), status=status, **more)


def proved(lease: Lease) -> dict[str, Any]:
    return {"task": lease.task_id, "attempt": lease.attempt, "token": lease.token, "version": lease.version}


async def main(folder: Path, url: str, seed: int, lease_seconds: float) -> None:
    async with patient_store(url) as store:
        await RawWorker(folder, store, seed, lease_seconds).work()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
