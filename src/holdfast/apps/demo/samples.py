"""What the sample work is about: orders of a shop, papers of a harbour's library, calls to the harbour office.

The same round gives the same. Of the papers the log, a Word document, is another one in every round, and the torn
letter is half a PDF. The recordings are those that come with the provider LOCAL, read where they lie; of one, now and
then, only the beginning has arrived. Questions are answered by the small model, where the models are installed.
"""

import csv
import json
import random
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.apps.providers.local.provider import Local
from holdfast.apps.providers.local.speech import sample_recordings
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.execution.context import get_service
from holdfast.lifecycles.batch.store import Batches
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.ingest.store import Library
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

LIBRARY = "library"
LOCAL_OWNER = ""  # the local principal: it may name files of this machine
SHIPPED = Path(__file__).with_name("library")
NEEDED = ("ahocorasick_rs", "docx", "numpy", "pypdf", "semchunk", "trafilatura", "wordllama")
can_ingest = all(find_spec(name) is not None for name in NEEDED)
can_transcribe = Local().missing("transcription") is None
can_complete = Local().missing("completion") is None

COUNTRIES = ("DE", "FR", "US", "NL", "de", "")
GOODS = ("net", "lantern", "rope", "compass", "buoy")
SHIPS = ("Petrel", "Fulmar", "Gannet", "Shearwater", "Kittiwake")
QUESTIONS = ("When is high water?", "What does a buoy do?", "Why do boats have keels?", "What is a knot?")
CONTENT_TYPES = {".wav": "audio/wav", ".jsonl": "application/x-ndjson"}
rows_each = 2_000
calls_each = 3
damaged_bytes = 30
answer_tokens = 24


def write_orders(path: Path, round_: int, *, shifted: bool = False) -> Path:
    """A table with what tables have: gaps, doubles, a few numbers that are too large, addresses of people."""
    rng = random.Random(round_)  # noqa: S311
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("order_id", "ordered_on", "country", "good", "price", "quantity", "email"))
        for number in range(rows_each):
            price = rng.lognormvariate(3.4 if shifted else 3.0, 0.8) * (50 if rng.random() < 0.004 else 1)
            table.writerow(
                (
                    number - (rng.random() < 0.01),
                    f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
                    rng.choice(COUNTRIES),
                    rng.choice(GOODS),
                    f"{price:.2f}",
                    rng.randint(1, 9),
                    f"reader{rng.randint(1, 700)}@example.org",
                )
            )
    return path


def write_papers(folder: Path, round_: int, *, torn: bool) -> list[Path]:
    """All papers of a round, in a folder; with `torn`, also the one that cannot be read."""
    contents = {one.name: one.read_bytes() for one in sorted(SHIPPED.iterdir())}
    if torn:
        contents["torn-letter.pdf"] = contents["charter.pdf"][: len(contents["charter.pdf"]) // 2]
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [*(folder / name for name in contents), write_log(folder / "harbour-log.docx", round_)]


def write_log(path: Path, round_: int) -> Path:
    import docx

    document = docx.Document()
    document.add_heading("The harbour's log", 1)
    for hour in range(6):
        ship, berth = SHIPS[(round_ + hour) % len(SHIPS)], (round_ * 7 + hour) % 30 + 1
        document.add_paragraph(f"Watch {round_ % 10_000}, hour {hour}: the {ship} came in and lies at berth {berth}.")
    document.save(str(path))
    return path


def recordings(round_: int) -> list[Path]:
    """The calls of a round: some of the samples, others the next time."""
    paths = [path for path, _ in sample_recordings()]
    return [paths[(round_ + number) % len(paths)] for number in range(calls_each)]


def write_damaged(folder: Path, round_: int) -> list[Path]:
    """A recording of which only the beginning has arrived: too little to be one."""
    path = folder / "cut-off.wav"
    path.write_bytes(recordings(round_)[0].read_bytes()[:damaged_bytes])
    return [path]


def write_questions(folder: Path, round_: int) -> list[Path]:
    """Two questions, as a file of prompts."""
    path = folder / "questions.jsonl"
    asked = [QUESTIONS[(round_ + number) % len(QUESTIONS)] for number in range(2)]
    path.write_text("".join(json.dumps({"prompt": one, "max_tokens": answer_tokens}) + "\n" for one in asked))
    return [path]


async def open_place(owner: str) -> str:
    """A place for uploads of this owner."""
    return (await get_service(Library).open_uploads(owner))[0]


async def upload(objects: Objects, place: str, write: Callable[..., list[Path]], round_: int, **more: Any) -> list[str]:
    """Put the files of a round there that `write` writes into a folder; their addresses."""
    addresses = []
    with scratch() as folder:
        for path in write(folder, round_, **more):
            content_type = CONTENT_TYPES.get(path.suffix, "application/octet-stream")
            kept = await objects.put(f"{place}/{path.name}", path, content_type=content_type)
            addresses.append(f"object:{kept.key}")
    return addresses


async def start_ingestion(papers: Sequence[str], *, key: str) -> str:
    """A run over the papers at these addresses; one for each key."""
    given: dict[str, Any] = {"owner": LIBRARY, "tags": ["demo"]}
    run = Submission("documents", {}, INGEST.name, key=key, **given)
    inputs = [{"uri": uri, "name": f"library/{uri.rpartition('/')[2]}"} for uri in papers]
    items = [Submission("documents", one, INGEST_ITEM.name, parent=0, **given) for one in inputs]
    return str((await get_service(Store).submit(run, *items))[0].id)


async def start_batch(task_type: str, urls: list[str], *, key: str) -> str:
    """A batch with LOCAL; one for each key."""
    made = get_service(Batches).make(task_type, "LOCAL", urls=urls, owner=LOCAL_OWNER, key=key, tags=["demo"])
    return str((await made)[0])
