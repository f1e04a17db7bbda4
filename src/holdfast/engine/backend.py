"""The two protocols that a backend satisfies: what workers ask of it, and what those ask who start tasks.

`Store` answers in SQL; `remote.worker_backend` and `remote.client_backend` over HTTP, from a server that has the
database. Code typed by these protocols cannot tell which. A new method goes here, into each of them, and into a route.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, Unpack
from uuid import UUID

from holdfast.engine.store.calls import Calls
from holdfast.engine.task import (
    Asked,
    Beat,
    Checkpoint,
    Checkpointed,
    Claiming,
    Completion,
    Ended,
    Event,
    Explanation,
    Grant,
    Greeting,
    Json,
    Lease,
    Proof,
    Settled,
    Settlement,
    Step,
    Submission,
    Submitted,
    Upstream,
)

C = TypeVar("C", bound=Calls)


class WorkerBackend(Protocol):
    """What a worker asks. `Store` says of each method what it does and what it raises."""

    async def hello(self, worker: str, **about: Unpack[Greeting]) -> None:
        """Who works here and on what."""

    async def settle_and_claim(
        self, settlements: Sequence[Settlement], queues: Sequence[str], n: int = 1, **claim: Unpack[Claiming]
    ) -> tuple[dict[UUID, str], list[Lease]]:
        """Settle, then claim up to `n`. Never sent twice by itself: the leases in a lost answer would be nobody's."""

    async def heartbeat(
        self, leases: Sequence[Proof], *, lasting: timedelta, progress: Mapping[UUID, Json] | None = None
    ) -> dict[UUID, Beat]:
        """Extend these leases."""

    async def held_steps(self, lease: Proof) -> list[Step]:
        """The steps of a task that is held."""

    async def held_upstream(self, lease: Proof) -> list[Upstream]:
        """What a task that is held has waited for."""

    async def ask(self, lease: Proof, step: str, question: str, within: timedelta) -> Asked:
        """Write a question down, unless it is there."""

    async def checkpoint(self, *checkpoints: Checkpoint) -> list[Checkpointed]:
        """Keep what is done."""

    async def record(self, lease: Proof, kind: str, step: str | None = None, data: Json = None) -> None:
        """Write an event of a step down."""

    async def settle(self, *settlements: Settlement) -> list[Settled]:
        """End these leases."""

    async def deliver(self, *completions: Completion) -> list[Settled]:
        """End these leases, and publish what they have put out."""

    async def spend(self, name: str, amount: float = 1, *, retry_at: datetime | None = None) -> Grant:
        """Take a share of a budget."""

    async def block_budget(self, name: str, until: datetime) -> None:
        """Let nobody spend of a budget until then, also of one that nobody has set."""

    def service(self, kind: type[C]) -> C:
        """The store of a lifecycle, whose marked methods handlers may call."""

    async def idle(self, worker: str) -> timedelta | None:
        """This worker is about to sleep; how long until something falls due."""

    async def mark_lost(self, leases: Sequence[Proof]) -> int:
        """A process died while it was running these."""

    async def release_leases(self, worker: str, kept: Iterable[UUID] = ()) -> int:
        """Give back what this worker holds, but for these."""

    async def goodbye(self, worker: str) -> None:
        """This worker is gone."""


class ClientBackend(Protocol):
    """What those ask who start tasks and wait for them."""

    async def make_queue(self, name: str) -> None:
        """A queue that tasks are to wait in."""

    async def submit(self, *tasks: Submission) -> list[Submitted]:
        """Make these tasks, all or none."""

    async def read(self, task_id: UUID | str) -> dict[str, Any]:
        """All that is known of a task."""

    async def outcomes(self, ids: Iterable[UUID | str]) -> dict[UUID, Ended | None]:
        """How those of these tasks ended that have."""

    async def events(self, task_id: UUID | str) -> list[Event]:
        """Its moves, oldest first."""

    async def explain(self, task_id: UUID | str) -> Explanation:
        """Why it is where it is."""

    async def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        """Cancel it."""
