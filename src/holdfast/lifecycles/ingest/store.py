"""The functions of documents.sql, runs.sql and search.sql, as Python: one short method for each."""

import base64
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, PlainSerializer, PlainValidator

from holdfast.engine.lease_rpc import lease_rpc
from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.engine.task import Proof
from holdfast.errors import TaskNotFound

Mode = Literal["hybrid", "text", "vector"]

chunks_at_once = 200


def numbers(text: object) -> "array[float]":
    """Out of the text that `as_text` makes. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("Vectors are sent as a text.")
    return array("f", base64.b64decode(text, validate=True))


def as_text(numbers: "array[float]") -> str:
    return base64.b64encode(numbers.tobytes()).decode()


# Numbers of four bytes each, one vector after the other. At runtime an array takes no type.
if TYPE_CHECKING:
    Vectors = array[float]
else:
    Vectors = Annotated[array, PlainValidator(numbers), PlainSerializer(as_text)]


@dataclass(frozen=True)
class Passage:
    """A chunk of a document as it is persisted: `text` is what stands from `starts` to `ends`."""

    number: int
    starts: int
    ends: int
    page: int | None
    text: str


@dataclass(frozen=True)
class Hit:
    """A chunk that was found. A rank is its place in the list by words, or by meaning; None if it was not in there."""

    document_id: UUID
    name: str
    title: str | None
    item_id: UUID
    number: int
    starts: int
    ends: int
    page: int | None
    text: str
    score: float
    text_rank: int | None
    vector_rank: int | None
    similarity: float | None


class Embedder(Protocol):
    """Makes vectors of one kind."""

    @property
    def name(self) -> str:
        """Kept with every vector: those of different names are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of length 1 for each text, in their order.

        What it took is counted by `usage`. Raises RateLimited, Transient, SchemaInvalid or Fatal.
        """


class RunRecord(BaseModel):
    """Where a run is. The counts sum up to the total; `steps` says how many items have done each."""

    run_id: UUID
    kind: str
    status: str
    created_at: datetime
    finished_at: datetime | None
    cost_cents: float
    budget_cents: float | None
    steps: dict[str, int]
    item_count_total: int
    item_count_pending: int
    item_count_running: int
    item_count_waiting: int
    item_count_done: int
    item_count_failed: int
    item_count_cancelled: int


class Library(Calls):
    """Runs, documents, and what is found in them."""

    # For workers

    @lease_rpc
    async def has_budget(self, item: UUID) -> bool:
        """Whether the run of this item has a budget."""
        return bool(await self._call("has_budget", item))

    @lease_rpc
    async def may_spend(self, item: UUID) -> bool:
        """Whether the run of this item has not spent its budget."""
        return bool(await self._call("may_spend", item))

    async def persist(
        self,
        lease: Proof,
        *,
        name: str,
        sha256: str,
        recipe: str,
        about: Mapping[str, Any],
        passages: Sequence[Passage],
        embedder: str,
        dimensions: int,
        vectors: Vectors,
        entities: Sequence[Mapping[str, Any]],
    ) -> UUID:
        """Write a version of a document, in the place of what this item has written before; its document.

        `vectors` are the numbers of all passages, one after the other. Nobody sees it before it is published. Raises
        LeaseLost.
        """
        document = await self.persist_version(
            lease, name, sha256, recipe, about, chunks=len(passages), dimensions=dimensions, entities=entities
        )
        for first in range(0, len(passages), chunks_at_once):
            some = passages[first : first + chunks_at_once]
            numbers = vectors[first * dimensions : (first + len(some)) * dimensions]
            await self.persist_chunks(lease, some, embedder, dimensions, numbers)
        return document

    @lease_rpc
    async def persist_version(
        self, lease: Proof, name: str, sha256: str, recipe: str, about: Mapping[str, Any], *, chunks: int,
        dimensions: int, entities: Sequence[Mapping[str, Any]],
    ) -> UUID:  # fmt: skip
        """A version without its chunks."""
        what = (encode.text(name), sha256, recipe, encode.dump(dict(about)), chunks, dimensions)
        given = (*encode.proof(lease), *what, encode.dump(list(entities)))
        document: UUID = await self._call("persist_version", *given)
        return document

    @lease_rpc
    async def persist_chunks(
        self, lease: Proof, chunks: Sequence[Passage], embedder: str, dimensions: int, vectors: Vectors
    ) -> None:
        """Some of its chunks."""
        await self._call(
            "persist_chunks", *encode.proof(lease),
            [one.number for one in chunks], [one.starts for one in chunks], [one.ends for one in chunks],
            [one.page for one in chunks], [encode.text(one.text) for one in chunks], embedder, dimensions,
            vectors.tolist(),
        )  # fmt: skip

    @lease_rpc
    async def same_version(self, lease: Proof, name: str, sha256: str, recipe: str) -> UUID | None:
        """The version that searchers see, if it was made of this content by this recipe. Raises LeaseLost."""
        given = (*encode.proof(lease), encode.text(name), sha256, recipe)
        found: UUID | None = await self._call("same_version", *given)
        return found

    # For users

    async def runs(self, ids: Sequence[UUID], owner: str | None = None) -> list[RunRecord]:
        """These runs, without those that are not `owner`'s."""
        return [RunRecord.model_validate(one) for one in await self._documents("read_runs", list(ids), owner)]

    async def run(self, run: UUID, owner: str | None = None) -> RunRecord:
        """One of them. Raises TaskNotFound."""
        missing = TaskNotFound(f"No run has the id {run}.", fix="POST /ingest/runs answers with the id.")
        return require_one(await self.runs([run], owner), missing)

    async def items(
        self, run: UUID, *, after: UUID | None = None, limit: int = 50, status: str | None = None
    ) -> list[dict[str, Any]]:
        """The items of a run, in their order, from one on."""
        return await self._documents("read_items", run, after, limit, status)

    async def item(self, item: UUID) -> dict[str, Any]:
        """One item, with its run or without. Raises TaskNotFound."""
        missing = TaskNotFound(f"No item has the id {item}.", fix="GET /ingest/runs/{id}/items lists them.")
        return require_one(await self._documents("read_items", None, None, 1, None, item), missing)

    async def events(self, item: UUID) -> list[dict[str, Any]]:
        """What happened to an item, oldest first, with what each step used."""
        return await self._documents("read_item_events", item)

    async def open_uploads(self, owner: str) -> tuple[str, datetime]:
        """A new place for uploads of this owner, emptied after eight days; and the time."""
        row = (await self._table("open_uploads", owner))[0]
        return row["prefix"], row["now"]

    async def set_budget(self, run: UUID, cents: Decimal | None, owner: str | None = None) -> int:
        """Another budget for a run, or none; how many items go on by it. Raises TaskNotFound."""
        return int(await self._call("set_run_budget", run, cents, owner))

    async def documents(
        self, owner: str | None = None, *, before: UUID | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """What can be searched, the newest first, from one on."""
        return await self._documents("read_documents", owner, before, limit)

    async def remove(self, document: UUID, owner: str | None = None) -> bool:
        """Let a document be searched no more; whether there was one."""
        return bool(await self._call("remove_document", document, owner))

    async def search(
        self,
        query: str,
        *,
        embedder: str | None = None,
        vector: Sequence[float] | None = None,
        mode: Mode = "hybrid",
        owner: str | None = None,
        limit: int = 10,
    ) -> list[Hit]:
        """The best chunks for a query, by its words and, if its vector by this embedder is given, by its meaning."""
        given = (encode.text(query), embedder, None if vector is None else list(vector), mode, owner, limit)
        return await self._records(Hit, "search_chunks", *given)
