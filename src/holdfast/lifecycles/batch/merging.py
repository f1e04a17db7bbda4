"""What all jobs of a batch gave, put together: the results in one file, and a manifest that tells of every input."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TextIO

from holdfast.engine.store.calls import patiently
from holdfast.engine.task import Category, Done, Failed, Json, Lease, Outcome, Partial
from holdfast.errors import Transient
from holdfast.lifecycles.batch.batches import JobRow
from holdfast.lifecycles.batch.calling import Caller
from holdfast.objects.scratch import scratch

PLURAL = {"transcription": "transcriptions", "completion": "completions"}


async def merge(caller: Caller, lease: Lease) -> Outcome:
    """Put results and manifest where they belong, and end the batch as its jobs say. Raises Failure."""
    jobs, verdict, invalid = await patiently(lambda: caller.batches.ended(caller.task))
    if verdict is None:
        raise Transient("A job of this batch is open again.", code="open")
    files = caller.files
    ok = sum(job.ok for job in jobs)
    number = sum(job.inputs for job in jobs) + len(invalid)
    counts = {"inputs": number, "ok": ok, "failed": number - ok - len(invalid), "invalid": len(invalid)}
    result_key = files.result_key if ok else None
    with scratch() as folder:
        if result_key:
            await write_results(folder / "result.json", caller, jobs)
            await caller.call(lambda: files.put(files.result_key, folder / "result.json"))
        await write_manifest(folder / "manifest.json", caller, jobs, invalid, {"status": verdict, **counts})
        await caller.call(lambda: files.put(files.manifest_key, folder / "manifest.json"))
    await patiently(lambda: caller.batches.keep_merged(lease, result_key, files.manifest_key))
    told = {
        "result_uri": result_key and f"object:{result_key}",
        "manifest_uri": f"object:{files.manifest_key}",
        **counts,
    }
    if verdict == "COMPLETED":
        return Done(told)
    return Partial(told) if verdict == "PARTIAL_COMPLETE" else failure(jobs, invalid)


def failure(jobs: list[JobRow], invalid: list[dict[str, Any]]) -> Failed:
    """How a batch fails in which nothing was done. A retry of it is for a person to decide."""
    if not jobs:
        said = f" {invalid[0]['input']}: {invalid[0]['reason']}" if invalid else ""
        return Failed("SchemaInvalid", f"No input of this batch can be done.{said}", code="no-valid-input")
    first = next((job for job in jobs if job.error), jobs[0])
    category: Category = "SchemaInvalid" if first.category == "SchemaInvalid" else "Fatal"
    return Failed(category, f"No input was done. Job {first.number}: {first.error}", code="jobs-failed")


async def write_results(path: Path, caller: Caller, jobs: list[JobRow]) -> None:
    """One list, or one for each model, as clients of the provider know it."""
    name = PLURAL.get(caller.task_type, "results")
    by_model = caller.provider.merges == "model" or caller.task_type == "completion"
    models = list(dict.fromkeys(job.model for job in jobs)) if by_model else [None]
    with path.open("w") as file:
        file.write("{" if by_model else f'{{"{name}": ')
        for place, model in enumerate(models):
            if by_model:
                file.write(f'{", " if place else ""}{json.dumps(model or "default")}: {{"{name}": ')
            await write_list(file, outputs(caller, [job for job in jobs if not by_model or job.model == model]))
            file.write("}" if by_model else "")
        file.write("}\n")


async def write_list(file: TextIO, values: AsyncIterator[Json]) -> None:
    file.write("[")
    first = True
    async for value in values:
        file.write(("\n " if first else ",\n ") + json.dumps(value, ensure_ascii=False))
        first = False
    file.write("]")


async def outputs(caller: Caller, jobs: list[JobRow]) -> AsyncIterator[Json]:
    """What was made of each input that is done, with the input that it is of."""
    async for line in lines(caller, jobs):
        if line["status"] == "ok":
            output = line["output"]
            yield {
                "input": line["input"],
                "name": line["name"],
                **(output if isinstance(output, dict) else {"output": output}),
            }


async def lines(caller: Caller, jobs: list[JobRow]) -> AsyncIterator[dict[str, Any]]:
    """Every input of these jobs, as it ended; also of those that were never done."""
    for job in jobs:
        if job.output_key:
            async for line in caller.files.read_lines(job.output_key):
                yield line
        else:
            for one in await caller.files.inputs(job.inputs_key):
                reason = job.error or f"The job was {job.status}."
                yield {
                    "key": one.key, "input": one.uri or one.name, "name": one.name, "model": job.model,
                    "status": "failed", "reason": reason, "category": job.category or "Fatal",
                }  # fmt: skip


async def write_manifest(
    path: Path, caller: Caller, jobs: list[JobRow], invalid: list[dict[str, Any]], counts: dict[str, Json]
) -> None:
    """Every input: ok, failed or invalid, why, and what it cost; and the jobs with what each cost in all."""
    head: dict[str, Json] = {
        "task_id": str(caller.task),
        "task_type": caller.task_type,
        "provider": caller.provider.name,
    }
    told = [
        {"number": job.number, "model": job.model, "external_job_id": job.external_id, "status": job.status,
         "inputs": job.inputs, "ok": job.ok, "cost_cents": float(job.cost_micros) / 10000, "error": job.error}
        for job in jobs
    ]  # fmt: skip

    async def each() -> AsyncIterator[Json]:
        async for line in lines(caller, jobs):
            yield {name: value for name, value in line.items() if name not in ("key", "output")}
        for one in invalid:
            yield {"input": one["input"], "status": "invalid", "reason": one["reason"], "cost_cents": 0}

    with path.open("w") as file:
        file.write(json.dumps({**head, **counts, "jobs": told}, ensure_ascii=False)[:-1] + ', "items": ')
        await write_list(file, each())
        file.write("}\n")
