"""The files of a batch among the objects: inputs and outputs of each job, the merged results, the manifest.

What a worker writes before the database has taken its report is named by the token of its lease, so a worker that has
lost it overwrites nothing. The merged files have one name, whichever worker writes them: they follow from jobs that
have ended.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from holdfast.engine.task import Json
from holdfast.errors import Fatal, ObjectMissing
from holdfast.lifecycles.batch.provider import Input, Result
from holdfast.lifecycles.batch.store import EndedBatch, JobRow, storable
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

PLURAL = {"transcription": "transcriptions", "completion": "completions"}
NO_RESULT = "The provider said nothing of it."
preview_most_bytes = 64 * 1024
preview_most_lines = 1000
longest_reason = 2000

Line = dict[str, Any]
"""What became of an input: key, input, name, model, status, and either its output or the reason why there is none."""


@dataclass(frozen=True)
class Files:
    """The files of one batch."""

    objects: Objects
    task: UUID

    @property
    def place(self) -> str:
        return f"batches/{self.task}"

    def lines_key(self, token: UUID, name: str) -> str:
        return f"{self.place}/{token.hex}/{name}.jsonl"

    @property
    def result_key(self) -> str:
        return f"{self.place}/result.json"

    @property
    def manifest_key(self) -> str:
        return f"{self.place}/manifest.json"

    @asynccontextmanager
    async def writing(self, key: str, kind: str = "json") -> AsyncIterator[TextIO]:
        """A file that is kept under this key once it is written. Raises ObjectsUnreachable."""
        with scratch() as folder:
            with (folder / "written").open("w") as file:
                yield file
            await self.objects.put(key, folder / "written", content_type=f"application/{kind}")

    async def write_lines(self, key: str, lines: Iterable[Json]) -> None:
        """Keep these values, one in a line. Raises ObjectsUnreachable."""
        texts = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        async with self.writing(key, "x-ndjson") as file:
            await asyncio.to_thread(file.writelines, texts)

    async def read_lines(self, key: str) -> AsyncIterator[Json]:
        """The values that were kept. Raises Fatal if they are gone."""
        with scratch() as folder:
            path = await self._fetch(key, folder)
            for line in lines_of(path):
                yield line

    async def inputs(self, key: str) -> list[Input]:
        """The inputs of a job. Raises Fatal if they are gone."""
        with scratch() as folder:
            path = await self._fetch(key, folder)
            return await asyncio.to_thread(lambda: [Input(**line) for line in lines_of(path)])

    async def _fetch(self, key: str, folder: Path) -> Path:
        try:
            await self.objects.fetch(key, folder / "lines")
        except ObjectMissing as error:
            raise Fatal("A file of this batch is not in storage any more.", code="missing") from error
        return folder / "lines"

    async def outcomes(self, jobs: Iterable[JobRow]) -> AsyncIterator[Line]:
        """Every input of these jobs, as it ended; also of those that were never done."""
        for job in jobs:
            if job.output_key:
                async for line in self.read_lines(job.output_key):
                    yield line
            else:
                for one in await self.inputs(job.inputs_key):
                    yield failed_line(one, job, job.error or f"The job was {job.status}.", job.category or "Fatal")

    async def write_result(self, jobs: Sequence[JobRow], name: str, *, by_model: bool) -> None:
        """The outputs of all inputs that are done: one list, or one for each model. Raises ObjectsUnreachable."""
        models = list(dict.fromkeys(job.model for job in jobs)) if by_model else [None]

        async def outputs(model: str | None) -> AsyncIterator[Json]:
            async for line in self.outcomes(job for job in jobs if not by_model or job.model == model):
                if line["status"] == "ok":
                    output = line["output"] if isinstance(line["output"], dict) else {"output": line["output"]}
                    yield {"input": line["input"], "name": line["name"], **output}

        async with self.writing(self.result_key) as file:
            file.write("{" if by_model else f'{{"{name}": ')
            for place, model in enumerate(models):
                if by_model:
                    file.write(f'{", " if place else ""}{json.dumps(model or "default")}: {{"{name}": ')
                await write_list(file, outputs(model))
                file.write("}" if by_model else "")
            file.write("}\n")

    async def write_manifest(self, head: dict[str, Json], ended: EndedBatch) -> None:
        """Every input: ok, failed or invalid, why, and what it cost; and each job with its cost in all."""
        jobs = [
            {"number": job.number, "model": job.model, "external_job_id": job.external_id, "status": job.status,
             "inputs": job.inputs, "ok": job.ok, "cost_cents": float(job.cost_micros) / 10000, "error": job.error}
            for job in ended.jobs
        ]  # fmt: skip

        async def items() -> AsyncIterator[Json]:
            async for line in self.outcomes(ended.jobs):
                yield {name: value for name, value in line.items() if name not in ("key", "output")}
            for one in ended.invalid:
                yield {"input": one.input, "status": "invalid", "reason": one.reason, "cost_cents": 0}

        async with self.writing(self.manifest_key) as file:
            file.write(json.dumps({**head, "jobs": jobs}, ensure_ascii=False)[:-1] + ', "items": ')
            await write_list(file, items())
            file.write("}\n")


def lines_of(path: Path) -> Iterator[Json]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)


async def write_list(file: TextIO, values: AsyncIterator[Json]) -> None:
    file.write("[")
    separator = "\n "
    async for value in values:
        file.write(separator + json.dumps(value, ensure_ascii=False))
        separator = ",\n "
    file.write("]")


def result_line(one: Input, result: Result | None, job: JobRow) -> Line:
    """What is kept of an input whose job has ended."""
    if result is None:
        return failed_line(one, job, job.error or NO_RESULT, job.category or "Transient")
    if result.ok:
        line = {**line_head(one, job), "status": "ok", "output": result.output}
    else:
        line = failed_line(one, job, (result.error or "")[:longest_reason], result.category or "Transient")
    if usage := result.usage:
        line |= {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        line["cost_cents"] = None if usage.cost_cents is None else max(float(usage.cost_cents), 0.0)
    return storable(line)  # type: ignore[no-any-return]


def failed_line(one: Input, job: JobRow, reason: str, category: str) -> Line:
    return {**line_head(one, job), "status": "failed", "reason": reason, "category": category}


def line_head(one: Input, job: JobRow) -> Line:
    return {"key": one.key, "input": one.uri or one.name, "name": one.name, "model": job.model}


def preview(lines: list[Line]) -> Json:
    """What the job's row holds of them: all, or without the outputs if those are long."""
    size = 0
    for line in lines:
        size += len(str(line.get("output", ""))) + len(line.get("reason") or "") + len(line["input"])
        if size > preview_most_bytes:
            names = ("input", "status", "reason")
            return [{name: one[name] for name in names if name in one} for one in lines[:preview_most_lines]]
    return lines


def usage_of(results: Iterable[Result]) -> list[dict[str, Json]]:
    """The sum for each model; results with a price of their own are summed apart from those without."""
    sums: dict[tuple[str, bool], dict[str, Any]] = {}
    for usage in (result.usage for result in results if result.usage):
        row = sums.setdefault(
            (usage.model, usage.cost_cents is None), {"model": usage.model, "tokens_in": 0, "tokens_out": 0}
        )
        row["tokens_in"] += usage.tokens_in
        row["tokens_out"] += usage.tokens_out
        if usage.cost_cents is not None:
            row["cost_cents"] = row.get("cost_cents", Decimal(0)) + usage.cost_cents
    return [{**row, "cost_cents": str(row["cost_cents"])} if "cost_cents" in row else row for row in sums.values()]
