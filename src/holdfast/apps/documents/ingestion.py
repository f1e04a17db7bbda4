"""The steps of document ingestion, one after the other, each a function that can be run by itself.

What a step makes lies in the object store, under the token of the lease that made it; its result says where. So a
worker that has lost its lease overwrites nothing, and a worker that goes on reads exactly what was kept. Only what is
persisted goes to Postgres, where it is not seen until the step INDEXED is kept: then all of it, in place of the version
before.
"""

import bisect
import json
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from pydantic import TypeAdapter

from holdfast.apps.documents.chunk import chunk
from holdfast.apps.documents.embedders import open_embedder
from holdfast.apps.documents.entities import find_entities
from holdfast.apps.documents.extract import Extracted, extract
from holdfast.errors import Fatal, ObjectMissing
from holdfast.execution.context import current, get_service, progress
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.ingest.declaration import STEPS
from holdfast.lifecycles.ingest.handlers import run_parallel_steps, run_step, skip_step
from holdfast.lifecycles.ingest.store import Embedder, Library, Passage
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.remote.places import objects_of
from holdfast.settings import Settings

RECIPE = "1"  # raised when the same content would be cut, read or embedded otherwise

entities_at_most = 5000
embedded_at_once = 128


@dataclass(frozen=True)
class Raw:
    """A document as it was fetched."""

    key: str
    bytes: int
    sha256: str
    content_type: str | None


@dataclass(frozen=True)
class Text:
    """What can be read in it."""

    key: str
    kind: str
    title: str
    characters: int
    pages: int


@dataclass(frozen=True)
class Part:
    """So many chunks, vectors or entities, in an object."""

    key: str
    number: int


class Documents:
    """The steps, over the objects and the embedder that the settings name."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    @property
    def objects(self) -> Objects:
        return objects_of(self._settings())

    @property
    def embedder(self) -> Embedder:
        return open_embedder(self._settings())

    @property
    def recipe(self) -> str:
        return f"{RECIPE}/{self.embedder.name}"

    async def ingest(self, uri: str, name: str | None = None, force: bool = False) -> dict[str, Any]:
        """Fetch a document and make it searchable; one that is as it was is left alone, unless that is forced."""
        name = name or uri
        raw = await run_step("FETCHED", self.fetch, uri)
        if not force and await self.is_unchanged(name, raw):
            for target in STEPS[1:]:
                await skip_step(target, "The document is as it was.")
            return {"name": name, "unchanged": True}
        text = await run_step("CONTENT_EXTRACTED", self.extract, raw, filename(uri, name))
        (chunks, vectors), entities = await run_parallel_steps(
            self.embed_chunks(text), run_step("ENTITY_EXTRACTED", self.find_entities, text)
        )
        document = await run_step("PERSISTED", self.persist, name, raw, text, chunks, vectors, entities)
        await run_step("INDEXED", self.index, document)
        return {"name": name, "document_id": str(document), "title": text.title, "chunks": chunks.number}

    async def embed_chunks(self, text: Text) -> tuple[Part, Part]:
        """The branch that embeds: it needs the chunks."""
        chunks = await run_step("CHUNKED", self.chunk, text)
        progress(3, len(STEPS), note=f"{chunks.number} chunks")
        return chunks, await run_step("EMBEDDED", self.embed, text, chunks)

    # The steps

    async def fetch(self, uri: str) -> Raw:
        """Bring the document here, and keep it. Raises Failure."""
        with scratch() as folder:
            path = folder / "raw"
            settings = self._settings()
            fetched = await fetch(uri, path, objects=self.objects, guard=Guard(settings.fetch_networks))
            key = await self.keep(path, "raw", fetched.content_type or "application/octet-stream")
        return Raw(key, fetched.bytes, fetched.sha256, fetched.content_type)

    async def extract(self, raw: Raw, name: str) -> Text:
        """Read what is written in it. Raises SchemaInvalid for what cannot be read."""
        with scratch() as folder:
            path = folder / "raw"
            await self.bring(raw.key, path)
            found = await extract(path, name, raw.content_type)
            key = await self.keep_json(folder, "text", asdict(found))
        return Text(key, found.kind, found.title, len(found.text), len(found.pages))

    async def chunk(self, text: Text) -> Part:
        """Cut it into chunks."""
        found = await self.text_of(text)
        passages = [
            Passage(one.number, one.start, one.end, page_of(found, one.start), found.text[one.start : one.end])
            for one in await in_thread(chunk, found.text)
        ]
        with scratch() as folder:
            return Part(await self.keep_json(folder, "chunks", [asdict(one) for one in passages]), len(passages))

    async def embed(self, text: Text, chunks: Part) -> Part:
        """A vector for each chunk. A long document goes piece by piece: what was paid for is kept."""
        passages = await self.passages_of(chunks)
        if len(passages) <= embedded_at_once:
            return await self.embed_some(passages, "vectors")
        pieces = []
        for first in range(0, len(passages), embedded_at_once):
            some = passages[first : first + embedded_at_once]
            progress(first, len(passages), note="embedding")
            pieces.append(await run_step(f"EMBEDDED[{first}]", self.embed_some, some, f"vectors-{first}"))
        vectors = array("f")
        for piece in pieces:
            vectors.extend(await self.vectors_of(piece))
        return await self.keep_vectors(vectors, "vectors", len(passages))

    async def embed_some(self, passages: Sequence[Passage], name: str) -> Part:
        found = await self.embedder.embed([one.text for one in passages])
        return await self.keep_vectors(array("f", [number for one in found for number in one]), name, len(passages))

    async def find_entities(self, text: Text) -> Part:
        """Who and what is named in it, each with how often and where first."""
        found = await in_thread(find_entities, (await self.text_of(text)).text)
        times = Counter((one.kind, one.value) for one in found)
        first = {(one.kind, one.value): one.start for one in reversed(found)}
        most = [{"kind": kind, "value": value, "times": times[kind, value], "starts": first[kind, value]}
                for kind, value in list(times)[:entities_at_most]]  # fmt: skip
        with scratch() as folder:
            return Part(await self.keep_json(folder, "entities", most), len(most))

    async def persist(self, name: str, raw: Raw, text: Text, chunks: Part, vectors: Part, entities: Part) -> UUID:
        """Write all of it to Postgres, under this lease. Raises LeaseLost."""
        return await get_service(Library).persist(
            current(),
            name=name,
            sha256=raw.sha256,
            recipe=self.recipe,
            about={"title": text.title, "kind": text.kind, "bytes": raw.bytes, "characters": text.characters},
            passages=await self.passages_of(chunks),
            embedder=self.embedder.name,
            dimensions=self.embedder.dimensions,
            vectors=await self.vectors_of(vectors),
            entities=await self.json_of(entities.key),
        )

    async def index(self, document: UUID) -> UUID:
        """Let it be found: Postgres shows this version from the moment at which this step is kept."""
        return document

    async def is_unchanged(self, name: str, raw: Raw) -> bool:
        """Whether searchers see the same content by the same recipe already, made by another item."""
        lease = current()
        same = await get_service(Library).same_version(lease, name, raw.sha256, self.recipe)
        return same not in (None, lease.task_id)

    # Where it lies between the steps

    async def keep(self, path: Path, name: str, content_type: str) -> str:
        lease = current()
        key = f"ingest/{lease.task_id}/{lease.token.hex}/{name}"
        return (await self.objects.put(key, path, content_type=content_type)).key

    async def keep_json(self, folder: Path, name: str, value: object) -> str:
        path = folder / f"{name}.json"
        path.write_text(json.dumps(value))
        return await self.keep(path, path.name, "application/json")

    async def keep_vectors(self, vectors: "array[float]", name: str, number: int) -> Part:
        with scratch() as folder:
            path = folder / f"{name}.f32"
            path.write_bytes(vectors.tobytes())
            return Part(await self.keep(path, path.name, "application/octet-stream"), number)

    async def bring(self, key: str, path: Path) -> None:
        """What a step has kept. Raises Fatal once it is gone: a failed item's is kept for thirty days."""
        try:
            await self.objects.fetch(key, path)
        except ObjectMissing as error:
            raise Fatal("What an earlier step kept is gone. Retry it from FETCHED.", code="gone") from error

    async def bytes_of(self, key: str) -> bytes:
        with scratch() as folder:
            await self.bring(key, folder / "object")
            return (folder / "object").read_bytes()

    async def json_of(self, key: str) -> Any:
        return json.loads(await self.bytes_of(key))

    async def text_of(self, text: Text) -> Extracted:
        return TypeAdapter(Extracted).validate_python(await self.json_of(text.key))

    async def passages_of(self, chunks: Part) -> list[Passage]:
        return [Passage(**one) for one in await self.json_of(chunks.key)]

    async def vectors_of(self, vectors: Part) -> "array[float]":
        return array("f", await self.bytes_of(vectors.key))


def filename(uri: str, name: str) -> str:
    """What the file is called: its name, or, if that does not say what it is, the end of its address."""
    there = PurePosixPath(unquote(urlsplit(uri).path)).name
    return there if PurePosixPath(there).suffix and not PurePosixPath(name).suffix else name


def page_of(text: Extracted, at: int) -> int | None:
    """The number of the page that a place in the text is on."""
    return bisect.bisect_right(text.pages, at) or None if text.pages else None
