"""The functions of jobs.sql and batches.sql, as Python: one short method for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast.engine.lease_rpc import lease_rpc, lease_rpc_once
from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import Json, Proof
from holdfast.errors import TaskNotFound

Told = dict[str, Json]


@dataclass(frozen=True)
class JobRow:
    """A job, as the database knows it."""

    number: int
    token: str
    account: str
    model: str | None
    inputs: int
    source: str
    inputs_key: str
    status: str
    running: bool
    external_id: str | None
    memo: Json
    outcome: str | None
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

    task_type: str
    models: Sequence[str]
    again_of: UUID | None
    planned: bool
    over_at: datetime | None
    jobs: list[JobRow]
    now: datetime


@dataclass(frozen=True)
class Plan:
    """A job to be."""

    account: str
    model: str | None
    inputs: int
    source: str
    filename: str
    inputs_key: str


class Batches(Calls):
    """Batches and their jobs."""

    # For workers

    @lease_rpc
    async def open(self, task: UUID) -> OpenBatch | None:
        rows = await self._rows("select * from holdfast.open_batches($1)", [task])
        if not rows:
            return None
        batch = encode.load(rows[0]["batch"])
        again_of, over_at = batch.pop("again_of"), batch.pop("over_at")
        jobs = [job_row(job) for job in encode.load(rows[0]["jobs"])]
        return OpenBatch(
            **batch, again_of=again_of and UUID(again_of), over_at=over_at and datetime.fromisoformat(over_at),
            jobs=jobs, now=rows[0]["now"],
        )  # fmt: skip

    @lease_rpc
    async def stopped_by(self, stop: UUID) -> UUID | None:
        """The batch that this task stops."""
        found: UUID | None = await self._value("select holdfast.stopped_batch($1)", stop)
        return found

    @lease_rpc
    async def sources(self, task: UUID) -> list[tuple[str, str]]:
        """Where the inputs are, and what people call them."""
        return [(row["uri"], row["name"]) for row in await self._rows("select * from holdfast.batch_sources($1)", task)]

    @lease_rpc
    async def plan(self, lease: Proof, jobs: Sequence[Plan], invalid: Sequence[Json], inputs: int) -> None:
        """Say what the jobs are, unless somebody has. Raises LeaseLost."""
        given = (encode.dump([vars(job) for job in jobs]), encode.dump(list(invalid)), inputs)
        query = "select holdfast.plan_batch($1, $2, $3, $4, $5, $6)"
        refuse(await self._value(query, *proof(lease), *given), lease, "a plan")

    @lease_rpc_once
    async def tell(self, lease: Proof, task: UUID, *told: Told) -> tuple[bool, dict[int, JobRow]]:
        """Say what happened to jobs of a batch; whether somebody wants it to stop, and how they stand now.

        Not made again when its connection is lost: what was told may have been kept. Raises LeaseLost or MoveRefused.
        """
        query = "select * from holdfast.tell_jobs($1, $2, $3, $4, $5)"
        rows = await self._rows(query, *proof(lease), task, encode.dump(list(told)), repeatable=False)
        refuse(rows[0]["status"], lease, "jobs")
        found = [job_row(encode.load(row["job"])) for row in rows if row["job"] is not None]
        return rows[0]["status"] == "cancel", {job.number: job for job in found}

    @lease_rpc
    async def ended(self, task: UUID) -> tuple[list[JobRow], str | None, list[dict[str, Any]]]:
        """All jobs, what they make of the batch, and the inputs that no job took. Raises TaskNotFound."""
        rows = await self._rows("select * from holdfast.ended_jobs($1)", task)
        if not rows:
            raise missing(task)
        jobs = [job_row(encode.load(row["job"])) for row in rows if row["job"] is not None]
        return jobs, rows[0]["verdict"], encode.load(rows[0]["invalid"])

    @lease_rpc
    async def keep_merged(self, lease: Proof, result_key: str | None, manifest_key: str) -> None:
        """Say where the results are, put together. Raises LeaseLost."""
        query = "select holdfast.keep_merged($1, $2, $3, $4, $5)"
        refuse(await self._value(query, *proof(lease), result_key, manifest_key), lease, "results")

    # For applications

    async def offer(
        self, task_type: str, provider: str, name: str, queue: str | None, offer: Mapping[str, Json]
    ) -> None:
        """Say what workers do with a provider. Raises RequestInvalid."""
        given = (task_type, provider, name, queue, encode.dump(dict(offer)))
        await self._value("select holdfast.offer_batches($1, $2, $3, $4, $5)", *given)

    # For users

    async def providers(self) -> list[dict[str, Any]]:
        """What there is, what of it is set up and has a worker, and how its open jobs fare."""
        return [encode.load(row[0]) for row in await self._rows("select * from holdfast.batch_providers()")]

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
        query = "select * from holdfast.make_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
        row = (await self._rows(query, *given, repeatable=key is not None))[0]
        return row["task"], row["created"]

    async def read(
        self, tasks: Sequence[UUID], owner: str | None = None, *, whole: bool = True
    ) -> list[dict[str, Any]]:
        """What there is to tell of these batches, but for those that are not `owner`'s; if not whole, without jobs."""
        rows = await self._rows("select * from holdfast.read_batches($1, $2, $3)", list(tasks), owner, whole)
        return [encode.load(row[0]) for row in rows]

    async def batch(self, task: UUID, owner: str | None = None, *, whole: bool = True) -> dict[str, Any]:
        """One of them. Raises TaskNotFound."""
        found = await self.read([task], owner, whole=whole)
        if not found:
            raise missing(task)
        return found[0]

    async def files(self, task: UUID) -> tuple[str | None, str | None, datetime | None, datetime]:
        """The keys of the result and of the manifest, until when they are kept (None: it is not over), and the time."""
        row = (await self._rows("select * from holdfast.batch_files($1)", task))[0]
        return row["result_key"], row["manifest_key"], row["kept_until"], row["now"]

    async def resolve(
        self, task: UUID, job: int, action: str, external_id: str | None = None, *, by: str, note: str | None = None
    ) -> str:
        """Say what a job is that waits for a person; its status then. Raises RequestInvalid or MoveRefused."""
        query = "select holdfast.resolve_job($1, $2, $3, $4, $5, $6)"
        given = (task, job, encode.text(action), encode.text(external_id), by, encode.text(note))
        return str(await self._value(query, *given, repeatable=False))


def missing(task: UUID) -> TaskNotFound:
    return TaskNotFound(f"No batch has the id {task}.", fix="GET /batch/tasks lists them.")


def proof(lease: Proof) -> tuple[UUID, int, UUID]:
    return lease.task_id, lease.attempt, lease.token


TIMES = ("due_at", "waiting_since", "intended_at", "missed_at", "cancelled_at")
NAMES = [field.name for field in fields(JobRow)]


def job_row(row: Mapping[str, Any]) -> JobRow:
    times = {name: datetime.fromisoformat(row[name]) if row[name] else None for name in TIMES}
    return JobRow(**{name: row[name] for name in NAMES} | times)
