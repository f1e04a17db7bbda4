"""Batches and their jobs: one method for each SQL function, one record for each row that crosses into Python."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from holdfast.engine.lease_rpc import lease_rpc, lease_rpc_once
from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import Json, Proof
from holdfast.errors import TaskNotFound

JobEvent = dict[str, Json]
"""What happened to a job: `{"job": 3, "verb": "accept", ...}`. sql/jobs.sql lists the verbs."""


@dataclass(frozen=True)
class JobRow:
    """A job as its handler sees it."""

    number: int
    token: str
    account: str
    model: str | None
    inputs: int
    inputs_key: str
    status: str
    running: bool
    external_id: str | None
    memo: Json
    has_results: bool | None
    due_at: datetime | None
    transient_failures: int
    waiting_since: datetime | None
    intended_at: datetime | None
    missed_at: datetime | None
    cancelled_at: datetime | None
    done: int | None
    ok: int
    output_key: str | None
    cost_micros: float
    error: str | None
    category: str | None


@dataclass(frozen=True)
class OpenBatch:
    """A batch, and those of its jobs that have not ended or may be running."""

    task_id: UUID
    task_type: str
    models: Sequence[str]
    again_of: UUID | None
    planned: bool
    over_at: datetime | None
    jobs: list[JobRow]
    now: datetime


@dataclass(frozen=True)
class InvalidInput:
    """An input that no job takes."""

    input: str
    reason: str


@dataclass(frozen=True)
class EndedBatch:
    """All jobs as they ended, the state that they make of the batch, and the inputs that no job took."""

    verdict: str | None
    """None as long as a job is open."""
    jobs: list[JobRow]
    invalid: list[InvalidInput]


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to be."""

    account: str
    model: str | None
    inputs: int
    source: str
    filename: str
    inputs_key: str


@dataclass(frozen=True)
class BatchFiles:
    """Where the results and the manifest are, and until when they are kept (None: the batch is not over)."""

    result_key: str | None
    manifest_key: str | None
    kept_until: datetime | None
    now: datetime


class Job(BaseModel):
    """A provider's job, as we know it. `may_be_running`: for all we know the provider may be at work on it."""

    number: int
    model: str | None
    account: str
    status: str
    provider_status: str | None
    external_job_id: str | None
    token: str
    inputs: int
    done: int
    ok: int
    may_be_running: bool
    tries: int
    transient_failures: int
    due_at: datetime | None
    submitted_at: datetime | None
    polled_at: datetime | None
    finished_at: datetime | None
    error: str | None
    category: str | None
    cost_cents: float
    source: str


class Manifest(BaseModel):
    """How many inputs there are, and how they ended; the file of each is at `uri`."""

    uri: str | None
    inputs: int | None
    ok: int
    failed: int
    invalid: int


class BatchRecord(BaseModel):
    """A batch. `provider_state` is what its provider's clients know; `jobs` has more, and the same for all."""

    task_id: UUID
    status: str
    task_type: str
    provider: str
    models: list[str]
    owner: str
    provider_state: dict[str, Any] | None
    job_counts: dict[str, int]
    """How many jobs are in which status; a list of batches has this instead of the jobs."""
    jobs: list[Job]
    next_poll_at: datetime | None
    result_uri: str | None
    manifest: Manifest
    cost_cents: float
    error: str | None
    cancel_requested: bool
    retry_of: UUID | None
    stopped_by: UUID | None
    """The task that stops what this batch has left running, if it left anything."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ProviderOffer(BaseModel):
    """A kind of task at a provider. `missing`: what must be set up first. `ready`: a worker is there."""

    task_type: str
    provider: str
    configured: bool
    ready: bool
    healthy: bool | None
    """Whether it answers, as its open jobs show; null if it was not asked of late."""
    missing: str | None = None
    error: str | None
    account: str
    models: list[str]
    inputs_per_job: int
    poll_seconds: float
    limit_seconds: float
    requests_per_minute: int | None
    open_jobs: int
    failing: int
    waiting: int
    parked: int
    answered_at: datetime | None


OPEN_BATCH, ENDED_BATCH, JOB_ROW = TypeAdapter(OpenBatch), TypeAdapter(EndedBatch), TypeAdapter(JobRow)


class Batches(Calls):
    """Batches and their jobs."""

    # For workers

    @lease_rpc
    async def load(self, holder: UUID) -> OpenBatch | None:
        """The batch of this task: itself, or the one that it stops; None if there is none."""
        found = await self._call("load_batch", holder)
        return OPEN_BATCH.validate_json(found) if found else None

    @lease_rpc
    async def sources(self, task: UUID) -> list[tuple[str, str]]:
        """Where the inputs are, and their names for people."""
        return [(row["uri"], row["name"]) for row in await self._table("batch_sources", task)]

    @lease_rpc
    async def plan(
        self, lease: Proof, jobs: Sequence[PlannedJob], invalid: Sequence[InvalidInput], inputs: int
    ) -> None:
        """Keep which jobs there are to be, unless that was planned before. Raises LeaseLost."""
        given = (encode.dump(list(map(asdict, jobs))), encode.dump(list(map(asdict, invalid))), inputs)
        refuse(await self._call("plan_batch", *encode.proof(lease), *given), lease, "a plan")

    @lease_rpc_once
    async def report(self, lease: Proof, task: UUID, *events: JobEvent) -> tuple[bool, dict[int, JobRow]]:
        """Keep what happened to jobs of a batch; whether it is to stop, and how these jobs stand now.

        Not sent again when its connection is lost: the report may have been kept. Raises LeaseLost or MoveRefused.
        """
        rows = await self._table("report_jobs", *encode.proof(lease), task, encode.dump(list(events)), repeatable=False)
        refuse(rows[0]["status"], lease, "jobs")
        jobs = [JOB_ROW.validate_json(row["job"]) for row in rows if row["job"] is not None]
        return rows[0]["status"] == "cancel", {job.number: job for job in jobs}

    @lease_rpc
    async def ended_jobs(self, task: UUID) -> EndedBatch:
        """All jobs of a batch, and what became of it. Raises TaskNotFound."""
        found = await self._call("ended_jobs", task)
        if found is None:
            raise batch_missing(task)
        return ENDED_BATCH.validate_json(found)

    @lease_rpc
    async def keep_merged(self, lease: Proof, result_key: str | None, manifest_key: str) -> None:
        """Keep where the merged results are. Raises LeaseLost."""
        refuse(await self._call("keep_merged", *encode.proof(lease), result_key, manifest_key), lease, "results")

    # For applications

    async def offer(
        self, task_type: str, provider: str, name: str, queue: str | None, offer: Mapping[str, Json]
    ) -> None:
        """Publish what workers do with a provider. Raises RequestInvalid."""
        await self._call("offer_batches", task_type, provider, name, queue, encode.dump(dict(offer)))

    # For users

    async def providers(self) -> list[ProviderOffer]:
        """What is offered, what of it is set up and has a worker, and how its open jobs fare."""
        rows = await self._table("batch_providers")
        return [ProviderOffer.model_validate_json(row[0]) for row in rows]

    async def make(
        self,
        task_type: str,
        provider: str,
        *,
        urls: Sequence[str] = (),
        datasets: Sequence[UUID] = (),
        models: Sequence[str] = (),
        owner: str = "",
        key: str | None = None,
        trace: str | None = None,
        tags: Sequence[str] = (),
        again_of: UUID | None = None,
    ) -> tuple[UUID, bool]:
        """A batch, and whether this call made it. Raises RequestInvalid or KeyConflict."""
        given = (
            encode.text(task_type), encode.text(provider), encode.dump(list(urls)), list(datasets), list(models), owner,
            encode.text(key), trace, list(tags), again_of,
        )  # fmt: skip
        row = (await self._table("make_batch", *given, repeatable=key is not None))[0]
        return row["task"], row["created"]

    async def read(self, tasks: Sequence[UUID], owner: str | None = None, *, whole: bool = True) -> list[BatchRecord]:
        """These batches, without those that are not `owner`'s; if not whole, without their jobs."""
        rows = await self._table("read_batches", list(tasks), owner, whole)
        return [BatchRecord.model_validate_json(row[0]) for row in rows]

    async def batch(self, task: UUID, owner: str | None = None, *, whole: bool = True) -> BatchRecord:
        """One of them. Raises TaskNotFound."""
        return require_one(await self.read([task], owner, whole=whole), batch_missing(task))

    async def files(self, task: UUID) -> BatchFiles:
        """Where its files are."""
        return await self._record(BatchFiles, "batch_files", task)

    async def resolve(
        self, task: UUID, job: int, action: str, external_id: str | None = None, *, by: str, note: str | None = None
    ) -> str:
        """Decide about a job that waits for a person; its status then. Raises RequestInvalid or MoveRefused."""
        given = (task, job, encode.text(action), encode.text(external_id), by, encode.text(note))
        return str(await self._call("resolve_job", *given, repeatable=False))


def batch_missing(task: UUID) -> TaskNotFound:
    return TaskNotFound(f"No batch has the id {task}.", fix="GET /batch/tasks lists them.")


def storable(value: Any) -> Any:
    """A provider's answer as Postgres can keep it: without NUL, half surrogate pairs, and infinite numbers."""
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else encode.sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {storable(key): storable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [storable(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else encode.sound(str(value))
