"""A stand-in of OpenAI behind faults, and jobs for it as the engine would make them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.apps.providers.openai import OpenAI
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Result, Running
from holdfast.objects import Objects
from holdfast.testing.providers import Faults, OpenAIStandIn, Server


@dataclass
class Engine:
    """Keeps of a job what the engine keeps, and calls the door in the order it does."""

    provider: OpenAI
    job: Job
    memos: list[Any] = field(default_factory=list)

    async def submit(self, inputs: Sequence[Input]) -> str:
        external_id = await self.provider.submit(self.job, inputs)
        self.job = replace(self.job, external_id=external_id)
        return external_id

    async def adopt(self) -> str | None:
        external_id = await self.provider.find(self.job)
        self.job = replace(self.job, external_id=external_id)
        return external_id

    async def poll(self) -> Running | Ended:
        found = await self.provider.poll(self.job)
        if isinstance(found, Ended) and found.memo is not None:
            self.job = replace(self.job, memo=found.memo)
        return found

    async def to_the_end(self, polls: int = 20) -> Ended:
        for _ in range(polls):
            if isinstance(found := await self.poll(), Ended):
                return found
        raise AssertionError(f"It still runs after {polls} polls.")

    async def results(self, inputs: Sequence[Input]) -> dict[str, Result]:
        found = [result async for result in self.provider.fetch(self.job, inputs)]
        assert len({result.key for result in found}) == len(found)
        return {result.key: result for result in found}


def engine_for(provider: OpenAI, objects: Objects, token: str = "job-1", model: str | None = "small") -> Engine:  # noqa: S107 - no secret
    async def remember(memo: Any) -> None:
        engine.memos.append(memo)
        engine.job = replace(engine.job, memo=memo)

    now = datetime.now(UTC)
    place = f"jobs/{token}"
    job = Job(token, "completion", model, provider.account, None, now, None, remember, objects, place)
    engine = Engine(provider, job)
    return engine


def prompts(*texts: str) -> list[Input]:
    return [Input(f"p-{at}", body={"messages": [{"role": "user", "content": text}]}) for at, text in enumerate(texts)]


@dataclass
class Place:
    """A stand-in that listens."""

    stand_in: OpenAIStandIn
    faults: Faults
    server: Server


def standing_in(server: Server, folder: Path) -> Place:
    """A fresh stand-in, on a server that others used before."""
    stand_in = OpenAIStandIn(folder)
    faults = Faults(stand_in, ledger=folder / "requests.jsonl")
    server.app = faults
    return Place(stand_in, faults, server)
