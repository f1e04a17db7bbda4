"""Workers are killed, or frozen until another has gone on, in a call to the provider: no job is begun or paid twice."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.lifecycles.batch.store import Batches
from holdfast.testing.providers import Faults, OpenAIStandIn, Server, delay
from tests.eventually import eventually
from tests.lifecycles.batch.watched_app import complete, hf
from tests.tiers import deep_after
from tests.worker.crew import Crew

APP = "tests.lifecycles.batch.watched_app:hf"
CALLS = {
    "the upload": ("POST", "/files$"),
    "the submit": ("POST", "/batches$"),
    "a poll": ("GET", "/batches/"),
    "the results": ("GET", "/content$"),
}
"""In each of them one of the batches is held: the answer to the first such call does not come."""


@pytest.fixture
def stand_in(tmp_path: Path) -> OpenAIStandIn:
    stand_in = OpenAIStandIn(tmp_path / "openai")
    stand_in.behave(polls=2)
    return stand_in


@pytest.fixture
def faults(stand_in: OpenAIStandIn) -> Faults:
    return Faults(stand_in)


@pytest.fixture
async def crew(crew: Crew, faults: Faults) -> AsyncIterator[Crew]:
    with Server(faults) as server:
        crew.environment |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "sk-no-secret"}
        await hf.declare(crew.store)
        yield crew


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", deep_after(1, [signal.SIGKILL, signal.SIGSTOP]))
@pytest.mark.over_http("long")
async def test_another_worker_goes_on_and_begins_nothing_twice(
    crew: Crew, stand_in: OpenAIStandIn, faults: Faults, how: signal.Signals
) -> None:
    held = [faults.add(method, path, delay(3600)) for method, path in CALLS.values()]
    first = crew.start(app=APP, slots=len(held), lease_seconds=6.0)
    prompts = crew.folder / "prompts.txt"
    prompts.write_text("one\ntwo\nthree\n")
    asked = complete.submission(urls=[prompts.as_uri()], models=["stand-in"])
    batches = await crew.submit(*[asked] * len(held))

    async def all_are_held() -> bool:
        return all(rule.seen for rule in held)

    await eventually(all_are_held, "a batch in each of these calls")
    first.signal(how)
    crew.start(app=APP, slots=len(held), lease_seconds=30.0)
    ends = await crew.ended(batches)
    if how == signal.SIGSTOP:
        first.signal(signal.SIGCONT)
        assert await asyncio.to_thread(first.leave) == 0
    assert [end.state for end in ends] == ["COMPLETED"] * len(held)
    found = await Batches.over(crew.store).read(batches)
    assert [batch.manifest.ok for batch in found] == [3] * len(held)
    tokens = {job.token for batch in found for job in batch.jobs}
    begun = Counter(one["metadata"]["holdfast_job"] for one in stand_in.ledger())
    assert begun == dict.fromkeys(tokens, 1)
    for batch in batches:
        (cost,) = await crew.store.costs.totals(by="total", task=batch)
        assert cost.calls == 2, "one for each job"
