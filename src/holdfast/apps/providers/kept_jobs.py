"""Jobs that we do ourselves, a little in each poll: what is kept of them, and the fan-out that does them (`Fanout`).

Inputs, failed tries and results are among the objects, below the job's place, so that any machine can go on with the
job. A failed try is one object whose name says all that matters: to list them is to count them. Nothing happens between
two polls, so a job that is not polled any more has stopped.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import TypeAdapter

from holdfast.errors import Failure, Fatal, ObjectMissing, ObjectsError, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Result, Running, Usage
from holdfast.objects.scratch import scratch

Wrong = Literal["crash", "failure"]

STOPPED = Ended("stopped", "cancelled", "It was stopped before it was done.", "Transient")
"""What becomes of a job that is not polled any more: what was done of it stays."""
USAGE = TypeAdapter(Usage)
read_at_once = 16
tries_most = 3


class KeptJob:
    """The objects of one job. All of it raises Transient while they cannot be reached."""

    def __init__(self, job: Job, *, folder: str = "") -> None:
        """folder: of the job, below its place."""
        self._objects = job.objects
        self._place = f"{job.place.rstrip('/')}/{folder}".rstrip("/")
        self._token = job.token
        self.done: set[str] = set()
        """The keys of the inputs that have a result, once `look` has found them."""
        self.wrong: Counter[tuple[str, str]] = Counter()
        """How often an input went wrong, by its key and how."""

    async def exists(self) -> bool:
        with reachable():
            return await self._objects.find(f"{self._place}/inputs.json") is not None

    async def begin(self, inputs: Sequence[Input]) -> None:
        if not await self.exists():
            await self._put("inputs.json", [asdict(one) for one in inputs])

    async def left(self) -> list[Input]:
        """The inputs without a result; what went wrong before comes last. Raises Fatal if there is no such job."""
        try:
            inputs = [Input(**one) for one in await self._get("inputs.json")]
        except ObjectMissing as error:
            raise Fatal(f"There is no job {self._token}: what was kept of it is gone.", code="missing") from error
        await self.look()
        left = [one for one in inputs if one.key not in self.done]
        return sorted(left, key=lambda one: self.wrong[one.key, "crash"] + self.wrong[one.key, "failure"])

    async def look(self) -> None:
        """Find what is done, and what went wrong."""
        with reachable():
            found = await self._objects.keys(self._place)
        names = [one.key.removeprefix(f"{self._place}/").removesuffix(".json").split("/") for one in found]
        self.done = {name[1] for name in names if name[0] == "results"}
        self.wrong = Counter((name[1], name[2].partition("-")[0]) for name in names if name[0] == "wrong")

    async def note(self, key: str, what: Wrong, number: int, message: str) -> None:
        """Remember a failed try."""
        await self._put(f"wrong/{key}/{what}-{number}.json", {"message": message})

    async def keep(self, result: Result) -> None:
        await self._put(f"results/{result.key}.json", asdict(result))
        self.done.add(result.key)

    async def results(self, inputs: Sequence[Input]) -> AsyncGenerator[Result, None]:
        """Those that there are, in the order of the inputs."""
        await self.look()
        names = [f"results/{one.key}.json" for one in inputs if one.key in self.done]
        for start in range(0, len(names), read_at_once):
            for row in await asyncio.gather(*map(self._get, names[start : start + read_at_once])):
                yield Result(**{**row, "usage": row["usage"] and USAGE.validate_python(row["usage"])})

    async def _put(self, name: str, value: object) -> None:
        with reachable(), scratch() as folder:
            await in_thread((folder / "kept").write_text, json.dumps(value, default=str))  # of a Decimal
            await self._objects.put(f"{self._place}/{name}", folder / "kept", content_type="application/json")

    async def _get(self, name: str) -> Any:
        with reachable(), scratch() as folder:
            await self._objects.fetch(f"{self._place}/{name}", folder / "kept")
            return json.loads(await in_thread((folder / "kept").read_text))


@contextlib.contextmanager
def reachable() -> Iterator[None]:
    """Objects that cannot be reached now may be later."""
    try:
        yield
    except ObjectMissing:
        raise
    except ObjectsError as error:
        raise Transient(f"The files of this job cannot be reached. {error.detail}", code="unreachable") from error


@dataclass(frozen=True)
class Fanout:
    """Does the inputs of a job with `do`, one request for each, where a server takes no jobs.

    `do` returns the result of one input or raises a Failure. Each result is kept before the next poll counts it. A
    crash repeats at most the requests that were under way.
    """

    do: Callable[[Job, Input], Awaitable[Result]]
    at_once: int = 4
    spell: timedelta = timedelta(seconds=5)
    """How long a poll begins new requests; it waits for those that it has begun."""

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        """Keep the inputs; that is the job."""
        await KeptJob(job).begin(inputs)
        return name_of(job)

    async def find(self, job: Job) -> str | None:
        return name_of(job) if await KeptJob(job).exists() else None

    async def poll(self, job: Job) -> Running | Ended:
        """Do some of what is left. Raises RateLimited or Fatal; Transient only if nothing at all was done."""
        kept = KeptJob(job)
        left = await kept.left()
        before, waiting = len(kept.done), iter(left)
        clock = asyncio.get_running_loop().time
        until = clock() + self.spell.total_seconds()
        failures: list[Failure] = []

        async def work() -> None:
            while not failures and (one := next(waiting, None)):
                try:
                    if result := await self._result(job, kept, one, failures):
                        await kept.keep(result)
                except Failure as failure:  # our own objects cannot be reached
                    failures.append(failure)
                if clock() >= until:  # after at least one, however slow it all is
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(work())
        done = len(kept.done)
        final = [one for one in failures if not isinstance(one, Transient)]
        if final or (failures and done == before):
            raise final[0] if final else failures[-1]
        if done < before + len(left):
            return Running("in progress here", again_in=timedelta(seconds=1), done=done)
        return Ended("done here", "succeeded")

    async def _result(self, job: Job, kept: KeptJob, one: Input, failures: list[Failure]) -> Result | None:
        """What became of it. A trouble of the whole server ends the poll; an input in trouble each time has failed."""
        try:
            return await self.do(job, one)
        except SchemaInvalid as failure:
            return Result(one.key, error=failure.message, category="SchemaInvalid")
        except Failure as failure:
            failures.append(failure)
            if not isinstance(failure, Transient):
                return None
            tries = kept.wrong[one.key, "failure"] + 1
            if tries >= tries_most:
                return Result(one.key, error=failure.message, category="Transient")
            await kept.note(one.key, "failure", tries, failure.message)
            return None

    def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncGenerator[Result, None]:
        return KeptJob(job).results(inputs)


def name_of(job: Job) -> str:
    return f"here-{job.token}"


def is_here(job: Job) -> bool:
    """Whether this is a job that we do ourselves."""
    return job.external_id == name_of(job)
