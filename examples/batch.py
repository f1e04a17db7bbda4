"""A provider of one's own: a typing pool. Recordings go into a tray, people type them, texts come out of it.

holdfast dev examples/batch.py                                                        # in one terminal
holdfast batch submit https://example.org/monday.wav --provider typists --wait        # in another
for ONE in tray/*.todo; do echo "Good morning." > "${ONE%.todo}.txt"; done            # in a third: who types
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from holdfast import Fatal, Holdfast
from holdfast.batch import CannotCancel, Ended, Input, Job, Provider, Result, Running, Usage
from holdfast.objects import open_objects
from holdfast.settings import Settings


class TypingPool(Provider):
    """People who type what they hear."""

    name = "TYPISTS"
    task_types = ("transcription",)
    inputs_per_job = 1
    repeats_submit = True  # the same token is the same sheet of paper, however often it is put there
    poll_every = timedelta(seconds=2)

    def __init__(self, tray: Path) -> None:
        self.tray = tray

    def missing(self, task_type: str) -> str | None:
        return None if self.tray.is_dir() else f"There is no tray: make the folder {self.tray}."

    def refuse(self, task_type: str, one: Input) -> str | None:
        return None if one.uri.startswith("https://") else "The typists listen to https:// only."

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        try:
            self.sheet(job, "todo").write_text(inputs[0].uri)
        except OSError as error:
            raise Fatal(f"The tray cannot be used: {error.strerror}.", code="tray") from error
        return job.token

    async def find(self, job: Job) -> str | None:
        there = any(self.sheet(job, ending).exists() for ending in ("todo", "doing", "txt"))
        return job.token if there else None

    async def poll(self, job: Job) -> Running | Ended:
        if self.sheet(job, "txt").exists():
            return Ended("typed", "succeeded")
        if self.sheet(job, "doing").exists():
            return Running("being typed")
        if self.sheet(job, "todo").exists():
            return Running("in the tray")
        return Ended("withdrawn", "cancelled", "It was taken out of the tray.", has_results=False)

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        text = self.sheet(job, "txt").read_text().strip()
        if text:
            yield Result(inputs[0].key, {"transcript": text}, usage=Usage("typist", cost_cents=Decimal(25)))
        else:
            yield Result(inputs[0].key, error="Nothing could be heard.", category="SchemaInvalid")

    async def cancel(self, job: Job) -> None:
        if self.sheet(job, "doing").exists():
            raise CannotCancel
        self.sheet(job, "todo").unlink(missing_ok=True)

    def sheet(self, job: Job, ending: str) -> Path:
        return self.tray / f"{job.token}.{ending}"


hf = Holdfast()
transcribe = hf.batch("transcription", TypingPool(Path(os.environ.get("TRAY", "tray"))), limit="26h")


async def by_hand() -> None:
    """What the engine does with a provider, in the order in which it does it."""
    with tempfile.TemporaryDirectory() as tray:
        pool, files = TypingPool(Path(tray)), open_objects(Settings(objects=f"file://{tray}"))
        job = Job("hf-1", "transcription", None, pool.account, "hf-1", None, None, forget, files, "hf-1")
        monday = [Input("0", uri="https://example.org/monday.wav")]
        print("submit", await pool.submit(job, monday))
        print("poll  ", await pool.poll(job))
        pool.sheet(job, "txt").write_text("Good morning.\n")
        print("poll  ", await pool.poll(job))
        print("fetch ", [result.output async for result in pool.fetch(job, monday)])


async def forget(memo: object) -> None:
    """Only a provider that needs two calls to begin a job has something to remember."""


if __name__ == "__main__":
    asyncio.run(by_hand())
