"""Schedules of crashes and faults, made from a seed, for a batch at a provider that keeps a ledger.

Whatever happens, each job is begun at most once; when the batch is over nothing runs, or a person knows of it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from holdfast import Holdfast
from holdfast.batch import Provider
from holdfast.engine.store.commands import Store
from holdfast.lifecycles.batch.sdk import Batch
from holdfast.lifecycles.batch.store import Batches
from holdfast.testing.engine import Engine
from tests.lifecycles.batch.crashes import Watched, crash

crashes_at_most = 5
iterations_at_most = 40


class Witness(Protocol):
    """What a provider's own books say."""

    provider: Provider

    def inputs(self, rng: random.Random) -> dict[str, Any]:
        """What a batch is made of."""

    def trouble(self, rng: random.Random) -> None:
        """Let something go wrong on the wire, sooner or later."""

    def calm(self) -> None:
        """Nothing goes wrong any more."""

    def begun(self) -> Sequence[str]:
        """The tokens of all jobs that were ever begun, as often as they were."""

    def running(self) -> Sequence[str]:
        """What has not ended, and nobody has stopped."""


@dataclass
class Played:
    """What has been met in all schedules: a run that meets nothing proves nothing."""

    states: Counter[str] = field(default_factory=Counter)
    crashes: Counter[str] = field(default_factory=Counter)


class RandomCrashes:
    """Crashes now and then, at a point that a seed has chosen."""

    def __init__(self, seed: int, played: Played) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.left = self.random.randint(0, crashes_at_most)
        self.played = played

    def __call__(self, where: str) -> None:
        if self.left and self.random.random() < 0.15:
            self.left -= 1
            self.played.crashes[where] += 1
            crash()


class Schedules:
    """Plays schedules, one batch each, all in one database."""

    def __init__(self, engine: Engine, witness: Witness, task_type: str) -> None:
        self.engine = engine
        self.witness = witness
        self.played = Played()
        self.crashes = RandomCrashes(0, self.played)
        self.crashes.left = 0
        watched = Watched(witness.provider, lambda where: self.crashes(where))
        hf = Holdfast()
        self.batch: Batch = hf.batch(task_type, watched)
        engine._add_app(hf)
        engine.call(hf.declare(engine.store))

    @property
    def store(self) -> Store:
        return self.engine.store

    def play(self, seed: int) -> None:
        self.crashes = RandomCrashes(seed, self.played)
        rng = self.crashes.random
        self.witness.trouble(rng)
        begun_before = Counter(self.witness.begun())
        handle = self.engine.start(self.batch, **self.witness.inputs(rng))
        is_cancelled = rng.random() < 0.25
        rounds = rng.randint(1, 4)
        self.work(rounds if is_cancelled else iterations_at_most, handle.id)
        if is_cancelled:
            self.engine.call(self.store.cancel(handle.id))
        self.witness.calm()
        self.crashes.left = 0
        self.engine.drain()
        self.check(handle.id, seed, begun_before)

    def work(self, rounds: int, task: UUID) -> None:
        """Two workers at the same time do what is due, so many times, each a little later."""
        for _ in range(rounds):
            self.engine.call(self.two())
            if self.engine.call(self.store.outcomes([task])):
                return
            later = self.engine.clock.next(())
            if later is None:
                return
            self.engine.clock.set(later)

    async def two(self) -> None:
        await asyncio.gather(self.engine._work(None, moving=False), self.engine._work(None, moving=False))

    def check(self, task: UUID, seed: int, before: Counter[str]) -> None:
        (batch,) = self.engine.call(Batches.over(self.store).read([task]))
        begun = Counter(self.witness.begun()) - before
        summary = f"seed {seed}: {batch.status}, {[job.status for job in batch.jobs]}, {batch.error}"
        assert all(number == 1 for number in begun.values()), f"{summary}: begun twice: {begun}"
        assert set(begun) <= {job.token for job in batch.jobs}, summary
        assert batch.finished_at is not None or any(job.status == "PARKED" for job in batch.jobs), summary
        reported = {entry["task_id"] for entry in self.engine.call(self.store.inbox.newest())}
        left = set(self.witness.running()) & {str(job.external_job_id) for job in batch.jobs}
        assert not left or reported & {task, UUID(str(batch.stopped_by or task))}, f"{summary}: left running: {left}"
        if batch.status in ("COMPLETED", "PARTIAL_COMPLETE"):
            assert batch.manifest.ok + batch.manifest.failed + batch.manifest.invalid == batch.manifest.inputs, summary
        self.played.states[batch.status] += 1
