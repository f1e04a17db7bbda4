"""`WorkerBackend` over HTTP: a worker and a server that has the database.

A server that is away looks to a worker like a database that is away: it is waited for, and what runs runs on. So does
one that refuses the key while the worker is at work, which may have been exchanged a moment too early.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack, cast
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import (
    Asked,
    Beat,
    Checkpoint,
    Checkpointed,
    Claiming,
    Completion,
    Failed,
    Grant,
    Greeting,
    Json,
    Later,
    Lease,
    Proof,
    Settled,
    Settlement,
    Step,
    Upstream,
)
from holdfast.errors import AccessError, DatabaseError, KeyRefused, WorkerRefused
from holdfast.remote.lease_rpc import dump_proof, remote_kind
from holdfast.remote.server import Server, open_server
from holdfast.settings import Settings

C = TypeVar("C", bound=Calls)
T = TypeVar("T")

answer_within = timedelta(seconds=30)
many = 500
wait_most_seconds = 20.0
calls_when_waited_for = 8
calls_by_who_waits = 3


class RemoteWorker:
    """`WorkerBackend` over HTTP: one short method per request."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def place(self) -> str:
        return self._server.address

    # Workers

    async def declare(
        self,
        lifecycles: Sequence[Mapping[str, Json]],
        published: Mapping[str, Sequence[Mapping[str, Json]]],
        queues: Sequence[str],
    ) -> None:
        """Write down what an application has of its own. Raises KeyRefused, RoleMissing or a DeclarationError."""
        body = {"lifecycles": list(lifecycles), "published": dict(published), "queues": list(queues)}
        await self._server.request("POST", "/internal/declare", body, within=answer_within)

    async def see(self, schedules: Sequence[str]) -> None:
        """Say that an application is there that declares these schedules. The server starts what they owe."""
        await self._send("see", {"schedules": list(schedules)}, calls=1)

    async def hello(self, worker: str, **about: Unpack[Greeting]) -> None:
        await self._send("hello", {"worker_id": worker, **about})

    async def idle(self, worker: str) -> timedelta | None:
        answer = await self._send("idle", {"worker_id": worker}, calls=calls_by_who_waits)
        return None if answer["due_seconds"] is None else timedelta(seconds=answer["due_seconds"])

    async def sleep(self, worker: str, seconds: float) -> bool:
        """Say that this worker sleeps, for so long at most; whether there may be work."""
        body = {"worker_id": worker, "wait_seconds": min(seconds, wait_most_seconds)}
        within = timedelta(seconds=seconds) + answer_within
        return bool((await self._send("idle", body, calls=1, within=within))["woken"])

    async def release_leases(self, worker: str, kept: Iterable[UUID] = ()) -> int:
        answer = await self._send("hand-back", {"worker_id": worker, "kept": list(kept)})
        return int(answer["tasks"])

    async def goodbye(self, worker: str) -> None:
        await self._send("goodbye", {"worker_id": worker})

    # Leases

    async def settle_and_claim(
        self, settlements: Sequence[Settlement], queues: Sequence[str], n: int = 1, **claim: Unpack[Claiming]
    ) -> tuple[dict[UUID, str], list[Lease]]:
        body = {
            "worker_id": claim["worker"], "settlements": [dump_settlement(one) for one in settlements],
            "queues": queues, "n": n, "lease_seconds": claim["lasting"].total_seconds(), "names": claim.get("names"),
            "since": claim.get("since"),
        }  # fmt: skip
        answer = await self._send("turn", body, repeatable=False, calls=calls_by_who_waits)
        worker_refused = {UUID(task): status for task, status in answer["refused"].items()}
        return worker_refused, [encode.from_json(Lease, lease) for lease in answer["leases"]]

    async def settle(self, *settlements: Settlement) -> list[Settled]:
        return await self._records(Settled, "settle", [dump_settlement(one) for one in settlements])

    async def deliver(self, *completions: Completion) -> list[Settled]:
        ends = [{**dump_proof(one.proof), **vars(one.outcome)} for one in completions]
        return await self._records(Settled, "deliver", ends)

    async def which_wait(self, tasks: Iterable[UUID]) -> set[UUID]:
        """Those of these tasks that wait for a worker."""
        return {UUID(one) for one in await self._send("which-wait", {"tasks": list(tasks)})}

    async def heartbeat(
        self, leases: Sequence[Proof], *, lasting: timedelta, progress: Mapping[UUID, Json] | None = None
    ) -> dict[UUID, Beat]:
        reports = progress or {}
        seconds = lasting.total_seconds()
        beats = [{**dump_proof(one), "lease_seconds": seconds, "progress": reports.get(one.task_id)} for one in leases]
        return {
            UUID(one["task_id"]): Beat(datetime.fromisoformat(one["lease_expires_at"]), one["cancel_requested"])
            for one in await self._each("heartbeat", beats, calls=calls_by_who_waits)
            if one["status"] == "ok"
        }

    async def checkpoint(self, *checkpoints: Checkpoint) -> list[Checkpointed]:
        steps = [
            {**dump_proof(one.lease), "step": one.step, "result": one.result, "to": one.to, "usage": one.usage}
            for one in checkpoints
        ]
        return await self._records(Checkpointed, "keep", steps, calls=calls_by_who_waits)

    async def held_steps(self, lease: Proof) -> list[Step]:
        return [encode.from_json(Step, one) for one in await self._send("steps", dump_proof(lease))]

    async def held_upstream(self, lease: Proof) -> list[Upstream]:
        return [encode.from_json(Upstream, one) for one in await self._send("upstream", dump_proof(lease))]

    async def ask(self, lease: Proof, step: str, question: str, within: timedelta) -> Asked:
        body = {**dump_proof(lease), "step": step, "question": question, "within_seconds": within.total_seconds()}
        answer = await self._send("ask", body)
        return encode.from_json(Asked, answer)

    async def record(self, lease: Proof, kind: str, step: str | None = None, data: Json = None) -> None:
        body = {**dump_proof(lease), "kind": kind, "step": step, "data": data}
        await self._send("record", body, repeatable=False)

    async def mark_lost(self, leases: Sequence[Proof]) -> int:
        return sum(
            [(await self._send("lose", part))["tasks"] for part in in_parts([dump_proof(one) for one in leases])]
        )

    async def spend(self, name: str, amount: float = 1, *, retry_at: datetime | None = None) -> Grant:
        answer = await self._send("spend", {"budget": name, "amount": amount, "told": retry_at})
        return encode.from_json(Grant, answer)

    async def block_budget(self, name: str, until: datetime) -> None:
        await self._send("block-budget", {"budget": name, "until": until})

    def service(self, kind: type[C]) -> C:
        return cast(C, remote_kind(cast(Any, kind))(self._send))

    async def _records(self, kind: type[T], path: str, items: Sequence[Json], **how: int) -> list[T]:
        """The same, as records."""
        return [encode.from_json(kind, one) for one in await self._each(path, items, **how)]

    async def _each(self, path: str, items: Sequence[Json], *, calls: int = calls_when_waited_for) -> list[Any]:
        """The answers to many, in as many calls as it takes."""
        return [answer for part in in_parts(items) for answer in await self._send(path, part, calls=calls)]

    async def _send(
        self, path: str, body: Json, *, repeatable: bool = True, calls: int = calls_when_waited_for,
        within: timedelta = answer_within,
    ) -> Any:  # fmt: skip
        try:
            return await self._server.request(
                "POST", f"/internal/{path}", body, repeatable=repeatable, calls=calls, within=within
            )
        except AccessError as error:
            raise worker_refused(self.place, error) from error


class RemoteWakeups:
    """The wake-ups of a worker, from a server."""

    def __init__(self, backend: RemoteWorker, worker: str) -> None:
        self._backend = backend
        self._worker = worker

    def watch_held(self, held: Container[UUID]) -> None:
        """A wake-up is gone once it was received: nothing to keep."""

    async def wait(self, seconds: float) -> bool:
        over = time.monotonic() + seconds
        try:
            woken = await self._backend.sleep(self._worker, seconds)
        except DatabaseError:
            woken = False
        if not woken:  # a server that does not listen answers at once
            await asyncio.sleep(max(over - time.monotonic(), 0))
        return woken

    async def close(self) -> None:
        """Nothing is open between two waits."""


def worker_refused(place: str, error: AccessError) -> WorkerRefused:
    """What a worker logs of it, and what to do."""
    if isinstance(error, KeyRefused):
        return WorkerRefused(
            f"{place} refuses the key in HOLDFAST_KEY: it was revoked, or is of another server.",
            fix="Make one with `holdfast keys create NAME --role worker`, and start the worker with it.",
        )
    return WorkerRefused(f"{place}: {error.title} {error.detail}", fix=error.fix)


def dump_settlement(settlement: Settlement) -> dict[str, Json]:
    """A lease, and how it ended, under that name. A failure must be settled, whatever its message holds."""
    proof, outcome = settlement
    found = dict(vars(outcome))
    if isinstance(outcome, (Failed, Later)):
        for name in ("message", "code", "budget"):
            if found.get(name):
                found[name] = encode.readable(found[name])
    return {**dump_proof(proof), type(outcome).__name__.lower(): found}


def in_parts(items: Sequence[Json]) -> Iterable[Sequence[Json]]:
    return (items[begin : begin + many] for begin in range(0, len(items), many))


@contextlib.asynccontextmanager
async def open_remote(settings: Settings) -> AsyncIterator[RemoteWorker]:
    """The server of these settings, as a worker speaks to it."""
    async with open_server(settings) as server:
        yield RemoteWorker(server)
