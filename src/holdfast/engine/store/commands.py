"""The store: the engine's functions as Python, one short method for each, of the same name.

Nothing is decided here. A method sends its arguments and brings back the answer; calls.py says how. What only reads is
in queries.py. What belongs to one subject is an object of its own over the same connections: `store.inbox` (failures
that wait for a person), `store.bulk` (many tasks at once), `store.keys` and `store.costs`.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar, Unpack
from uuid import UUID

import asyncpg

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store import encode
from holdfast.engine.store.bulk import Bulk
from holdfast.engine.store.calls import Calls, answer_within_seconds
from holdfast.engine.store.costs import Costs
from holdfast.engine.store.inbox import Inbox
from holdfast.engine.store.keys import Keys
from holdfast.engine.store.queries import Queries
from holdfast.engine.task import (
    Asked,
    Beat,
    Checkpoint,
    Checkpointed,
    Claiming,
    Completion,
    Grant,
    Greeting,
    Json,
    Lease,
    Moved,
    Outcome,
    Proof,
    Settled,
    Settlement,
    Step,
    Submission,
    Submitted,
    Swept,
    Upstream,
)
from holdfast.errors import LeaseLost, MoveRefused, StateUnknown, TaskExpired

C = TypeVar("C", bound=Calls)


class Store(Queries):
    """The engine behind a pool, or behind one connection whose transaction the caller commits."""

    def __init__(
        self, source: asyncpg.Pool | asyncpg.Connection, *, answer_within_seconds: float = answer_within_seconds
    ) -> None:
        super().__init__(source, answer_within_seconds=answer_within_seconds)
        self.inbox = Inbox.over(self)
        self.bulk = Bulk.over(self)
        self.keys = Keys.over(self)
        self.costs = Costs.over(self)

    # Lifecycles and queues

    async def declare(self, lifecycle: Lifecycle) -> int:
        """Write a lifecycle down and return its version. Raises DeclarationConflict if tasks use another one."""
        return int(await self._call("declare", encode.dump(lifecycle.definition())))

    async def lifecycles(self) -> list[Lifecycle]:
        """The newest version of each declared lifecycle."""
        rows = await self._table("lifecycles")
        return [Lifecycle.from_definition(encode.load(row["definition"])) for row in rows]

    async def make_queue(self, name: str) -> None:
        """Make a queue, unless it is there."""
        await self._call("make_queue", name)

    async def pause_queue(self, name: str, by: str = "") -> None:
        """Let nothing of this queue be claimed. Raises QueueUnknown."""
        await self._call("pause_queue", name, by)

    async def resume_queue(self, name: str) -> None:
        """Let workers claim from it again. Raises QueueUnknown."""
        await self._call("resume_queue", name)

    async def limit_concurrency(self, key: str, allowed: int) -> None:
        """Let so many tasks with this limit key be with workers at once."""
        await self._call("limit_concurrency", key, allowed)

    # Tasks, from the outside

    async def submit(self, *tasks: Submission) -> list[Submitted]:
        """Make these tasks, all or none. Raises a RequestInvalid, and then nothing was written."""
        keyed = all(task.key for task in tasks)
        rows = await self._table("submit_many", *encode.submissions(tasks), repeatable=keyed)
        return [encode.from_row(Submitted, row) for row in sorted(rows, key=lambda row: int(row["place"]))]

    async def act(self, task_id: UUID | str, verb: str, note: Json = None) -> str:
        """Do what the owner may do here, and return the new state. Raises MoveRefused, VerbUnknown or TaskExpired."""
        row = (await self._table("act", encode.task_id(task_id), verb, encode.dump(note), repeatable=False))[0]
        if row["status"] == "expired":
            raise TaskExpired(f"Task {task_id} is {row['state']} now.", fix="Start a new task.")
        return str(row["state"])

    async def cancel(self, task_id: UUID | str, reason: str | None = None, by: str | None = None) -> str:
        """Cancel a task. Answers cancelled, requested (a worker holds it) or too_late."""
        return str(await self._call("cancel", encode.task_id(task_id), encode.text(reason), encode.text(by)))

    async def retry(
        self, task_id: UUID | str, from_step: str | None = None, payload: Json = None, by: str | None = None
    ) -> UUID:
        """Run a finished task again as a new one, which is returned. Raises StepUnknown or MoveRefused."""
        given = (encode.task_id(task_id), from_step, encode.dump(payload), by)
        answer: UUID = await self._call("retry", *given, repeatable=False)
        return answer

    async def retry_dependents(
        self, task_id: UUID | str, from_step: str | None = None, payload: Json = None, by: str | None = None
    ) -> dict[UUID, UUID]:
        """The same, with the tasks that ended only because it ended badly: each old one with the new one, it first."""
        given = (encode.task_id(task_id), from_step, encode.dump(payload), by)
        rows = await self._table("retry_dependents", *given, repeatable=False)
        return {row["old"]: row["new"] for row in rows}

    # Tasks, from a worker

    async def claim(
        self,
        queues: Sequence[str],
        n: int = 1,
        *,
        lasting: timedelta,
        worker: str,
        names: Sequence[str] | None = None,
    ) -> list[Lease]:
        """Take up to `n` tasks of these queues that are due; only those with one of these names, if any are given.

        Not made again when its connection is lost: leases whose tokens never arrived would be nobody's. They go back
        with `release_leases`, or run out.
        """
        return encode.leases(await self._table("claim", queues, n, lasting, worker, names, repeatable=False))

    async def claim_these(self, ids: Iterable[UUID | str], *, lasting: timedelta, worker: str) -> list[Lease]:
        """Take those of these tasks that can be taken now."""
        given = ([encode.task_id(task) for task in ids], lasting, worker)
        return encode.leases(await self._table("claim_these", *given, repeatable=False))

    async def refuse_claim(self, task_id: UUID | str) -> None:
        """Raise why this task could not be claimed: TaskNotFound, TaskEnded, AlreadyLeased or NotClaimable."""
        await self._call("refuse_claim", encode.task_id(task_id))

    async def heartbeat(
        self, leases: Sequence[Proof], *, lasting: timedelta, progress: Mapping[UUID, Json] | None = None
    ) -> dict[UUID, Beat]:
        """Extend these leases. Those that are missing in the answer are lost."""
        reported = [encode.dump((progress or {}).get(lease.task_id)) for lease in leases]
        rows = await self._table("heartbeat", *encode.proofs(leases), lasting, reported)
        return {row["task_id"]: Beat(row["expires_at"], row["cancel_requested"]) for row in rows}

    async def checkpoint(self, *checkpoints: Checkpoint) -> list[Checkpointed]:
        """Keep what is done. Each has its own answer; what is not ok or stored has changed nothing."""
        return await self._records(Checkpointed, "checkpoint", *encode.checkpoints(checkpoints))

    async def keep(
        self, lease: Lease, step: str | None = None, result: Json = None, *, to: str | None = None, usage: Json = None
    ) -> Json:
        """One checkpoint; the result that counts. Raises LeaseLost, MoveRefused or StateUnknown, and kept nothing."""
        kept = (await self.checkpoint(Checkpoint(lease, step, result, to, usage)))[0]
        refuse(kept.status, lease, f"a checkpoint to {to}")
        return kept.result

    async def held_steps(self, lease: Proof) -> list[Step]:
        """The steps of a task, for the worker that holds it. Raises LeaseLost."""
        return await self._records(Step, "held_steps", *encode.proof(lease))

    async def held_upstream(self, lease: Proof) -> list[Upstream]:
        """What a task waited for, for the worker that holds it. Raises LeaseLost."""
        return await self._records(Upstream, "held_upstream", *encode.proof(lease))

    async def ask(self, lease: Proof, step: str, question: str, within: timedelta) -> Asked:
        """Write a question down, unless it is there. Raises RequestInvalid."""
        made = secrets.token_urlsafe(32)
        given = (*encode.proof(lease), encode.text(step), encode.text(question), within, made)
        return await self._record(Asked, "ask", *given)

    async def record(self, lease: Proof, kind: str, step: str | None = None, data: Json = None) -> None:
        """Write an event of a step down. Raises LeaseLost."""
        rows = await self._table(
            "record", *encode.proofs([lease]), [step], [kind], [encode.dump(data)], repeatable=False
        )  # fmt: skip
        if not rows:
            raise lost(lease)

    async def settle(self, *settlements: Settlement) -> list[Settled]:
        """End these leases. Each has its own answer, in any order; what is not ok or repeat has changed nothing."""
        return await self._records(Settled, "settle", *encode.settlements(settlements))

    async def finish(self, lease: Lease, outcome: Outcome) -> Settled:
        """Settle one lease. Raises LeaseLost, MoveRefused or StateUnknown, and then nothing was written."""
        settled = (await self.settle((lease, outcome)))[0]
        name = type(outcome).__name__
        refuse(settled.status, lease, f"{name}({outcome.to!r})" if isinstance(outcome, Moved) else name)
        return settled

    async def complete(self, *completions: Completion) -> list[Settled]:
        """Record events and settle, both or neither, each task for itself; what is lost or stale has changed nothing.

        Raises MoveRefused, and then nothing of the call was written.
        """
        return await self._records(Settled, "complete", *encode.completions(completions))

    async def deliver(self, *completions: Completion) -> list[Settled]:
        """Complete, and publish the outputs of those that are done, each with its task or not at all.

        What is lost or stale has written nothing; so is a repeat whose outputs are others. Raises OutputRefused,
        PayloadTooLarge, RequestInvalid or MoveRefused, and then nothing of the call was written.
        """
        return await self._records(Settled, "deliver", *encode.deliveries(completions))

    async def settle_and_claim(
        self, settlements: Sequence[Settlement], queues: Sequence[str], n: int = 1, **claim: Unpack[Claiming]
    ) -> tuple[dict[UUID, str], list[Lease]]:
        """Settle, then claim up to `n` (0: none), in one call and one commit. Answers which were refused, and how.

        Never sent twice by itself: the leases in a lost answer would be nobody's. `since`, the due time and the id of a
        task, leaves out what stands before it in its line.
        """
        what = (queues, n, claim["lasting"], claim["worker"], claim.get("names"), *(claim.get("since") or (None, None)))
        rows = await self._table("turn", *encode.settlements(settlements), *what, repeatable=False)
        refused = {row[0]: row[1] for row in rows if row[0] is not None}
        return refused, encode.leases([row[2] for row in rows if row[0] is None])

    async def hello(self, worker: str, **about: Unpack[Greeting]) -> None:
        """Say who works here and on what; of each task by name, its queue, max_attempts and priority."""
        tasks = about.get("tasks")
        known = None if tasks is None else encode.dump({name: dict(task) for name, task in tasks.items()})
        await self._call("hello", worker, about["label"], about["queues"], about["names"], about["slots"], known)

    async def idle(self, worker: str) -> timedelta | None:
        """Say that this worker is about to sleep, and learn how long until something falls due. Look again after it."""
        answer: timedelta | None = await self._call("idle", worker)
        return answer

    async def mark_lost(self, leases: Sequence[Proof]) -> int:
        """Say that a worker died while it was running these. Those that were settled meanwhile stay so."""
        return int(await self._call("mark_lost", *encode.proofs(leases)))

    async def release_leases(self, worker: str, kept: Iterable[UUID] = ()) -> int:
        """Give back what this worker holds, but for these, at no cost."""
        return int(await self._call("release_leases", worker, list(kept)))

    async def goodbye(self, worker: str) -> None:
        """Say that this worker is gone. Its leases stay until they are settled or expire."""
        await self._call("goodbye", worker)

    # Time and budgets

    async def sweep(self, n: int = 500) -> Swept:
        """Do what time alone decides, for up to `n` tasks of each kind."""
        return await self._record(Swept, "sweep", n, patience=10)

    async def make_partitions(self, days: int = 7) -> int:
        """Make the partitions for the days to come; returns how many were missing."""
        made = 0
        while await self._call("make_partitions", days):
            made += 1
        return made

    async def set_budget(self, name: str, capacity: float, every: timedelta) -> None:
        """Let `capacity` units be spent at once, and one more every so often."""
        await self._call("set_budget", name, encode.number(capacity), every)

    async def spend(self, name: str, amount: float = 1, *, retry_at: datetime | None = None) -> Grant:
        """Take a share of a budget, or learn when to ask again, then with that `retry_at`. Raises BudgetUnknown."""
        return await self._record(Grant, "spend", name, encode.number(amount), retry_at)

    async def block_budget(self, name: str, until: datetime) -> None:
        """Let nobody spend until then, also of a budget that nobody has set."""
        await self._call("block_budget", name, until)

    # Besides

    async def check_held(self, lease: Proof) -> None:
        """Raises LeaseLost if the task is not held with this proof."""
        await self._call("check_held", *encode.proof(lease))

    def service(self, kind: type[C]) -> C:
        """A lifecycle's store, over the same connections. Handlers may call its marked methods."""
        return kind.over(self)


def refuse(status: str, lease: Proof, asked: str) -> None:
    """Raise the error that a status stands for."""
    lifecycle = lease.lifecycle if isinstance(lease, Lease) else "NAME"
    match status:
        case "lost":
            raise lost(lease)
        case "undeclared":
            raise MoveRefused(
                f"Task {lease.task_id}: from where it is, {asked} leads nowhere.",
                fix=f"Declare the move in its lifecycle: holdfast lifecycle show {lifecycle}",
            )
        case "settle_only":
            raise MoveRefused(
                f"Task {lease.task_id}: {asked} would keep the lease where no worker holds tasks.",
                fix="Settle instead: store.finish(lease, Moved('STATE')).",
            )
        case "unknown_state":
            raise StateUnknown(
                f"Task {lease.task_id}: its lifecycle has no state for {asked}.", fix="Name one that it declares."
            )


def lost(lease: Proof) -> LeaseLost:
    return LeaseLost(f"Task {lease.task_id}, attempt {lease.attempt}.", fix="The worker that holds it now settles it.")
