"""How well search finds: by words, by meaning, and by both, over 132 passages and 78 queries with graded answers.

The passages are short prose on 22 subjects, six on each, so that every one has neighbours that are easily taken for it.
A third of the queries are keywords, a third say the thing in other words, a third are questions. Both were written for
this measurement by one person, who knew what is searched with what: a set of one's own flatters, and so small a one
tells large differences from none, not 0.80 from 0.82. The passages are cut, embedded (HOLDFAST_EMBEDDER) and persisted
as ingestion does it, and searched by `holdfast.search_chunks`.

nDCG@10, recall@10 and MRR@10, over all and by kind. What is seen does not change from round to round, so there is one.
At the end the two lists are joined by reciprocal ranks with many constants, on every second query; what the best of
them does for the rest stands beside what `hybrid` does for the same rest.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import get_args

from bench.frame import Bench, Place
from bench.ranking import fused, gain, recall, reciprocal
from holdfast.apps.documents.chunk import chunk
from holdfast.apps.documents.embedders import open_embedder
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.lifecycles.ingest.store import Embedder, Library, Mode, Passage
from holdfast.settings import read_settings

SET = Path(__file__).with_suffix("")
MEASURES = {"nDCG@10": gain, "recall@10": recall, "MRR@10": reciprocal}
HOUR = timedelta(hours=1)
CONSTANTS = [(k, weight / 20) for k in (1.0, 5.0, 10.0, 20.0, 40.0, 60.0, 100.0) for weight in range(2, 19)]


@dataclass(frozen=True)
class Query:
    """What is looked for, and which passages answer it how well."""

    kind: str
    text: str
    relevant: Mapping[str, int] = field(hash=False)


Score = Callable[[Sequence[str], Mapping[str, int]], float]
Rankings = Mapping[str, Mapping[Query, Sequence[str]]]


def passages() -> dict[str, str]:
    return {one["name"]: one["text"] for one in json.loads((SET / "passages.json").read_text("utf-8"))}


def queries() -> list[Query]:
    return [Query(**one) for one in json.loads((SET / "queries.json").read_text("utf-8"))]


async def measure(bench: Bench) -> None:
    embedder = open_embedder(read_settings())
    asked = queries()
    async with bench.database("search") as place:
        await fill(place, embedder)
        modes = {mode: await searched(place, embedder, asked, mode) for mode in get_args(Mode)}
    for mode, found in modes.items():
        for kind in ("all", *sorted({query.kind for query in asked})):
            some = [query for query in asked if kind in ("all", query.kind)]
            for name, score in MEASURES.items():
                bench.note(f"{mode}, {kind}: {name}", mean(score, found, some), "")
    note_constants(bench, modes, asked)
    print(table(modes, asked, embedder.name))


async def fill(place: Place, embedder: Embedder) -> None:
    """The passages, as ingestion leaves them."""
    texts = passages()
    async with place.connections() as (connection,):
        store = Store(connection)
        made = await store.submit(
            *(Submission("document", {"uri": f"file:///{name}"}, "ingest_item") for name in texts)
        )
        leases = await store.claim_these([one.id for one in made if one.id], lasting=HOUR, worker="bench")
        for lease, (name, text) in zip(leases, texts.items(), strict=True):
            cut = [Passage(one.number, one.start, one.end, None, text[one.start : one.end]) for one in chunk(text)]
            vectors = await embedder.embed([one.text for one in cut])
            await Library.over(store).persist(
                lease, name=name, sha256="", recipe="", about={"title": name}, passages=cut, embedder=embedder.name,
                dimensions=embedder.dimensions, vectors=array("f", chain.from_iterable(vectors)), entities=[],
            )  # fmt: skip
        await connection.execute("select holdfast.publish_versions($1)", [lease.task_id for lease in leases])


async def searched(place: Place, embedder: Embedder, asked: Iterable[Query], mode: Mode) -> dict[Query, list[str]]:
    """What each query finds, the best first."""
    async with place.connections() as (connection,):
        library = Library(connection)
        found = {}
        for query in asked:
            (vector,) = await embedder.embed([query.text])
            hits = await library.search(query.text, embedder=embedder.name, vector=vector, mode=mode, limit=100)
            found[query] = list(dict.fromkeys(hit.name for hit in hits))
    return found


def mean(score: Score, found: Mapping[Query, Sequence[str]], asked: Iterable[Query]) -> float:
    return fmean(score(found[query], query.relevant) for query in asked)


def note_constants(bench: Bench, modes: Rankings, asked: Sequence[Query]) -> None:
    """What the best constants for one half of the queries do for the other."""
    tuned_on, held_out = asked[::2], asked[1::2]
    k, weight = max(CONSTANTS, key=lambda one: gain_with(one, modes, tuned_on))
    bench.note("by ranks, every second query: best k", k, "")
    bench.note("by ranks, every second query: best weight of vectors", weight, "")
    now = "hybrid, the other queries: nDCG@10"
    bench.note(now, mean(gain, modes["hybrid"], held_out), "")
    bench.note("by ranks with these, the other queries: nDCG@10", gain_with((k, weight), modes, held_out), "", now)


def gain_with(constants: tuple[float, float], modes: Rankings, asked: Iterable[Query]) -> float:
    k, weight = constants
    joined = {query: fused(modes["text"][query], modes["vector"][query], k=k, weight=weight) for query in asked}
    return mean(gain, joined, joined)


def table(modes: Rankings, asked: Sequence[Query], embedder: str) -> str:
    """All of it at a glance."""
    lines = [f"\n{len(asked)} queries, vectors by {embedder}", f"{'':22}" + "".join(f"{name:>11}" for name in MEASURES)]
    for kind in ("all", *sorted({query.kind for query in asked})):
        some = [query for query in asked if kind in ("all", query.kind)]
        for mode, found in modes.items():
            cells = (mean(score, found, some) for score in MEASURES.values())
            lines.append(f"{kind:12}{mode:10}" + "".join(f"{cell:11.2f}" for cell in cells))
    return "\n".join(lines)
