"""Pipelines over HTTP: make jobs, watch them stage by stage, cancel and retry them, fetch what they wrote.

For operators, who see the jobs of everybody.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field, StrictBool

from holdfast.engine.store.commands import Store
from holdfast.engine.store.records import CountedPage
from holdfast.errors import RequestInvalid, StepUnknown, TaskNotFound
from holdfast.http.access import Operator, make_router
from holdfast.http.fields import Body, Cancel, Name
from holdfast.http.parts import Part, running_part
from holdfast.http.shapes import (
    CancelEffect,
    Creating,
    Filter,
    Items,
    Link,
    Listing,
    cancel_task,
    counted_page,
    ids_of,
    server_address,
)
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.store import JobRecord, Jobs, StageRecord
from holdfast.objects import Objects, check_kept, sign_kept

poll_after_ms = {"PENDING": 2000, "RUNNING": 1000}

PipelineName = Annotated[str, Path(min_length=1, max_length=200)]
State = Literal["PENDING", "RUNNING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
Values = Annotated[dict[str, Any], Field(max_length=1000)]


class NewJob(Body):
    """Which pipeline, and what its stages take. A flag stands beside the parameters it is one of."""

    pipeline: Name
    enable_evaluation: StrictBool | None = None
    enable_auto_optimize: StrictBool | None = None
    params: Values = Field(default_factory=dict)


class Job(JobRecord):
    """A job and its stages in their order. `summary` is what its stage of that name returned."""

    parts: list[Part]
    poll_after_ms: int | None


class Effect(CancelEffect):
    job_id: UUID
    status: str


class Retry(Body):
    """From which stage on; from the first that did not complete, if none is named."""

    from_stage: Name | None = None


class Retried(BaseModel):
    """The job that runs instead."""

    job_id: UUID
    status: str
    retry_of: UUID


class OutputLink(Link):
    stage: str
    bytes: int
    content_type: str


class Outputs(BaseModel):
    job_id: UUID
    status: str
    outputs: list[OutputLink]


class Change(Body):
    """Values for parameters that a job does not name; null takes one away, what is not named stays."""

    settings: Values


class Settings(BaseModel):
    name: str
    settings: dict[str, Any]


def routes(store: Store, objects: Objects, *, under: str = "") -> APIRouter:
    """The routes of pipelines over this store of objects. Below a prefix they are the same, and not described again."""
    router = make_router(f"{under}/pipeline", "pipeline", in_schema=not under)
    jobs = Jobs.over(store)

    @router.post("/jobs", status_code=201)
    async def create(asked: NewJob, caller: Operator, new: Creating) -> Job:
        """Make a job. The same `Idempotency-Key` makes it once; with other parameters it is refused."""
        params = params_of(asked)
        job, created = await jobs.make(asked.pipeline, params, owner=caller.owner, key=new.key, trace=new.trace)
        new.mark_repeated(not created)
        return render(await jobs.job(job))

    @router.get("/jobs")
    async def list_jobs(
        caller: Operator, listing: Listing, pipeline: Filter = None, status: State | None = None
    ) -> CountedPage[Job]:
        """Jobs, the newest first; those of one pipeline, or in one state."""
        page = await store.list_tasks(lifecycle=PIPELINE.name, name=pipeline, state=status, **vars(listing))
        found = await jobs.read(ids_of(page))
        return counted_page(page, [render(one) for one in found])

    @router.get("/jobs/{job_id}")
    async def read(job_id: UUID, caller: Operator) -> Job:
        """Where it is, stage by stage, and when to ask again."""
        return render(await jobs.job(job_id))

    @router.post("/jobs/{job_id}/cancel", status_code=202)
    async def cancel(job_id: UUID, caller: Operator, asked: Cancel | None = None) -> Effect:
        """Cancel it: at once, or through its worker. What its stages have written stays."""
        await jobs.job(job_id)
        effect = await cancel_task(store, job_id, asked, caller)
        return Effect(job_id=job_id, effect=effect, status=(await jobs.job(job_id)).status)

    @router.post("/jobs/{job_id}/retry", status_code=202)
    async def retry(job_id: UUID, caller: Operator, asked: Retry | None = None) -> Retried:
        """Run a job that has ended again as a new one, which keeps the stages before the one it begins with."""
        stage = asked.from_stage if asked else None
        found = await jobs.job(job_id)
        made = await store.retry(job_id, stage and stage_named(found, stage), by=caller.name)
        return Retried(job_id=made, status=(await jobs.job(made)).status, retry_of=job_id)

    @router.get("/jobs/{job_id}/outputs")
    async def outputs(job_id: UUID, request: Request, caller: Operator) -> Outputs:
        """Links to the files that its stages wrote, good for an hour; while it runs, of the stages that are done."""
        found = await jobs.job(job_id)
        files, kept_until, now = await jobs.outputs(job_id)
        check_kept(f"Job {job_id} is {found.status}", kept_until, now)
        server, links = server_address(request), []
        for one in files:
            link = await sign_kept(
                objects, one.key, one.name, one.content_type, until=kept_until, now=now, server=server
            )
            links.append(OutputLink(**one.model_dump(exclude={"key"}), **vars(link)))
        return Outputs(job_id=job_id, status=found.status, outputs=links)

    @router.get("/pipelines")
    async def pipelines(caller: Operator) -> Items[dict[str, Any]]:
        """What there is to run: stages, parameters, settings. `ready`: a worker is there that runs it."""
        return Items(items=await jobs.pipelines())

    @router.put("/pipelines/{name}/settings")
    async def change_settings(name: PipelineName, asked: Change, caller: Operator) -> Settings:
        """Other settings for the jobs to come. Jobs that are there keep theirs."""
        if not await jobs.pipelines(name):
            raise TaskNotFound(f"There is no pipeline {name!r}.", fix="GET /pipeline/pipelines lists them.")
        return Settings(name=name, settings=await jobs.change_settings(name, asked.settings, caller.name))

    return router


def params_of(asked: NewJob) -> dict[str, Any]:
    """The parameters with the flags. Raises RequestInvalid where both name one, and do not agree."""
    flags = asked.model_dump(include={"enable_evaluation", "enable_auto_optimize"}, exclude_none=True)
    for name, value in flags.items():
        if name in asked.params and asked.params[name] is not value:
            raise RequestInvalid(
                f"{name} is {value} here, and {asked.params[name]!r} among the parameters.", fix="Name it once."
            )
    return {**asked.params, **flags}


def stage_named(job: JobRecord, given: str) -> str:
    """The stage of a job by its name, whatever its case. Raises StepUnknown."""
    names = [one.name for one in job.stages]
    for name in names:
        if name.lower() == given.lower():
            return name
    raise StepUnknown(f"{given!r} is not a stage of this job.", fix=f"Its stages are: {', '.join(names) or 'none'}.")


def render(job: JobRecord) -> Job:
    parts = [part_of(one, job.progress) for one in job.stages]
    return Job(**vars(job), parts=parts, poll_after_ms=poll_after_ms.get(job.status))


def part_of(stage: StageRecord, progress: Any) -> Part:
    """A stage as a part of its job. What was reported of another stage is old."""
    name, status, errors = stage.name, stage.status, stage.errors
    if status == "running":
        reported = progress if isinstance(progress, dict) and progress.get("stage") == name else {}
        own = {key: value for key, value in reported.items() if key in ("note", "step") and value != name}
        return running_part(name, own, started_at=stage.started_at)  # the counts are of stages
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Part(
        name=name, status="waiting" if status == "pending" else status, note=stage.reason,
        error=f"{errors[0]}{more}" if errors else None,
    )  # fmt: skip
