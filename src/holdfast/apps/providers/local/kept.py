"""What is kept of a job among the objects: its inputs, the tries that went wrong, and a result for each input.

All of it lies below the job's place, in a folder of the job's own name, so that any machine can go on with the job. A
try that went wrong is one object, and its name says all that matters: to list them is to count them.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from holdfast.errors import Fatal, ObjectMissing, ObjectsUnreachable, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import Input, Job, Result, Usage
from holdfast.objects.scratch import scratch

Wrong = Literal["crash", "failure"]


@dataclass(frozen=True)
class Standing:
    """Which inputs have a result, and how often each of the others went wrong."""

    done: frozenset[str]
    wrong: Counter[tuple[str, str]]

    def times(self, key: str) -> int:
        return self.wrong[key, "crash"] + self.wrong[key, "failure"]


class Kept:
    """The objects of one job. All of it raises Transient while they cannot be reached."""

    def __init__(self, job: Job) -> None:
        self._objects = job.objects
        self._place = f"{job.place.rstrip('/')}/{job.token}"
        self._token = job.token

    async def is_there(self) -> bool:
        with reachable():
            return await self._objects.find(f"{self._place}/inputs.json") is not None

    async def begin(self, inputs: Sequence[Input]) -> None:
        if not await self.is_there():
            await self._put("inputs.json", [asdict(one) for one in inputs])

    async def inputs(self) -> list[Input]:
        """Raises Fatal if there is no such job."""
        found = await self._get("inputs.json")
        if found is None:
            raise Fatal(f"There is no job {self._token}: what was kept of it is gone.", code="missing")
        return [Input(**one) for one in found]

    async def standing(self) -> Standing:
        with reachable():
            found = await self._objects.keys(self._place)
        names = [one.key.removeprefix(f"{self._place}/").removesuffix(".json").split("/") for one in found]
        return Standing(
            frozenset(name[1] for name in names if name[0] == "results"),
            Counter((name[1], name[2].partition("-")[0]) for name in names if name[0] == "wrong"),
        )

    async def note(self, key: str, what: Wrong, number: int, message: str) -> None:
        """Remember that a try went wrong."""
        await self._put(f"wrong/{key}/{what}-{number}.json", {"message": message})

    async def keep(self, result: Result) -> None:
        usage = result.usage and {**asdict(result.usage), "cost_cents": str(result.usage.cost_cents)}
        await self._put(f"results/{result.key}.json", {**asdict(result), "usage": usage})

    async def result(self, key: str) -> Result | None:
        found = await self._get(f"results/{key}.json")
        if found is None:
            return None
        usage = found["usage"]
        return Result(**{**found, "usage": usage and Usage(**{**usage, "cost_cents": Decimal(usage["cost_cents"])})})

    async def _put(self, name: str, value: object) -> None:
        with reachable(), scratch() as folder:
            path = folder / "kept"
            await in_thread(path.write_text, json.dumps(value))
            await self._objects.put(f"{self._place}/{name}", path, content_type="application/json")

    async def _get(self, name: str) -> Any:
        with reachable(), scratch() as folder:
            try:
                await self._objects.fetch(f"{self._place}/{name}", folder / "kept")
            except ObjectMissing:
                return None
            return json.loads(await in_thread((folder / "kept").read_text))


@contextlib.contextmanager
def reachable() -> Iterator[None]:
    try:
        yield
    except ObjectsUnreachable as error:
        raise Transient(f"The place for objects does not answer. {error.detail}", code="unreachable") from error
