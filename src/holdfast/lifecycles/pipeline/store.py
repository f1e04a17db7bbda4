"""The functions of stages.sql and jobs.sql, as Python: one short method for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel

from holdfast.engine.lease_rpc import lease_rpc
from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import JSON, Json, Proof
from holdfast.errors import TaskNotFound

Status = Literal["pending", "running", "completed", "partial", "failed", "skipped"]


@dataclass(frozen=True)
class PlannedStage:
    """A stage as a worker needs it: as it was declared when the job was made, and how it stands."""

    name: str
    status: str
    needs: Sequence[str]
    when: str | None
    required: bool
    retries: int
    timeout: timedelta | None
    failures: int

    @property
    def is_done(self) -> bool:
        return self.status not in ("pending", "running")


@dataclass(frozen=True)
class Verdict:
    """What the stages make of a job: its state, and of the stage to blame its name and its errors."""

    state: str | None
    blame: str | None
    errors: Annotated[Sequence[str], JSON]


class StageRecord(BaseModel):
    """A stage of a job: why it was skipped, or what went wrong, and the files it wrote."""

    name: str
    status: Status
    reason: str | None
    errors: list[Any]
    started_at: datetime | None
    finished_at: datetime | None
    outputs: list[dict[str, Any]]
    settings: dict[str, Any] | None
    """What it has found out for the jobs to come."""


class JobRecord(BaseModel):
    """A job and its stages in their order. `summary` is what its stage of that name returned."""

    job_id: UUID
    pipeline: str
    status: str
    cancel_requested: bool
    stages: list[StageRecord]
    summary: Any
    error: str | None
    params: dict[str, Any]
    settings: dict[str, Any]
    cost_cents: float
    owner: str
    attempt: int
    waits: dict[str, Any] | None
    progress: Any
    retry_of: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Output(BaseModel):
    """A file that a stage wrote, and where it lies."""

    name: str
    stage: str
    key: str
    bytes: int
    content_type: str


class Jobs(Calls):
    """Pipelines and their jobs."""

    # For workers

    @lease_rpc
    async def stages(self, job: UUID) -> tuple[list[PlannedStage], dict[str, Json]]:
        """The stages of a job in their order, and the settings that it goes by."""
        rows = await self._table("read_stages", job)
        found = [planned(row["name"], row["status"], encode.load(row["declared"]), row["failures"]) for row in rows]
        return found, encode.load(rows[0]["settings"]) if rows else {}

    @lease_rpc
    async def adopt(self, lease: Proof) -> bool:
        """Give stages to a job that was made before its pipeline was declared; whether it has some now."""
        return bool(await self._call("adopt_job", *encode.proof(lease)))

    @lease_rpc
    async def begin(self, lease: Proof, stage: str) -> bool:
        """Say that a stage begins; False if somebody wants the job to stop. Raises LeaseLost."""
        status = await self._call("begin_stage", *encode.proof(lease), stage)
        refuse(status, lease, "a stage")
        return bool(status == "ok")

    @lease_rpc
    async def verdict(self, job: UUID) -> Verdict:
        """What the stages of a job make of it."""
        return await self._record(Verdict, "read_verdict", job)

    # For applications

    async def declare(
        self,
        name: str,
        *,
        title: str,
        stages: Sequence[Json],
        params: Mapping[str, Json],
        queue: str | None,
        max_attempts: int,
        limit_seconds: float | None,
    ) -> None:
        """Say what a pipeline is, as `Pipeline.published` gives it. Raises RequestInvalid."""
        limit = None if limit_seconds is None else timedelta(seconds=limit_seconds)
        given = (name, title, encode.dump(list(stages)), encode.dump(dict(params)), queue, max_attempts, limit)
        await self._call("declare_pipeline", *given)

    # For users

    async def pipelines(self, name: str | None = None) -> list[dict[str, Any]]:
        """What there is to run: stages, parameters, settings, and whether a worker is there that runs it."""
        return await self._documents("pipelines", encode.text(name))

    async def make(
        self, pipeline: str, params: Mapping[str, Json], *, owner: str, key: str | None = None, trace: str | None = None
    ) -> tuple[UUID, bool]:
        """A job, and whether this call made it. Raises RequestInvalid or KeyConflict."""
        given = (encode.text(pipeline), encode.dump(dict(params)), owner, encode.text(key), trace)
        row = (await self._table("make_job", *given, repeatable=key is not None))[0]
        return row["job"], row["created"]

    async def read(self, jobs: Sequence[UUID]) -> list[JobRecord]:
        """These jobs."""
        return [JobRecord.model_validate(one) for one in await self._documents("read_jobs", list(jobs))]

    async def job(self, job: UUID) -> JobRecord:
        """One of them. Raises TaskNotFound."""
        missing = TaskNotFound(f"No job has the id {job}.", fix="GET /pipeline/jobs lists them.")
        return require_one(await self.read([job]), missing)

    async def outputs(self, job: UUID) -> tuple[list[Output], datetime | None, datetime]:
        """The files that a job has made, until when they are kept (None: it runs), and the time."""
        rows = await self._table("read_outputs", job)
        if not rows:
            return [], None, await self.now()
        outputs = [Output.model_validate(encode.load(row["output"])) for row in rows]
        return outputs, rows[0]["kept_until"], rows[0]["now"]

    async def change_settings(self, pipeline: str, change: Mapping[str, Json], by: str) -> dict[str, Json]:
        """Other settings for the jobs to come; None takes one away. Answers what they are. Raises RequestInvalid."""
        given = (encode.text(pipeline), encode.dump(dict(change)), by)
        (settings,) = await self._documents("set_pipeline_settings", *given)
        return dict(settings)


def planned(name: str, status: str, declared: Mapping[str, Any], failures: int) -> PlannedStage:
    timeout = declared.get("timeout_seconds")
    return PlannedStage(
        name, status, declared.get("needs") or [], declared.get("when"), bool(declared.get("required")),
        int(declared.get("retries") or 0), timedelta(seconds=timeout) if timeout else None, failures,
    )  # fmt: skip
