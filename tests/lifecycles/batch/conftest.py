"""An office that sends work to a bureau: its batches are run to their end, and looked at."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import Holdfast
from holdfast.engine.store.commands import Store
from holdfast.lifecycles.batch.sdk import Batch
from holdfast.lifecycles.batch.store import Batches
from holdfast.remote.places import objects_of
from holdfast.sdk.handle import Handle
from holdfast.testing.engine import Engine, Ran
from tests.lifecycles.batch.bureau import Bureau

TWO = ["https://example.org/a.wav", "https://example.org/b.wav"]


@dataclass
class Office:
    """Runs batches at one bureau."""

    engine: Engine
    hf: Holdfast
    bureau: Bureau
    transcribe: Batch
    complete: Batch

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def batches(self) -> Batches:
        return Batches.over(self.engine.store)

    def start(self, urls: list[str] | None = None, **given: Any) -> Handle[Any]:
        return self.engine.start(self.transcribe, urls=TWO if urls is None else urls, **given)

    def run(self, urls: list[str] | None = None, **given: Any) -> Ran[Any]:
        return self.engine.run(self.start(urls, **given))

    def batch(self, task: UUID) -> Any:
        """A `BatchRecord`."""
        return self.engine.call(self.batches.batch(task))

    def jobs(self, task: UUID) -> list[str]:
        return [job.status for job in self.batch(task).jobs]

    def read(self, uri: str) -> Any:
        """An object, as JSON."""
        objects = objects_of(self.hf.settings)
        path = Path(self.hf.settings.home) / "read"
        self.engine.call(objects.fetch(uri.removeprefix("object:"), path))
        return json.loads(path.read_text())


@pytest.fixture
def open_office(holdfast: Engine) -> Callable[..., Office]:
    """An office with a bureau of this kind."""

    def open_one(**kind: Any) -> Office:
        hf, bureau = Holdfast(), Bureau(**kind)
        made = {kind: hf.batch(kind, bureau) for kind in bureau.task_types}
        office = Office(holdfast, hf, bureau, made["transcription"], made["completion"])
        holdfast._add_app(hf)
        holdfast.call(hf.declare(holdfast.store))
        return office

    return open_one


@pytest.fixture
def office(open_office: Callable[..., Office]) -> Office:
    return open_office()
