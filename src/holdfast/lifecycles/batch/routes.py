"""Batches over HTTP: made, watched, cancelled, done again where they failed; and the providers that do them.

A user touches only batches of their own: another's id is answered like one that is not there.
"""

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.engine.store.records import CountedPage
from holdfast.errors import MoveRefused, RequestInvalid
from holdfast.http.access import GuardedLong, Operator, User, UserOrOperator, make_router, owned_by
from holdfast.http.fields import Body, Cancel, Name, Text, refuse_nul
from holdfast.http.parts import Part, PartStatus
from holdfast.http.shapes import (
    CancelEffect,
    Creating,
    Items,
    Keyed,
    Link,
    Listing,
    cancel_task,
    counted_page,
    ids_of,
    server_address,
)
from holdfast.lifecycles.batch.declaration import BATCH
from holdfast.lifecycles.batch.store import Batches, BatchRecord, Job, ProviderOffer
from holdfast.objects import Objects, check_kept, sign_kept

urls_at_most = 10_000
poll_after_ms = {"PENDING": 1000, "IN_PROGRESS": 2000}

JOBS: Mapping[str, tuple[PartStatus, str]] = {
    "PLANNED": ("waiting", "not sent yet"),
    "INTENDED": ("running", "being sent"),
    "SUBMITTED": ("running", "sent"),
    "ENDED": ("running", "its results are fetched"),
    "PARKED": ("waiting", "waits for a person"),
    "COMPLETED": ("completed", ""),
    "PARTIAL_COMPLETE": ("partial", ""),
    "FAILED": ("failed", ""),
    "CANCELLED": ("cancelled", ""),
}
"""What the status of a job is as that of a part, and what to say of it."""

Uri = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(refuse_nul)]
Ids = Annotated[list[UUID], Field(max_length=100)]
State = Annotated[Literal["PENDING", "IN_PROGRESS", "COMPLETED", "PARTIAL_COMPLETE", "FAILED", "CANCELLED"], Query()]


class NewBatch(Body):
    """What is to be done, by whom, and with what. Prompts of a completion come in files, one in a line."""

    task_type: Name
    provider: Name
    dataset_ids: Ids = Field(default=[])
    input_dataset_ids: Ids = Field(default=[])
    urls: Annotated[list[Uri], Field(max_length=urls_at_most, fail_fast=True)] = Field(default=[])
    models: Annotated[list[Name], Field(max_length=20)] = Field(default=[])


class Batch(BatchRecord):
    """A batch, with its jobs as parts that are watched like those of any other work."""

    parts: list[Part]
    poll_after_ms: int | None


class Effect(CancelEffect):
    task_id: UUID
    status: str


class Again(BaseModel):
    """The batch that does what failed in another."""

    task_id: UUID
    status: str
    retry_of: UUID


class Resolution(Body):
    """What a person decides about a job that waits for one.

    go_on: try again what it was at. adopt: it is the provider's `external_job_id`. resubmit: it was never begun.
    give_up: it has failed.
    """

    action: Literal["go_on", "adopt", "resubmit", "give_up"]
    external_job_id: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(refuse_nul)] | None = None
    note: Text | None = None


class Resolved(BaseModel):
    task_id: UUID
    job: int
    status: str


class Downloads(BaseModel):
    task_id: UUID
    status: str
    downloads: list[Link]


def routes(store: Store, objects: Objects) -> APIRouter:
    """The routes of batches over this store of objects."""
    router = make_router("/batch", "batch", guard=GuardedLong)
    batches = Batches.over(store)

    @router.post("/tasks", status_code=201)
    async def create(asked: NewBatch, caller: User, new: Creating) -> Batch:
        """Make a batch. The same `Idempotency-Key` makes it once; with other inputs it is refused."""
        if asked.dataset_ids and asked.input_dataset_ids:
            raise RequestInvalid("dataset_ids and input_dataset_ids are the same.", fix="Name one of them.")
        task, created = await batches.make(
            asked.task_type, asked.provider, urls=asked.urls, datasets=asked.dataset_ids or asked.input_dataset_ids,
            models=asked.models, owner=caller.owner, key=new.key, trace=new.trace,
        )  # fmt: skip
        new.mark_repeated(not created)
        return render_batch(await batches.batch(task))

    @router.get("/tasks")
    async def list_batches(caller: UserOrOperator, listing: Listing, status: State | None = None) -> CountedPage[Batch]:
        """Batches, the newest first."""
        page = await store.list_tasks(lifecycle=BATCH.name, state=status, owner=owned_by(caller), **vars(listing))
        found = await batches.read(ids_of(page), whole=False)
        return counted_page(page, [render_batch(one) for one in found])

    @router.get("/tasks/{task_id}")
    async def read(task_id: UUID, caller: UserOrOperator) -> Batch:
        """Where it is, job by job, and when to ask again."""
        return render_batch(await batches.batch(task_id, owned_by(caller)))

    @router.post("/tasks/{task_id}/cancel", status_code=202)
    async def cancel(task_id: UUID, caller: UserOrOperator, asked: Cancel | None = None) -> Effect:
        """Cancel it. What its provider is at work on is stopped, or reported to a person where it cannot be."""
        await batches.batch(task_id, owned_by(caller), whole=False)
        effect = await cancel_task(store, task_id, asked, caller)
        now = await batches.batch(task_id, whole=False)
        return Effect(task_id=task_id, effect=effect, status=now.status)

    @router.post("/tasks/{task_id}/retry-failed", status_code=202)
    async def retry_failed(task_id: UUID, caller: UserOrOperator, new: Keyed) -> Again:
        """Do what failed again, and only that, as a new batch that is linked to this one."""
        found = await batches.batch(task_id, owned_by(caller), whole=False)
        files = await batches.files(task_id)
        if found.finished_at is None or files.manifest_key is None:
            raise MoveRefused(
                f"Batch {task_id} is {found.status}: nothing is known of each of its inputs.",
                fix=f"Do all of it again: holdfast retry {task_id}"
                if found.finished_at
                else f"Wait until it is over: holdfast batch watch {task_id}",
            )
        check_kept(f"Batch {task_id} is {found.status}", files.kept_until, files.now)
        if not found.manifest.failed:
            raise MoveRefused(f"Nothing failed in batch {task_id}.", fix="There is nothing to do again.")
        task, created = await batches.make(
            found.task_type, found.provider, models=found.models, owner=found.owner, key=new.key,
            again_of=task_id,
        )  # fmt: skip
        new.mark_repeated(not created)
        return Again(task_id=task, status="PENDING", retry_of=task_id)

    @router.post("/tasks/{task_id}/jobs/{number}/resolve", status_code=202)
    async def resolve(
        task_id: UUID, number: Annotated[int, Field(ge=1, le=10**6)], asked: Resolution, caller: Operator
    ) -> Resolved:
        """Decide about a job that waits for a person; then it goes on."""
        await batches.batch(task_id, whole=False)
        status = await batches.resolve(
            task_id, number, asked.action, asked.external_job_id, by=caller.name, note=asked.note
        )
        return Resolved(task_id=task_id, job=number, status=status)

    @router.get("/tasks/{task_id}/downloads")
    async def downloads(task_id: UUID, request: Request, caller: UserOrOperator) -> Downloads:
        """Links to the results and to the manifest, good for an hour."""
        found = await batches.batch(task_id, owned_by(caller), whole=False)
        files = await batches.files(task_id)
        check_kept(f"Batch {task_id} is {found.status}", files.kept_until, files.now)
        links = []
        for name, key in (("result.json", files.result_key), ("manifest.json", files.manifest_key)):
            if key:
                link = await sign_kept(
                    objects, key, name, "application/json", until=files.kept_until, now=files.now,
                    server=server_address(request),
                )  # fmt: skip
                links.append(Link(name=name, **vars(link)))
        return Downloads(task_id=task_id, status=found.status, downloads=links)

    @router.get("/providers")
    async def providers(caller: UserOrOperator) -> Items[ProviderOffer]:
        """Who does what here: what is set up, whether a worker is there for it, and how its open jobs fare."""
        return Items(items=await batches.providers())

    return router


def render_batch(batch: BatchRecord) -> Batch:
    parts = [part_of(one) for one in batch.jobs]
    return Batch(**vars(batch), parts=parts, poll_after_ms=poll_after_ms.get(batch.status))


def part_of(job: Job) -> Part:
    """A job as a part of its batch: what its provider says of it, or what it waits for."""
    status, note = JOBS[job.status]
    if job.status == "SUBMITTED":
        note = job.provider_status or note
    elif job.finished_at and job.ok != job.inputs:
        note = f"{job.ok:,} of {job.inputs:,} ok"
    name = f"job {job.number}" + (f" {job.model}" if job.model else "")
    return Part(name=name, status=status, done=job.done, total=job.inputs, note=note or None, error=job.error)
