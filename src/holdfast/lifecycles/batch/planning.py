"""What a batch is made of: its inputs, looked at one by one, and cut into jobs as the provider takes them.

A recording is an input. Prompts come in files: one in a line, as JSON (a request, `{"messages": [...]}`, `{"prompt":
"..."}` or a plain string) or as text. An input that can never be done is set aside with the reason, and no job has it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from holdfast.engine.task import Lease
from holdfast.errors import Fatal, SchemaInvalid
from holdfast.lifecycles.batch.batches import Batches, OpenBatch, Plan
from holdfast.lifecycles.batch.calling import cleaned
from holdfast.lifecycles.batch.files import Files
from holdfast.lifecycles.batch.provider import Input, Provider
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.settings import Settings

SCHEMES = ("https", "http", "s3", "gs", "az", "file", "object")
prompts_most_bytes = 200 * 1024**2
inputs_at_most = 100_000
written_at_once = 16


@dataclass(frozen=True)
class Invalid:
    """An input that no job takes."""

    input: str
    reason: str


@dataclass
class Planning:
    """One look at all that a batch is to do."""

    provider: Provider
    batches: Batches
    objects: Objects
    settings: Callable[[], Settings]
    lease: Lease

    async def __call__(self, batch: OpenBatch) -> None:
        """Say what the jobs are; none, if nothing can be done. Raises SchemaInvalid."""
        files = Files(self.objects, self.lease.task_id)
        invalid: list[Invalid] = []
        if batch.again_of:
            parts = await self.failed_before(batch.again_of)
        else:
            inputs = await self.inputs(batch.task_type, invalid)
            models: list[str | None] = [*(batch.models or self.provider.models(batch.task_type))] or [None]
            parts = dict.fromkeys(models, inputs)
        number = sum(map(len, parts.values())) + len(invalid)
        if number > inputs_at_most:
            raise SchemaInvalid(
                f"These are {number:,} inputs, and a batch takes {inputs_at_most:,}. Make several.", code="too-many"
            )
        jobs: list[Plan] = []
        written: list[tuple[str, list[Input]]] = []
        for model, inputs in parts.items():
            for part in cut(inputs, self.provider.inputs_per_job):
                key = files.inputs_key(self.lease.token, len(jobs) + 1)
                written.append((key, part))
                first = part[0].uri or part[0].name
                jobs.append(Plan(self.provider.account, model, len(part), first, filename(first), key))
        for start in range(0, len(written), written_at_once):
            some = written[start : start + written_at_once]
            await asyncio.gather(*(files.write_inputs(key, part) for key, part in some))
        await self.batches.plan(self.lease, jobs, [vars(one) for one in invalid], number)

    async def failed_before(self, task: UUID) -> dict[str | None, list[Input]]:
        """What failed in another batch, for each model. Raises Fatal if its files are gone."""
        jobs, _, _ = await self.batches.ended(task)
        files = Files(self.objects, task)
        parts: dict[str | None, list[Input]] = {}
        for job in jobs:
            well = set()
            if job.output_key:
                well = {line["key"] async for line in files.read_lines(job.output_key) if line["status"] == "ok"}
            left = [one for one in await files.inputs(job.inputs_key) if one.key not in well]
            parts.setdefault(job.model, []).extend(left)
        return parts

    async def inputs(self, task_type: str, invalid: list[Invalid]) -> list[Input]:
        """The inputs that can be tried, each once."""
        sources = await self.batches.sources(self.lease.task_id)
        named = [one async for one in self.named(task_type, sources, invalid)]

        def look() -> list[Input]:
            found = []
            for one in named:
                if (reason := self.provider.refuse(task_type, one)) is not None:
                    invalid.append(Invalid(one.uri or one.name, reason))
                else:
                    found.append(one)
            return found

        return await asyncio.to_thread(look)  # there may be very many

    async def named(
        self, task_type: str, sources: Sequence[tuple[str, str]], invalid: list[Invalid]
    ) -> AsyncIterator[Input]:
        seen: set[str] = set()
        for number, (uri, name) in enumerate(sources):
            if uri in seen:
                continue
            seen.add(uri)
            if (reason := unfit(uri)) is not None:
                invalid.append(Invalid(uri, reason))
            elif task_type == "completion":
                try:
                    found, wrong = await self.prompts(uri, name, number)
                except (SchemaInvalid, Fatal) as error:
                    invalid.append(Invalid(uri, error.message))
                    continue
                invalid += wrong
                for one in found:
                    yield one
            else:
                yield Input(f"{number}", uri=uri, name=filename(name) if name == uri else name)

    async def prompts(self, uri: str, name: str, number: int) -> tuple[list[Input], list[Invalid]]:
        """The requests in a file, and the lines that are none. Raises Failure."""
        with scratch() as folder:
            guard = Guard(self.settings().fetch_networks)
            await fetch(uri, folder / "prompts", objects=self.objects, guard=guard, most_bytes=prompts_most_bytes)
            return await asyncio.to_thread(read_prompts, folder / "prompts", filename(name), number)


def unfit(uri: str) -> str | None:
    """Why an address can be none; None if it can be tried."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "It is no address."
    if parts.scheme.lower() not in SCHEMES:
        return f"Only these are known: {', '.join(f'{scheme}:' for scheme in SCHEMES)}."
    if parts.scheme in ("http", "https") and not parts.hostname:
        return "It names no server."
    if not parts.path.strip("/"):
        return "It names no file."
    return None


def read_prompts(path: Path, name: str, number: int) -> tuple[list[Input], list[Invalid]]:
    """One request in each line that is not empty, and the lines that are none. Raises SchemaInvalid."""
    found: list[Input] = []
    wrong: list[Invalid] = []
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
                    wrong.append(Invalid(called, str(error)))
        except UnicodeDecodeError as error:
            raise SchemaInvalid(f"{name} is no text in UTF-8.", code="prompts") from error
    if not found and not wrong:
        raise SchemaInvalid(f"{name} has no prompts.", code="prompts")
    return found, wrong


def request(line: str) -> dict[str, Any]:
    """What a line asks, as a chat API takes it. A line that is no JSON is the prompt itself. Raises ValueError."""
    text = line.strip()
    try:
        value = cleaned(json.loads(text)) if text[0] in '{["' else cleaned(text)
    except ValueError as error:
        raise ValueError(f"It begins like JSON and is none: {error}.") from None
    if isinstance(value, str):
        return {"messages": [{"role": "user", "content": value}]}
    if isinstance(value, dict) and isinstance(value.get("body"), dict):
        value = value["body"]
    if isinstance(value, dict) and isinstance(value.get("prompt"), str):
        rest = {key: one for key, one in value.items() if key != "prompt"}
        return {"messages": [{"role": "user", "content": value["prompt"]}], **rest}
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and value["messages"]:
        return {key: one for key, one in value.items() if key != "model"}
    raise ValueError('It is no request. Write a text, {"prompt": "..."} or {"messages": [...]}.')


def filename(uri: str) -> str:
    return PurePosixPath(unquote(urlsplit(uri).path)).name or uri[:200]


def cut(inputs: list[Input], most: int) -> Iterator[list[Input]]:
    for start in range(0, len(inputs), most):
        yield inputs[start : start + most]
