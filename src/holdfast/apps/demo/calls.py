"""Calls to the harbour office: what the sample batches are about.

The recordings are those that come with the provider LOCAL, read from where they lie; of one, now and then, only the
beginning has arrived. Questions that nobody had time for are answered by the small model, in a few words. All of it
only where the models are installed.
"""

import json
from pathlib import Path

from holdfast.apps.providers.local.provider import Local
from holdfast.apps.providers.local.speech import samples
from holdfast.execution.context import get_service
from holdfast.lifecycles.batch.store import Batches
from holdfast.lifecycles.ingest.store import Library
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

OWNER = ""  # the local principal: who may name files of this machine
can_transcribe = Local().missing("transcription") is None
can_complete = Local().missing("completion") is None
calls_each = 3
damaged_bytes = 30
words_most = 24
QUESTIONS = ("When is high water?", "What does a buoy do?", "Why do boats have keels?", "What is a knot?")


def recordings(round_: int) -> list[Path]:
    """The calls of a round: some of the samples, others the next time."""
    paths = [path for path, _ in samples()]
    return [paths[(round_ + number) % len(paths)] for number in range(calls_each)]


def write_damaged(path: Path, round_: int) -> Path:
    """A recording of which only the beginning has arrived: too little to be one."""
    path.write_bytes(recordings(round_)[0].read_bytes()[:damaged_bytes])
    return path


def write_questions(path: Path, round_: int) -> Path:
    """Two questions, as a file of prompts."""
    asked = [QUESTIONS[(round_ + number) % len(QUESTIONS)] for number in range(2)]
    path.write_text("".join(json.dumps({"prompt": one, "max_tokens": words_most}) + "\n" for one in asked))
    return path


async def open_place() -> str:
    """A place for uploads."""
    return (await get_service(Library).open_uploads(OWNER))[0]


async def bring_damaged(objects: Objects, place: str, round_: int) -> str:
    with scratch() as folder:
        path = write_damaged(folder / "call.wav", round_)
        kept = await objects.put(f"{place}/cut-off.wav", path, content_type="audio/wav")
    return f"object:{kept.key}"


async def bring_questions(objects: Objects, place: str, round_: int) -> str:
    with scratch() as folder:
        path = write_questions(folder / "questions.jsonl", round_)
        kept = await objects.put(f"{place}/questions.jsonl", path, content_type="application/x-ndjson")
    return f"object:{kept.key}"


async def begin(task_type: str, urls: list[str], *, key: str) -> str:
    """A batch with LOCAL; one for each key."""
    made = get_service(Batches).make(task_type, "LOCAL", urls=urls, owner=OWNER, key=key, tags=["demo"])
    return str((await made)[0])
