"""What a batch is made of: its inputs, checked one by one, and cut into jobs as the provider takes them.

A recording is an input. Prompts come in files: one in a line, as JSON (a request, `{"messages": [...]}`, `{"prompt":
"..."}` or a plain string) or as text. An input that can never be done is set aside with the reason, and no job has it.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from holdfast.errors import Fatal, SchemaInvalid
from holdfast.execution.attempt import Attempt
from holdfast.execution.context import get_service
from holdfast.lifecycles.batch.provider import Input, Provider
from holdfast.lifecycles.batch.results import Files
from holdfast.lifecycles.batch.store import Batches, InvalidInput, OpenBatch, PlannedJob, storable
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.remote.places import objects_of

SCHEMES = ("https", "http", "s3", "gs", "az", "file", "object")
prompts_most_bytes = 200 * 1024**2
inputs_at_most = 100_000
written_at_once = 16

Found = tuple[list[Input], list[InvalidInput]]


async def plan_jobs(batch: OpenBatch, provider: Provider, attempt: Attempt) -> None:
    """Plan the jobs of a batch; none, if nothing can be done. Raises SchemaInvalid."""
    batches, objects, lease = get_service(Batches), objects_of(attempt.settings), attempt.lease
    invalid: list[InvalidInput] = []
    if batch.again_of:
        parts = await failed_before(batches, objects, batch.again_of)
    else:
        sources = await batches.sources(batch.task_id)
        named, invalid = await find_inputs(batch.task_type, sources, objects, Guard(attempt.settings.fetch_networks))
        inputs, unfit = await asyncio.to_thread(check_inputs, provider, batch.task_type, named)  # there may be many
        invalid += unfit
        models: list[str | None] = [*(batch.models or provider.models(batch.task_type))] or [None]
        parts = dict.fromkeys(models, inputs)
    number = sum(map(len, parts.values())) + len(invalid)
    if number > inputs_at_most:
        raise SchemaInvalid(
            f"These are {number:,} inputs, and a batch takes {inputs_at_most:,}. Make several.", code="too-many"
        )
    files = Files(objects, batch.task_id)
    jobs: list[PlannedJob] = []
    written: list[tuple[str, list[Input]]] = []
    for model, inputs in parts.items():
        for start in range(0, len(inputs), provider.inputs_per_job):
            part = inputs[start : start + provider.inputs_per_job]
            key = files.lines_key(lease.token, f"inputs-{len(jobs) + 1}")
            written.append((key, part))
            first = part[0].uri or part[0].name
            jobs.append(PlannedJob(provider.account, model, len(part), first, filename(first), key))
    for start in range(0, len(written), written_at_once):
        some = written[start : start + written_at_once]
        await asyncio.gather(*(files.write_lines(key, map(asdict, part)) for key, part in some))
    await batches.plan(lease, jobs, invalid, number)


async def failed_before(batches: Batches, objects: Objects, task: UUID) -> dict[str | None, list[Input]]:
    """What failed in another batch, for each model. Raises Fatal if its files are gone."""
    files = Files(objects, task)
    parts: dict[str | None, list[Input]] = {}
    for job in (await batches.ended_jobs(task)).jobs:
        done = set()
        if job.output_key:
            done = {line["key"] async for line in files.read_lines(job.output_key) if line["status"] == "ok"}
        left = [one for one in await files.inputs(job.inputs_key) if one.key not in done]
        parts.setdefault(job.model, []).extend(left)
    return parts


async def find_inputs(task_type: str, sources: Sequence[tuple[str, str]], objects: Objects, guard: Guard) -> Found:
    """The inputs in these sources (address, name), each once."""
    found: list[Input] = []
    invalid: list[InvalidInput] = []
    names: dict[str, str] = {}
    for uri, name in sources:
        names.setdefault(uri, name)
    for number, (uri, name) in enumerate(names.items()):
        if (reason := unfit_address(uri)) is not None:
            invalid.append(InvalidInput(uri, reason))
        elif task_type == "completion":
            try:
                prompts, wrong = await fetch_prompts(uri, filename(name), number, objects, guard)
            except (SchemaInvalid, Fatal) as error:
                prompts, wrong = [], [InvalidInput(uri, error.message)]
            found += prompts
            invalid += wrong
        else:
            found.append(Input(f"{number}", uri=uri, name=filename(name) if name == uri else name))
    return found, invalid


def check_inputs(provider: Provider, task_type: str, inputs: Sequence[Input]) -> Found:
    """Those that the provider can try, and those that it refuses."""
    reasons = [provider.refuse(task_type, one) for one in inputs]
    pairs = list(zip(inputs, reasons, strict=True))
    refused = [InvalidInput(one.uri or one.name, reason) for one, reason in pairs if reason is not None]
    return [one for one, reason in pairs if reason is None], refused


def unfit_address(uri: str) -> str | None:
    """Why an address cannot be an input's; None if it can be tried."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "It is not an address."
    if parts.scheme.lower() not in SCHEMES:
        return f"Only these are known: {', '.join(f'{scheme}:' for scheme in SCHEMES)}."
    if parts.scheme in ("http", "https") and not parts.hostname:
        return "It names no server."
    if not parts.path.strip("/"):
        return "It names no file."
    return None


async def fetch_prompts(uri: str, name: str, number: int, objects: Objects, guard: Guard) -> Found:
    """The requests in a file, and the lines that are not requests. Raises Failure."""
    with scratch() as folder:
        await fetch(uri, folder / "prompts", objects=objects, guard=guard, most_bytes=prompts_most_bytes)
        return await asyncio.to_thread(read_prompts, folder / "prompts", name, number)


def read_prompts(path: Path, name: str, number: int) -> Found:
    """One request in each line that is not empty, and the lines that are not requests. Raises SchemaInvalid."""
    found: list[Input] = []
    wrong: list[InvalidInput] = []
    with path.open(errors="strict") as file:
        try:
            for place, line in enumerate(file, 1):
                if not line.strip():
                    continue
                if len(found) + len(wrong) == inputs_at_most:
                    raise SchemaInvalid(f"{name} has more than {inputs_at_most:,} prompts. Cut it.", code="too-many")
                called = f"{name}:{place}"
                try:
                    found.append(Input(f"{number}-{place}", body=request(line), name=called))
                except ValueError as error:
                    wrong.append(InvalidInput(called, str(error)))
        except UnicodeDecodeError as error:
            raise SchemaInvalid(f"{name} is not text in UTF-8.", code="prompts") from error
    if not found and not wrong:
        raise SchemaInvalid(f"{name} has no prompts.", code="prompts")
    return found, wrong


def request(line: str) -> dict[str, Any]:
    """What a line asks, as a chat API takes it. A line that is not JSON is the prompt itself. Raises ValueError."""
    text = line.strip()
    try:
        value = storable(json.loads(text)) if text[0] in '{["' else storable(text)
    except ValueError as error:
        raise ValueError(f"It begins like JSON and is not: {error}.") from None
    if isinstance(value, str):
        return {"messages": [{"role": "user", "content": value}]}
    if isinstance(value, dict) and isinstance(value.get("body"), dict):
        value = value["body"]
    if isinstance(value, dict) and isinstance(value.get("prompt"), str):
        rest = {key: one for key, one in value.items() if key != "prompt"}
        return {"messages": [{"role": "user", "content": value["prompt"]}], **rest}
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and value["messages"]:
        return {key: one for key, one in value.items() if key != "model"}
    raise ValueError('It is not a request. Write a text, {"prompt": "..."} or {"messages": [...]}.')


def filename(uri: str) -> str:
    return PurePosixPath(unquote(urlsplit(uri).path)).name or uri[:200]
