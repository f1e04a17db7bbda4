"""User tasks over HTTP: create, upload, process, watch, cancel, download; and the wallet that pays for them.

A user touches only tasks of their own: another's id is answered like one that is not there.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import LOCAL, Principal
from holdfast.errors import MoveRefused, TaskExpired, WalletNotFound
from holdfast.http.access import Guarded, needs, owned_by
from holdfast.http.fields import Body, Cancel, Name, Whole
from holdfast.http.headers import IdempotencyKey, TraceParent, trace_of
from holdfast.http.problem import PROBLEMS, problem
from holdfast.lifecycles.analysis.files import (
    PARAMETERS,
    Promise,
    sign_downloads,
    sign_uploads,
    table_most_bytes,
)
from holdfast.lifecycles.analysis.intake import Intake
from holdfast.lifecycles.analysis.status import render
from holdfast.objects import Objects

local_credits = 1000

User = Annotated[Principal, needs("user", "operator")]
Operator = Annotated[Principal, needs("operator")]
PATHS = re.compile(r"[\x00-\x1f\x7f/\\]")


def plain(name: str) -> str:
    if PATHS.search(name):
        raise ValueError("is a path, or holds what no name holds; send the name alone, without slashes")
    return name


Filename = Annotated[str, Field(min_length=1, max_length=255, examples=["data.csv"]), AfterValidator(plain)]
ContentType = Annotated[
    str, Field(max_length=150, pattern=r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(; ?charset=[A-Za-z0-9._-]+)?$")
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$"), AfterValidator(str.lower)]
Owner = Annotated[str, Path(max_length=200)]
Cursor = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


class NewAnalysis(Body):
    """Which tool, and which of its agents, in the order in which they are to run. `GET /tools` lists them."""

    tool_id: Name
    agents: Annotated[list[Name], Field(max_length=100, fail_fast=True)]


class Created(BaseModel):
    task_id: UUID
    status: Literal["CREATED"] = "CREATED"
    created_at: datetime
    expires_at: datetime


class File(Body):
    """A file to be uploaded. A size or a checksum that is named here is insisted on."""

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


class UploadLink(BaseModel):
    """Send the bytes to `url` with this method and these headers, unless they are there already."""

    url: str
    method: str
    headers: dict[str, str]
    expires_at: datetime
    uploaded: bool


class Uploads(BaseModel):
    task_id: UUID
    status: str
    uploads: dict[str, UploadLink]
    expires_at: datetime


class Queued(BaseModel):
    task_id: UUID
    status: str


class Effect(BaseModel):
    task_id: UUID
    status: str
    effect: Literal["cancelled", "requested", "too_late"]


class DownloadLink(BaseModel):
    name: str
    url: str
    bytes: int
    content_type: str
    expires_at: datetime


class Downloads(BaseModel):
    task_id: UUID
    status: str
    downloads: list[DownloadLink]


class ToolList(BaseModel):
    items: list[dict[str, Any]]


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
    router = APIRouter(tags=["analysis"], route_class=Guarded, responses=PROBLEMS)
    intake = Intake(store, objects)
    analyses = intake.analyses

    @router.get("/tools")
    async def tools(caller: User) -> ToolList:
        """What can be asked for, and what it costs."""
        return ToolList(items=await analyses.tools())

    @router.post("/tasks", status_code=201)
    async def create(
        asked: NewAnalysis,
        response: Response,
        caller: User,
        idempotency_key: IdempotencyKey = None,
        traceparent: TraceParent = None,
    ) -> Created:
        """Make a task. The same `Idempotency-Key` makes it once; with another body it is refused."""
        made = await analyses.make(
            asked.tool_id, asked.agents, owner=caller.owner, key=idempotency_key, trace=trace_of(traceparent)
        )
        if not made.created:
            response.headers["Idempotency-Replayed"] = "true"
        return Created(task_id=made.task_id, created_at=made.created_at, expires_at=made.expires_at)

    @router.get("/tasks/{task_id}")
    async def read(task_id: UUID, caller: User) -> dict[str, Any]:
        """Where it is, how far, what to do next, and when to ask again."""
        return render(await analyses.read(task_id, owned_by(caller)))

    @router.post("/tasks/{task_id}/upload-urls")
    async def upload_urls(task_id: UUID, asked: Wanted, request: Request, caller: User) -> Uploads:
        """Links to upload by, and fifteen minutes more, up to an hour in all.

        Whoever promises the same file again keeps its place while it is not there, and what is there if its sha256 was
        promised; otherwise what was uploaded by older links does not count any more.
        """
        found = await analyses.read(task_id, owned_by(caller))
        files = await intake.promise(found, promises_of(asked))
        found = await analyses.read(task_id)
        if found["state"] != "UPLOADING":
            raise MoveRefused(
                f"Task {task_id} is {found['state']} meanwhile.", fix="Nothing is to be uploaded any more."
            )
        now, until = (datetime.fromisoformat(found[name]) for name in ("now", "deadline"))
        signed = await sign_uploads(objects, files, now=now, until=until, server=server_of(request))
        uploads = {one["role"]: UploadLink(**vars(signed[one["role"]]), uploaded=one["uploaded"]) for one in files}
        return Uploads(task_id=task_id, status=found["state"], uploads=uploads, expires_at=until)

    @router.post("/tasks/{task_id}/process", status_code=202)
    async def process(task_id: UUID, caller: User) -> Queued:
        """Verify what was uploaded, set the credits aside, and queue the task. Calling it again changes nothing."""
        found = await analyses.read(task_id, owned_by(caller))
        if caller is LOCAL:
            await analyses.open_wallet(caller.owner, local_credits, caller.name)
        return Queued(task_id=task_id, status=await intake.process(found))

    @router.post("/tasks/{task_id}/cancel", status_code=202)
    async def cancel(task_id: UUID, caller: User, asked: Cancel | None = None) -> Effect:
        """Cancel it: at once, or when its worker hears of it. What agents have completed stays paid."""
        owner = owned_by(caller)
        await analyses.read(task_id, owner)
        effect: Any = await store.cancel(task_id, asked.reason if asked else None, by=caller.name)
        return Effect(task_id=task_id, effect=effect, status=(await analyses.read(task_id, owner))["state"])

    @router.get("/tasks/{task_id}/downloads")
    async def downloads(task_id: UUID, request: Request, caller: User) -> Downloads:
        """Links to what the agents wrote. Of a task that ended early: to what was completed and paid."""
        found = await analyses.read(task_id, owned_by(caller))
        refuse_downloads(found)
        now = datetime.fromisoformat(found["now"])
        links = [
            DownloadLink(name=output["name"], bytes=output["bytes"], content_type=output["content_type"], **vars(link))
            for output, link in await sign_downloads(objects, found, now=now, server=server_of(request))
        ]
        return Downloads(task_id=task_id, status=found["state"], downloads=links)

    @router.get("/wallet")
    async def wallet(
        request: Request,
        caller: User,
        cursor: Cursor = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Any:
        """The caller's own credits."""
        if caller is LOCAL:
            await analyses.open_wallet(caller.owner, local_credits, caller.name)
        return await shown(request, caller.owner, cursor, limit)

    @router.get("/wallets/{owner}")
    async def wallet_of(
        owner: Owner,
        request: Request,
        caller: Operator,
        cursor: Cursor = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Any:
        """Somebody's credits, for operators."""
        return await shown(request, owner, cursor, limit)

    async def shown(request: Request, owner: str, cursor: int | None, limit: int) -> Any:
        try:
            return Wallet(**await analyses.read_wallet(owner, cursor, limit))
        except WalletNotFound as error:
            return problem(request, 404, error.title, f"{error.detail} {error.fix}", code=error.http_code)

    @router.post("/wallets/{owner}/top-up")
    async def top_up(
        owner: Owner, asked: TopUp, response: Response, caller: Operator, idempotency_key: IdempotencyKey = None
    ) -> Wallet:
        """Add credits; a wallet that is not there is opened. With an `Idempotency-Key` it counts once."""
        if not await analyses.top_up(owner, asked.credits, caller.name, idempotency_key):
            response.headers["Idempotency-Replayed"] = "true"
        return Wallet(**await analyses.read_wallet(owner))

    return router


def promises_of(asked: Wanted) -> list[Promise]:
    files = {"primary": asked.files.primary, "baseline": asked.files.baseline}
    named = [Promise(role, **file.model_dump()) for role, file in files.items() if file]
    return [*named, PARAMETERS] if asked.has_parameters else named


def refuse_downloads(found: dict[str, Any]) -> None:
    """Raise MoveRefused for a task that has not ended, TaskExpired for one whose files are gone."""
    state, until = found["state"], found["outputs_kept_until"]
    if until is None:
        raise MoveRefused(
            f"Task {found['task_id']} is {state}: there is nothing to download yet.",
            fix="Ask again when GET /tasks/{id} says COMPLETED.",
        )
    if datetime.fromisoformat(until) <= datetime.fromisoformat(found["now"]):
        raise TaskExpired(
            f"Task {found['task_id']} is {state}; its files were kept until {until}.", fix="Create a new task."
        )


def server_of(request: Request) -> str:
    """The address under which the client knows this server."""
    return str(request.base_url).rstrip("/")
