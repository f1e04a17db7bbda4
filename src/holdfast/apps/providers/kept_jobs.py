"""Jobs that we do ourselves, a little in each poll: inputs, failed tries and results, kept among the objects.

All of it lies below the job's place, so that any machine can go on with the job. A failed try is one object whose name
says all that matters: to list them is to count them. Nothing happens between two polls, so a job that is not polled any
more has stopped.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from holdfast.errors import Fatal, ObjectMissing, ObjectsError, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Result, Usage
from holdfast.objects.scratch import scratch

Wrong = Literal["crash", "failure"]

STOPPED = Ended("stopped", "cancelled", "It was stopped before it was done.", "Transient")
"""What becomes of a job that is not polled any more: what was done of it stays."""
read_at_once = 16


@dataclass(frozen=True)
class Standing:
    """Which inputs have a result, and how often each of the others went wrong."""

    done: frozenset[str]
    wrong: Counter[tuple[str, str]]

    def times(self, key: str) -> int:
        return self.wrong[key, "crash"] + self.wrong[key, "failure"]

    def left(self, inputs: Sequence[Input]) -> list[Input]:
        """Those without a result; what went wrong before comes last."""
        return sorted((one for one in inputs if one.key not in self.done), key=lambda one: self.times(one.key))


class KeptJob:
    """The objects of one job. All of it raises Transient while they cannot be reached."""

    def __init__(self, job: Job, *, folder: str = "") -> None:
        """folder: of the job, below its place."""
        self._objects = job.objects
        self._place = f"{job.place.rstrip('/')}/{folder}".rstrip("/")
        self._token = job.token

    async def exists(self) -> bool:
        with reachable():
            return await self._objects.find(f"{self._place}/inputs.json") is not None

    async def begin(self, inputs: Sequence[Input]) -> None:
        if not await self.exists():
            await self._put("inputs.json", [asdict(one) for one in inputs])

    async def inputs(self) -> list[Input]:
        """Raises Fatal if there is no such job."""
        try:
            return [Input(**one) for one in await self._get("inputs.json")]
        except ObjectMissing as error:
            raise Fatal(f"There is no job {self._token}: what was kept of it is gone.", code="missing") from error

    async def compute_standing(self) -> Standing:
        with reachable():
            found = await self._objects.keys(self._place)
        names = [one.key.removeprefix(f"{self._place}/").removesuffix(".json").split("/") for one in found]
        return Standing(
            frozenset(name[1] for name in names if name[0] == "results"),
            Counter((name[1], name[2].partition("-")[0]) for name in names if name[0] == "wrong"),
        )

    async def note(self, key: str, what: Wrong, number: int, message: str) -> None:
        """Remember a failed try."""
        await self._put(f"wrong/{key}/{what}-{number}.json", {"message": message})

    async def keep(self, result: Result) -> None:
        row = asdict(result)
        if result.usage and result.usage.cost_cents is not None:
            row["usage"]["cost_cents"] = str(result.usage.cost_cents)
        await self._put(f"results/{result.key}.json", row)

    async def results(self, inputs: Sequence[Input]) -> AsyncGenerator[Result, None]:
        """Those that there are, in the order of the inputs."""
        done = (await self.compute_standing()).done
        names = [f"results/{one.key}.json" for one in inputs if one.key in done]
        for start in range(0, len(names), read_at_once):
            for row in await asyncio.gather(*map(self._get, names[start : start + read_at_once])):
                usage = row["usage"]
                if usage and usage["cost_cents"] is not None:
                    usage["cost_cents"] = Decimal(usage["cost_cents"])
                yield Result(**{**row, "usage": usage and Usage(**usage)})

    async def _put(self, name: str, value: object) -> None:
        with reachable(), scratch() as folder:
            await in_thread((folder / "kept").write_text, json.dumps(value))
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
