"""Document ingestion over HTTP: upload, run, watch, search.

A user touches only runs and documents of their own: another's id is answered like one that is not there.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, Field

from holdfast.distribution import install_hint
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.errors import RequestInvalid, TaskNotFound
from holdfast.http.access import GuardedLong, User, UserOrOperator, check_visible, make_router, owned_by
from holdfast.http.fields import Body, Cancel, Name, Real, Text, Whole, refuse_nul
from holdfast.http.parts import Part, PartStatus
from holdfast.http.shapes import (
    CancelEffect,
    Creating,
    Filter,
    Items,
    Limit,
    Link,
    Listing,
    Page,
    cancel_task,
    ids_of,
    page,
    server_address,
)
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM, STEPS
from holdfast.lifecycles.ingest.store import Embedder, Hit, Library, Mode, RunRecord
from holdfast.objects import Objects, UploadSpec

files_at_most = 10_000
uploads_at_once = 200
document_most_bytes = 100 * 1024**2
upload_lasting = timedelta(hours=1)
SCHEMES = ("file:///", "http://", "https://", "object:")


def fetchable(uri: str) -> str:
    if not uri.startswith(SCHEMES):
        raise ValueError("is not https://..., http://..., file:///... or what an upload has answered")
    return uri


Uri = Annotated[str, Field(max_length=4000), AfterValidator(refuse_nul), AfterValidator(fetchable)]
DocumentName = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(refuse_nul)]
Cents = Annotated[Real, Field(ge=0, le=1e11)]


class Source(Body):
    """A document: where it is, and the name by which it is known. The same name again replaces it."""

    uri: Uri
    name: DocumentName | None = None


class NewRun(Body):
    """Documents to ingest. `force`: also those that are as they were. `budget_cents`: ask me when that is spent."""

    kind: Name = "documents"
    files: Annotated[list[Uri | Source], Field(min_length=1, max_length=files_at_most, fail_fast=True)]
    budget_cents: Cents | None = None
    force: bool = False


class Budget(Body):
    """What a run may cost in all; null for as much as it takes."""

    budget_cents: Cents | None


class Run(RunRecord):
    """Where a run is. The counts sum up to the total; `steps` says how many items have done each."""

    parts: list[Part]


class Effect(CancelEffect):
    run_id: UUID


class File(Body):
    """A document to be uploaded, as it is."""

    name: DocumentName
    content_type: Annotated[str, Field(max_length=150)] = "application/octet-stream"
    size: Annotated[Whole, Field(ge=0, le=document_most_bytes)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class NewUploads(Body):
    files: Annotated[list[File], Field(min_length=1, max_length=uploads_at_once, fail_fast=True)]


class UploadLink(Link):
    """Send the bytes to `url`; then name `uri` in a run."""

    uri: str
    method: str
    headers: dict[str, str]


class Uploads(BaseModel):
    uploads: list[UploadLink]


class Found(BaseModel):
    """Chunks, the best first, and how they were searched: `text` alone where no embedder is at hand."""

    query: str
    mode: Mode
    items: list[Hit]


def routes(store: Store, objects: Objects, embedder: Embedder | None) -> APIRouter:
    """The routes of ingestion over these objects; without an embedder, documents are searched by their words alone."""
    router = make_router("/ingest", "ingest", guard=GuardedLong)
    library = Library.over(store)

    @router.post("/runs", status_code=201)
    async def create(asked: NewRun, caller: User, new: Creating) -> Run:
        """Ingest documents: one item for each. The same `Idempotency-Key` makes the run once."""
        known = await store.known_task(asked.kind) or {}
        given: dict[str, Any] = {"owner": caller.owner, "trace": new.trace}
        budget = {} if asked.budget_cents is None else {"budget_cents": asked.budget_cents}
        run = Submission(asked.kind, budget, INGEST.name, key=new.key, **given)
        items = [
            Submission(
                asked.kind, payload(one, force=asked.force), INGEST_ITEM.name, known.get("queue"), parent=0,
                max_attempts=known.get("max_attempts"), **given,
            )
            for one in asked.files
        ]  # fmt: skip
        made = (await store.submit(run, *items))[0]
        assert made.id is not None  # noqa: S101
        new.mark_repeated(not made.created)
        return render(await library.run(made.id))

    @router.get("/runs")
    async def runs(caller: UserOrOperator, listing: Listing, status: Filter = None) -> Page[Run, UUID]:
        """Runs, the newest first."""
        listed = await store.list_tasks(lifecycle=INGEST.name, state=status, owner=owned_by(caller), **vars(listing))
        found = await library.runs(ids_of(listed))
        return Page(items=[render(one) for one in found], next=listed.next)

    @router.get("/runs/{run_id}")
    async def read(run_id: UUID, caller: UserOrOperator) -> Run:
        """How far it is, and what it has cost."""
        return render(await library.run(run_id, owned_by(caller)))

    @router.get("/runs/{run_id}/items")
    async def items(
        run_id: UUID, caller: UserOrOperator, status: Filter = None, cursor: UUID | None = None, limit: Limit = 50
    ) -> Page[dict[str, Any], UUID]:
        """Its items in their order, each with the step it is at and what went wrong."""
        await library.run(run_id, owned_by(caller))
        found = await library.items(run_id, after=cursor, limit=limit, status=status)
        return page(found, limit, lambda last: UUID(last["item_id"]))

    @router.put("/runs/{run_id}/budget")
    async def set_budget(run_id: UUID, asked: Budget, caller: UserOrOperator) -> Run:
        """Let it spend more, or less. Items that wait for it go on."""
        cents = None if asked.budget_cents is None else Decimal(str(asked.budget_cents))
        await library.set_budget(run_id, cents, owned_by(caller))
        return render(await library.run(run_id))

    @router.post("/runs/{run_id}/cancel", status_code=202)
    async def cancel(run_id: UUID, caller: UserOrOperator, asked: Cancel | None = None) -> Effect:
        """Cancel it with all its items that have not ended. What is in stays in."""
        await library.run(run_id, owned_by(caller))
        return Effect(run_id=run_id, effect=await cancel_task(store, run_id, asked, caller))

    @router.get("/items/{item_id}")
    async def item(item_id: UUID, caller: UserOrOperator) -> dict[str, Any]:
        """One item, also one that was retried outside of its run."""
        await check_visible(store, caller, item_id)
        return await library.item(item_id)

    @router.get("/items/{item_id}/events")
    async def events(item_id: UUID, caller: UserOrOperator) -> Items[dict[str, Any]]:
        """What happened to it, step by step, with what each used and which category a failure had."""
        await check_visible(store, caller, item_id)
        return Items(items=await library.events(item_id))

    @router.post("/uploads", status_code=201)
    async def upload(asked: NewUploads, request: Request, caller: User) -> Uploads:
        """Links to upload documents by, good for an hour. What was uploaded is kept for eight days."""
        place, now = await library.open_uploads(caller.owner)
        links = []
        for number, one in enumerate(asked.files):
            key = f"{place}/{number}-{as_key(one.name)}"
            upload = UploadSpec(key, one.content_type, document_most_bytes, one.size, one.sha256)
            address = server_address(request)
            signed = await objects.sign_upload(upload, now=now, lasting=upload_lasting, server=address)
            links.append(UploadLink(name=one.name, uri=f"object:{key}", **vars(signed)))
        return Uploads(uploads=links)

    @router.get("/documents")
    async def documents(
        caller: UserOrOperator, cursor: UUID | None = None, limit: Limit = 50
    ) -> Page[dict[str, Any], UUID]:
        """What can be searched, the newest first."""
        found = await library.documents(owned_by(caller), before=cursor, limit=limit)
        return page(found, limit, lambda last: UUID(last["document_id"]))

    @router.delete("/documents/{document_id}", status_code=204)
    async def remove(document_id: UUID, caller: UserOrOperator) -> None:
        """Let a document be found no more."""
        if not await library.remove(document_id, owned_by(caller)):
            raise TaskNotFound(f"No document has the id {document_id}.", fix="GET /ingest/documents lists them.")

    @router.get("/search")
    async def search(
        caller: UserOrOperator,
        q: Annotated[Text, Query(min_length=1)],
        mode: Mode = "hybrid",
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> Found:
        """The best chunks of the caller's documents."""
        if embedder is None and mode == "vector":
            raise RequestInvalid("No embedder is installed here.", fix=f"{install_hint('ingest')}, then restart.")
        chosen: Mode = mode if embedder else "text"
        vector = (await embedder.embed([q]))[0] if embedder and chosen != "text" else None
        hits = await library.search(
            q, embedder=embedder.name if embedder else None, vector=vector, mode=chosen, owner=owned_by(caller),
            limit=limit,
        )  # fmt: skip
        return Found(query=q, mode=chosen, items=hits)

    return router


def render(run: RunRecord) -> Run:
    return Run(**vars(run), parts=list(parts_of(run)))


def parts_of(run: RunRecord) -> Iterator[Part]:
    """The steps as parts of a run: how many documents have done each. Steps of one's own come before PERSISTED."""
    total, steps = run.item_count_total, run.steps
    own, persisted = sorted(steps.keys() - set(STEPS)), STEPS.index("PERSISTED")
    for name in (*STEPS[:persisted], *own, *STEPS[persisted:]):
        done = steps.get(name, 0)
        status: PartStatus = "running" if done else "waiting"
        if run.status == "COMPLETED" or done == total:
            status = "completed"
        elif run.finished_at:
            status = "partial" if done else "skipped"
        yield Part(name=name, status=status, done=done, total=total)


def as_key(name: str) -> str:
    """The end of a name, as a part of a key, so that the key shows what it is."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2])[-100:].strip(".-") or "file"


def payload(source: str | Source, *, force: bool) -> dict[str, Any]:
    """The input of an item."""
    given = {"uri": source} if isinstance(source, str) else source.model_dump(exclude_none=True)
    return {**given, **({"force": True} if force else {})}
