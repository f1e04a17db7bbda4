"""Fan-out: a job that we do ourselves, one request after the other, where a server takes no jobs.

The job lives among the objects: its inputs, written whole when it is submitted, and one object for each result, written
before the next poll counts it. A crash repeats at most the requests that were under way. Nobody works between two
polls, so a job that is not polled any more has stopped.
"""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast.engine.task import Json
from holdfast.errors import Failure, Fatal, ObjectMissing, ObjectsError, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Result, Running, Usage
from holdfast.objects import Objects

Do = Callable[[Job, Input], Awaitable[Result]]
JSON = "application/json"
tries_most = 3
read_at_once = 16


@dataclass(frozen=True)
class Fanout:
    """Does the inputs of a job with `do`, which raises a Failure or says what became of one."""

    do: Do
    at_once: int = 4
    spell: timedelta = timedelta(seconds=5)
    """How long a poll begins new requests; it waits for those that it has begun."""

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        """Write the inputs down; that is the job."""
        rows = [{"key": one.key, "uri": one.uri, "body": one.body, "name": one.name} for one in inputs]
        with reachable():
            await write(job.objects, f"{below(job)}/inputs.json", rows)
        return name_of(job)

    async def find(self, job: Job) -> str | None:
        with reachable():
            return name_of(job) if await job.objects.find(f"{below(job)}/inputs.json") else None

    async def poll(self, job: Job) -> Running | Ended:
        """Do some of what is left. Raises RateLimited or Fatal; Transient only if nothing at all was done."""
        with reachable():
            inputs = [Input(**row) for row in await read(job.objects, f"{below(job)}/inputs.json")]
            done = await self._kept(job)
            tries = await self._tries(job)
        left = sorted((one for one in inputs if one.key not in done), key=lambda one: tries.get(one.key, 0))
        if left:
            turn = Turn(self, job, left, tries)
            await turn.take()
            done |= turn.kept
            if turn.failure and (not isinstance(turn.failure, Transient) or not turn.kept):
                raise turn.failure
        if len(done) < len(inputs):
            return Running("in progress here", again_in=timedelta(seconds=1), done=len(done))
        return Ended("done here", "succeeded")

    def stopped(self) -> Ended:
        """What becomes of a job that nobody polls any more: what was done of it stays."""
        return Ended("stopped", "cancelled", "It was stopped before it was done.", "Transient")

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncGenerator[Result, None]:
        with reachable():
            done = await self._kept(job)
        wanted = [one.key for one in inputs if one.key in done]
        for at in range(0, len(wanted), read_at_once):
            with reachable():
                keys = (f"{below(job)}/results/{key}.json" for key in wanted[at : at + read_at_once])
                rows = await asyncio.gather(*(read(job.objects, key) for key in keys))
            for row in rows:
                yield as_result(row)

    async def _kept(self, job: Job) -> set[str]:
        found = await job.objects.keys(f"{below(job)}/results")
        return {one.key.rpartition("/")[2].removesuffix(".json") for one in found}

    async def _tries(self, job: Job) -> dict[str, int]:
        found = await job.objects.keys(f"{below(job)}/tries")
        named = [one.key.rpartition("/")[2].removesuffix(".json").rpartition(".") for one in found]
        counts: dict[str, int] = {}
        for key, _, count in named:
            counts[key] = max(counts.get(key, 0), int(count))
        return counts


class Turn:
    """One poll's share of the work."""

    def __init__(self, fanout: Fanout, job: Job, left: Sequence[Input], tries: Mapping[str, int]) -> None:
        self.fanout = fanout
        self.job = job
        self.left = iter(left)
        self.tries = tries
        self.kept: set[str] = set()
        self.failure: Failure | None = None

    async def take(self) -> None:
        until = asyncio.get_running_loop().time() + self.fanout.spell.total_seconds()
        async with asyncio.TaskGroup() as group:
            for _ in range(self.fanout.at_once):
                group.create_task(self._work(until))

    async def _work(self, until: float) -> None:
        begun = False  # at least one each time, however slow it all is
        while self.failure is None and not (begun and asyncio.get_running_loop().time() >= until):
            one = next(self.left, None)
            if one is None:
                return
            begun = True
            try:
                if result := await self._result(one):
                    await keep(self.job, result)
                    self.kept.add(result.key)
            except Failure as failure:  # our own objects cannot be reached
                self.failure = failure

    async def _result(self, one: Input) -> Result | None:
        """What became of it. What is everybody's trouble ends the turn; an input in trouble each time has failed."""
        try:
            return await self.fanout.do(self.job, one)
        except SchemaInvalid as failure:
            return Result(one.key, error=failure.message, category="SchemaInvalid")
        except Failure as failure:
            if self.failure is None or isinstance(self.failure, Transient):
                self.failure = failure
            tried = self.tries.get(one.key, 0) + 1
            if not isinstance(failure, Transient):
                return None
            if tried >= tries_most:
                return Result(one.key, error=failure.message, category="Transient")
            with reachable():
                await write(self.job.objects, f"{below(self.job)}/tries/{one.key}.{tried}.json", failure.message)
            return None


async def keep(job: Job, result: Result) -> None:
    with reachable():
        await write(job.objects, f"{below(job)}/results/{result.key}.json", as_row(result))


def name_of(job: Job) -> str:
    return f"here-{job.token}"


def is_here(job: Job) -> bool:
    """Whether this is a job that we do ourselves."""
    return job.external_id == name_of(job)


def below(job: Job) -> str:
    return job.place.rstrip("/")


def as_row(result: Result) -> dict[str, Any]:
    usage = result.usage and {
        "model": result.usage.model,
        "tokens_in": result.usage.tokens_in,
        "tokens_out": result.usage.tokens_out,
        "cost_cents": None if result.usage.cost_cents is None else str(result.usage.cost_cents),
    }
    return {
        "key": result.key,
        "output": result.output,
        "error": result.error,
        "category": result.category,
        "usage": usage,
    }


def as_result(row: dict[str, Any]) -> Result:
    usage = row["usage"]
    if usage:
        cost = usage["cost_cents"]
        usage = Usage(**{**usage, "cost_cents": None if cost is None else Decimal(cost)})
    return Result(row["key"], row["output"], row["error"], row["category"], usage)


async def write(objects: Objects, key: str, value: Json) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder, "value")
        await in_thread(path.write_text, json.dumps(value))
        await objects.put(key, path, content_type=JSON)


async def read(objects: Objects, key: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder, "value")
        await objects.fetch(key, path)
        return json.loads(await in_thread(path.read_bytes))


@contextlib.contextmanager
def reachable() -> Iterator[None]:
    """Objects that cannot be reached now may be later."""
    try:
        yield
    except ObjectMissing as error:
        raise Fatal(f"The files of this job are gone: {error}") from error
    except ObjectsError as error:
        raise Transient(f"The files of this job: {error}") from error
