"""User tasks over HTTP: create, upload, process, watch, cancel, download; and the wallet that pays for them.

A user reaches only tasks of their own: another's id is answered like a missing one.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator, BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import LOCAL, Principal
from holdfast.errors import WalletNotFound
from holdfast.http.access import Operator, UserOrOperator, make_router, owned_by
from holdfast.http.fields import Body, Cancel, Name, Whole
from holdfast.http.problem import problem
from holdfast.http.shapes import CancelEffect, Creating, Items, Keyed, Limit, Link, cancel_task, server_address
from holdfast.lifecycles.analysis.intake import PARAMETERS, Intake, table_most_bytes
from holdfast.lifecycles.analysis.status import render
from holdfast.lifecycles.analysis.store import Promise
from holdfast.objects import Objects, Upload

local_credits = 1000

PATHS = re.compile(r"[\x00-\x1f\x7f/\\]")


def check_filename(name: str) -> str:
    if PATHS.search(name):
        raise ValueError("is a path, or holds characters that no name has; send the name alone, without slashes")
    return name


Filename = Annotated[str, Field(min_length=1, max_length=255, examples=["data.csv"]), AfterValidator(check_filename)]
ContentType = Annotated[
    str, Field(max_length=150, pattern=r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(; ?charset=[A-Za-z0-9._-]+)?$")
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$"), AfterValidator(str.lower)]
Owner = Annotated[str, Path(max_length=200)]
Cursor = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


class NewAnalysis(Body):
    """A tool, and those of its agents that are to run, in their order. `GET /tools` lists them."""

    tool_id: Name
    agents: Annotated[list[Name], Field(max_length=100, fail_fast=True)]


class TaskStatus(BaseModel):
    task_id: UUID
    status: str


class Created(TaskStatus):
    status: Literal["CREATED"] = "CREATED"
    created_at: datetime
    expires_at: datetime


class File(Body):
    """A file to be uploaded. A size or a checksum that is named here is verified."""

    filename: Filename
    content_type: ContentType
    size: Annotated[Whole, Field(ge=0, le=table_most_bytes)] | None = None
    sha256: Sha256 | None = None


class Files(Body):
    primary: File
    baseline: File | None = None


class Wanted(Body):
    files: Files
    has_parameters: bool = False


@dataclass(frozen=True)
class UploadLink(Upload):
    """Send the bytes to `url` with this method and these headers, unless they are there already."""

    uploaded: bool


class Uploads(TaskStatus):
    uploads: dict[str, UploadLink]
    expires_at: datetime


class Effect(CancelEffect, TaskStatus):
    """What cancelling did, and the state afterwards."""


class DownloadLink(Link):
    bytes: int
    content_type: str


class Downloads(TaskStatus):
    downloads: list[DownloadLink]


class TopUp(Body):
    credits: Annotated[Whole, Field(ge=1, le=10**12)]


class Wallet(BaseModel):
    """What can be spent, what is set aside for tasks under way, what was spent; and the newest transfers."""

    owner: str
    balance: int
    reserved: int
    spent: int
    entries: list[dict[str, Any]]
    next: int | None = None


def routes(store: Store, objects: Objects) -> APIRouter:
    """The routes of user tasks over this store of objects."""
    router = make_router("", "analysis")
    intake = Intake(store, objects)
    analyses = intake.analyses

    @router.get("/tools")
    async def tools(caller: UserOrOperator) -> Items[dict[str, Any]]:
        """The tools, their agents, and their prices."""
        return Items(items=await analyses.tools())

    @router.post("/tasks", status_code=201)
    async def create(asked: NewAnalysis, caller: UserOrOperator, new: Creating) -> Created:
        """Make a task. The same `Idempotency-Key` makes it once; with another body it is refused."""
        made = await analyses.make(asked.tool_id, asked.agents, owner=caller.owner, key=new.key, trace=new.trace)
        new.mark_repeated(not made.created)
        return Created(task_id=made.task_id, created_at=made.created_at, expires_at=made.expires_at)

    @router.get("/tasks/{task_id}")
    async def read(task_id: UUID, caller: UserOrOperator) -> dict[str, Any]:
        """Its state, its progress, what to do next, and when to ask again."""
        return render(await analyses.read(task_id, owned_by(caller)))

    @router.post("/tasks/{task_id}/upload-urls")
    async def upload_urls(task_id: UUID, asked: Wanted, request: Request, caller: UserOrOperator) -> Uploads:
        """Links to upload by, and fifteen minutes more, up to an hour in all.

        A file that is promised again keeps its place while it is not there; one that is there stays if its sha256 was
        promised. Otherwise uploads by older links do not count any more.
        """
        files = await intake.promise(await analyses.read(task_id, owned_by(caller)), promises_of(asked))
        task = await analyses.read(task_id)
        signed = await intake.sign_uploads(task, files, server_address(request))
        uploads = {one.role: UploadLink(**vars(signed[one.role]), uploaded=one.uploaded) for one in files}
        return Uploads(task_id=task_id, status=task.state, uploads=uploads, expires_at=signed["primary"].expires_at)

    @router.post("/tasks/{task_id}/process", status_code=202)
    async def process(task_id: UUID, caller: UserOrOperator) -> TaskStatus:
        """Verify what was uploaded, set the credits aside, and queue the task. Calling it again changes nothing."""
        task = await analyses.read(task_id, owned_by(caller))
        await open_local_wallet(caller)
        return TaskStatus(task_id=task_id, status=await intake.process(task))

    @router.post("/tasks/{task_id}/cancel", status_code=202)
    async def cancel(task_id: UUID, caller: UserOrOperator, asked: Cancel | None = None) -> Effect:
        """Cancel it: at once, or through its worker. The agents that have completed stay charged."""
        await analyses.read(task_id, owned_by(caller))
        effect = await cancel_task(store, task_id, asked, caller)
        return Effect(task_id=task_id, effect=effect, status=(await analyses.read(task_id)).state)

    @router.get("/tasks/{task_id}/downloads")
    async def downloads(task_id: UUID, request: Request, caller: UserOrOperator) -> Downloads:
        """Links to what the agents wrote. Of a task that ended early: to what was completed and paid."""
        task = await analyses.read(task_id, owned_by(caller))
        links = [
            DownloadLink(**vars(output), **vars(link))
            for output, link in await intake.sign_downloads(task, server_address(request))
        ]
        return Downloads(task_id=task_id, status=task.state, downloads=links)

    @router.get("/wallet")
    async def wallet(request: Request, caller: UserOrOperator, cursor: Cursor = None, limit: Limit = 50) -> Any:
        """The caller's own credits."""
        await open_local_wallet(caller)
        return await read_wallet(request, caller.owner, cursor, limit)

    @router.get("/wallets/{owner}")
    async def wallet_of(
        owner: Owner, request: Request, caller: Operator, cursor: Cursor = None, limit: Limit = 50
    ) -> Any:
        """The credits of any owner, for operators."""
        return await read_wallet(request, owner, cursor, limit)

    @router.post("/wallets/{owner}/top-up")
    async def top_up(owner: Owner, asked: TopUp, caller: Operator, new: Keyed) -> Wallet:
        """Add credits; opens the wallet if there is none. With an `Idempotency-Key` it counts once."""
        new.mark_repeated(not await analyses.top_up(owner, asked.credits, caller.name, new.key))
        return Wallet(**await analyses.read_wallet(owner))

    async def open_local_wallet(caller: Principal) -> None:
        if caller is LOCAL:
            await analyses.open_wallet(caller.owner, local_credits, caller.name)

    async def read_wallet(request: Request, owner: str, cursor: int | None, limit: int) -> Any:
        try:
            return Wallet(**await analyses.read_wallet(owner, cursor, limit))
        except WalletNotFound as error:
            return problem(request, 404, error.title, f"{error.detail} {error.fix}", code=error.http_code)

    return router


def promises_of(asked: Wanted) -> list[Promise]:
    files = {"primary": asked.files.primary, "baseline": asked.files.baseline}
    named = [Promise(role, **file.model_dump()) for role, file in files.items() if file]
    return [*named, PARAMETERS] if asked.has_parameters else named
