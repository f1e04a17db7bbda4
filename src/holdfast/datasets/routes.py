"""Datasets over HTTP: made of files or addresses, listed, read, downloaded; cut over and rolled back.

A user sees only datasets of their own: another's name is answered like one that is not there.
"""

import contextlib
import mimetypes
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, Field, model_validator

from holdfast.datasets.store import Datasets
from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Principal
from holdfast.errors import DatasetNotFound, RequestInvalid
from holdfast.http.access import GuardedLong, User, UserOrOperator, make_router, owned_by
from holdfast.http.fields import Body, Name, Whole, refuse_nul
from holdfast.http.shapes import Limit, Link, Page, page, server_address
from holdfast.objects import Objects, sign_kept

files_at_most = 10_000
files_in_a_page = 1000
links_in_a_page = 100

Version = Annotated[Whole, Field(ge=1, le=2**31 - 1)]
Chosen = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
After = Annotated[int, Query(ge=0, le=10**15)]
Uri = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(refuse_nul)]


class File(Body):
    """A file: where it is (what an upload has answered, or an address), and what people call it."""

    uri: Uri
    name: Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(refuse_nul)] | None = None


class NewDataset(Body):
    """Files or addresses under a name. The same name again makes its next version."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s/\x00]([^/\x00]*[^\s/\x00])?$")]
    files: Annotated[list[File | Uri], Field(max_length=files_at_most, fail_fast=True)] = Field(default=[])
    urls: Annotated[list[Uri], Field(max_length=files_at_most, fail_fast=True)] = Field(default=[])

    @model_validator(mode="after")
    def has_something(self) -> "NewDataset":
        if not self.files and not self.urls:
            raise ValueError("name files or urls: a dataset needs some")
        return self


class Made(BaseModel):
    dataset_id: UUID
    version: int


class Dataset(BaseModel):
    """A dataset in its current version; 0 while there is none to read."""

    dataset_id: UUID
    name: str
    owner: str
    version: int
    files: int
    row_count: int | None
    bytes: int | None
    made_at: datetime
    made_by: str
    created_at: datetime


class FileOf(BaseModel):
    """A file, or rows that came with an output: `uri` or `rows`."""

    number: int
    uri: str | None
    name: str
    key: str | None
    mode: str
    rows: list[dict[str, Any]] | None
    row_count: int | None
    bytes: int | None
    task_id: UUID | None
    attempt: int | None
    """Which attempt of which task has written it; null for what was uploaded."""
    version: int


class Change(BaseModel):
    """What a generation changed in the columns: `added`, `removed` or `type`."""

    column: str
    change: str
    before: str | None = None
    after: str | None = None


class Generation(BaseModel):
    """A version of a dataset: `building`, `ready`, `current`, `superseded`, `failed` or `rolled_back`."""

    version: int
    state: str
    origin: str
    run: UUID | None
    extends: bool
    cutover: str
    follows: int | None
    files: int
    row_count: int | None
    bytes: int | None
    columns: list[tuple[str, str]] | None = Field(validation_alias="schema", serialization_alias="schema")
    changes: list[Change]
    reason: str | None
    made_at: datetime
    made_by: str
    completed_at: datetime | None
    published_at: datetime | None
    ended_at: datetime | None
    kept_until: datetime | None
    by: str | None


class WithFiles(Dataset):
    """One generation with its files, in their order; a thousand at most, from `after` on."""

    state: str | None
    columns: list[tuple[str, str]] | None = Field(validation_alias="schema", serialization_alias="schema")
    published_at: datetime | None
    items: list[FileOf]
    next: int | None
    """Where the next page begins: `?version=...&after=...`; null if there is none."""
    generations: list[Generation]
    """The newest fifty, whatever became of them."""


class FileLink(Link):
    number: int
    bytes: int | None


class Downloads(BaseModel):
    """Links to those files of a generation that lie in the store of objects."""

    dataset_id: UUID
    version: int
    downloads: list[FileLink]
    next: int | None


class Cutover(Body):
    version: Version


class CutOver(BaseModel):
    """`before`: the version that was current; 0 if there was none."""

    dataset_id: UUID
    version: int
    before: int


class Rollback(Body):
    """Which generation: without one, the current."""

    version: Version | None = None


class RolledBack(BaseModel):
    """What became of it, and which is current now."""

    dataset_id: UUID
    version: int
    state: str
    current_version: int


def routes(store: Store, objects: Objects) -> APIRouter:
    router = make_router("/datasets", "datasets", guard=GuardedLong)
    datasets = Datasets.over(store)

    @router.post("", status_code=201)
    async def make(asked: NewDataset, caller: User) -> Made:
        """Make a dataset, or its next version."""
        given = [one if isinstance(one, File) else File(uri=one) for one in [*asked.files, *asked.urls]]
        files = [one.model_dump(exclude_none=True) for one in given]
        dataset, version = await datasets.make(caller.owner, asked.name, files, caller.name)
        return Made(dataset_id=dataset, version=version)

    @router.get("")
    async def list_datasets(
        caller: UserOrOperator, cursor: Name | None = None, limit: Limit = 50
    ) -> Page[Dataset, str]:
        """Datasets, by name."""
        found = await datasets.find(owned_by(caller), after=cursor, limit=limit)
        return page([Dataset(**one) for one in found], limit, lambda last: last.name)

    @router.get("/{name}")
    async def read(name: Name, caller: UserOrOperator, version: Chosen = None, after: After = 0) -> WithFiles:
        """A dataset by its name or its id, in its current generation or in `version`: one snapshot of its files."""
        dataset = await find_dataset(datasets, name, caller)
        found = await datasets.read(None, dataset=dataset, version=version, after=after, limit=files_in_a_page)
        return WithFiles(**found, generations=[Generation(**one) for one in await datasets.generations(dataset)])

    @router.get("/{name}/downloads")
    async def downloads(
        name: Name, request: Request, caller: UserOrOperator, version: Chosen = None, after: After = 0
    ) -> Downloads:
        """Links to the files of one generation, a hundred at a time, good for an hour."""
        dataset = await find_dataset(datasets, name, caller)
        found = await datasets.read(None, dataset=dataset, version=version, after=after, limit=links_in_a_page)
        now = await store.now()
        links = []
        for one in found["items"]:
            key = (one["uri"] or "").removeprefix("object:")
            if key != (one["uri"] or ""):
                saved = one["name"] if "." in one["name"] else f"{one['name']}{suffix_of(key)}"
                kind = mimetypes.guess_type(saved)[0] or "application/octet-stream"
                link = await sign_kept(objects, key, saved, kind, until=None, now=now, server=server_address(request))
                links.append(FileLink(number=one["number"], name=saved, bytes=one["bytes"], **vars(link)))
        return Downloads(dataset_id=dataset, version=found["version"], downloads=links, next=found["next"])

    @router.post("/{name}/cutover")
    async def cutover(name: Name, asked: Cutover, caller: UserOrOperator) -> CutOver:
        """Let a generation be current. 409 `not-complete` unless all of it is written."""
        dataset = await find_dataset(datasets, name, caller)
        return CutOver(dataset_id=dataset, **await datasets.cutover(dataset, asked.version, caller.name))

    @router.post("/{name}/rollback")
    async def rollback(name: Name, asked: Rollback, caller: UserOrOperator) -> RolledBack:
        """Take a generation back: of the current one, the one before is current again; what is built is cancelled."""
        dataset = await find_dataset(datasets, name, caller)
        return RolledBack(dataset_id=dataset, **await datasets.rollback(dataset, asked.version, caller.name))

    return router


async def find_dataset(datasets: Datasets, name: str, caller: Principal) -> UUID:
    """The dataset that the caller means by this name or id; their own before others'. Raises DatasetNotFound."""
    dataset = None
    with contextlib.suppress(ValueError):
        dataset = UUID(name)
    found = await datasets.find(owned_by(caller), dataset=dataset, name=None if dataset else name, limit=1000)
    own = [one for one in found if one["owner"] == caller.owner] or found
    if not own:
        raise DatasetNotFound(f"There is none called {name!r}.", fix="GET /datasets lists them.")
    if len(own) > 1:
        raise RequestInvalid(f"{len(own)} owners have a dataset {name!r}.", fix="Name it by its id: GET /datasets.")
    return UUID(own[0]["dataset_id"])


def suffix_of(key: str) -> str:
    """How the name of an object ends: `.parquet`, or nothing."""
    _, dot, suffix = key.rpartition("/")[2].rpartition(".")
    return f".{suffix}" if dot else ""
