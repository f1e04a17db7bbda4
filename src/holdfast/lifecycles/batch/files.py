"""The files of a batch, in the store of objects: the inputs of its jobs, what came of them, and both put together.

What a worker writes before the database has taken its word goes by the token of its lease; so one that has lost it
overwrites nothing. The results of a batch have one key, whoever writes them: they follow from jobs that have ended.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from holdfast.engine.task import Json
from holdfast.errors import Fatal, ObjectMissing
from holdfast.lifecycles.batch.provider import Input
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

JSONL = "application/x-ndjson"


@dataclass(frozen=True)
class Files:
    """The files of one batch."""

    objects: Objects
    task: UUID

    @property
    def place(self) -> str:
        return f"batches/{self.task}"

    def inputs_key(self, token: UUID, job: int) -> str:
        return f"{self.place}/{token.hex}/inputs-{job}.jsonl"

    def output_key(self, token: UUID, job: int) -> str:
        return f"{self.place}/{token.hex}/outputs-{job}.jsonl"

    @property
    def result_key(self) -> str:
        return f"{self.place}/result.json"

    @property
    def manifest_key(self) -> str:
        return f"{self.place}/manifest.json"

    async def write_lines(self, key: str, lines: Iterable[Json]) -> None:
        """Keep these values, one in a line. Raises ObjectsUnreachable."""
        with scratch() as folder:
            path = folder / "lines"
            await asyncio.to_thread(write_into, path, lines)
            await self.objects.put(key, path, content_type=JSONL)

    async def put(self, key: str, path: Path) -> None:
        await self.objects.put(key, path, content_type="application/json")

    async def read_lines(self, key: str) -> AsyncIterator[Json]:
        """The values that were kept. Raises Fatal if they are gone."""
        with scratch() as folder:
            await self.fetch(key, folder / "lines")
            for line in lines_of(folder / "lines"):
                yield line

    async def fetch(self, key: str, path: Path) -> None:
        try:
            await self.objects.fetch(key, path)
        except ObjectMissing as error:
            raise Fatal("A file of this batch is not in storage any more.", code="missing") from error

    async def inputs(self, key: str) -> list[Input]:
        """The inputs of a job."""
        with scratch() as folder:
            await self.fetch(key, folder / "lines")
            return await asyncio.to_thread(lambda: [Input(**line) for line in lines_of(folder / "lines")])

    async def write_inputs(self, key: str, inputs: Iterable[Input]) -> None:
        await self.write_lines(key, (asdict(one) for one in inputs))


def write_into(path: Path, lines: Iterable[Json]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def lines_of(path: Path) -> Iterator[Json]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)
