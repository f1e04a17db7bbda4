"""Datasets over HTTP: made of files or addresses, listed, looked at.

A user sees only datasets of their own: another's name is answered like one that is not there.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, Field, model_validator

from holdfast.datasets import Datasets
from holdfast.errors import TaskNotFound
from holdfast.http.access import GuardedLong, needs, owned_by
from holdfast.http.fields import Body, Word, sane
from holdfast.http.problem import PROBLEMS
from holdfast.kernel.access import Principal
from holdfast.kernel.store import Store

files_at_most = 10_000

User = Annotated[Principal, needs("user", "operator")]
Uri = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(sane)]


class File(Body):
    """A file: where it is (what an upload has answered, or an address), and what people call it."""

    uri: Uri
    name: Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(sane)] | None = None


class NewDataset(Body):
    """Files or addresses under a name. The same name again makes its next version."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s/\x00]([^/\x00]*[^\s/\x00])?$")]
    files: Annotated[list[File | Uri], Field(max_length=files_at_most, fail_fast=True)] = Field(default=[])
    urls: Annotated[list[Uri], Field(max_length=files_at_most, fail_fast=True)] = Field(default=[])

    @model_validator(mode="after")
    def has_something(self) -> "NewDataset":
        if not self.files and not self.urls:
            raise ValueError("name files or urls: a dataset without any is none")
        return self


class Made(BaseModel):
    dataset_id: UUID
    version: int


class Dataset(BaseModel):
    """A dataset in its current version."""

    dataset_id: UUID
    name: str
    owner: str
    version: int
    files: int
    made_at: datetime
    made_by: str
    created_at: datetime


class FileOf(BaseModel):
    number: int
    uri: str
    name: str


class Whole(Dataset):
    items: list[FileOf]
    """The files, in their order; a thousand at most, from `after` on."""


class Page(BaseModel):
    items: list[Dataset]
    next: str | None


def routes(store: Store) -> APIRouter:
    router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=GuardedLong, responses=PROBLEMS)
    datasets = Datasets.beside(store)

    @router.post("", status_code=201)
    async def make(asked: NewDataset, caller: Annotated[Principal, needs("user")]) -> Made:
        """Make a dataset, or its next version."""
        given = [one if isinstance(one, File) else File(uri=one) for one in [*asked.files, *asked.urls]]
        files = [one.model_dump(exclude_none=True) for one in given]
        dataset, version = await datasets.make(caller.owner, asked.name, files, caller.name)
        return Made(dataset_id=dataset, version=version)

    @router.get("")
    async def list_datasets(
        caller: User, cursor: Word | None = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
    ) -> Page:
        """Datasets, by name."""
        found = await datasets.read(owned_by(caller), after=cursor, limit=limit)
        return Page(items=[Dataset(**one) for one in found], next=found[-1]["name"] if len(found) == limit else None)

    @router.get("/{name}")
    async def read(name: Word, caller: User, after: Annotated[int, Query(ge=0, le=10**9)] = 0) -> Whole:
        """A dataset by its name or its id, with its files."""
        dataset = id_in(name)
        found = await datasets.read(owned_by(caller), dataset=dataset, name=None if dataset else name, limit=1)
        if not found:
            raise TaskNotFound(f"There is no dataset {name!r}.", fix="GET /datasets lists them.")
        files = await datasets.files(UUID(found[0]["dataset_id"]), found[0]["version"], after=after)
        return Whole(**found[0], items=[FileOf(**one) for one in files])

    return router


def id_in(name: str) -> UUID | None:
    """The id that this is, if it is one."""
    try:
        return UUID(name)
    except ValueError:
        return None
