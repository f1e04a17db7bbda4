"""A worker that is killed inside an agent: another goes on at that agent, and nothing is run or charged twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.settings import Settings
from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.eventually import eventually
from tests.lifecycles.analysis.harness import Harness, harness_at, harness_of
from tests.tiers import deep_after
from tests.worker.crew import Crew

AGENTS = ["lines", "size"]


@pytest.fixture
async def user(live: Database, tmp_path: Path) -> AsyncIterator[Harness]:
    """A user of a server on the same database and the same objects; with a key, since workers over HTTP have one."""
    async with (
        harness_at(Engine(live), Settings(home=tmp_path)) as harness,
        harness_of(harness, "ada", 1000) as user,
    ):
        yield user


@pytest.mark.parametrize("killed_in", deep_after(1, AGENTS))
@pytest.mark.parametrize(
    "whole", [pytest.param(False, id="the runner", marks=pytest.mark.long), pytest.param(True, id="the whole worker")]
)
@pytest.mark.over_http("long")
async def test_another_worker_goes_on_at_the_agent_that_was_running(
    crew: Crew, user: Harness, killed_in: str, whole: bool
) -> None:
    worker = crew.start(app="tests.lifecycles.analysis.app:hf", lease_seconds=6.0 if whole else 30.0)
    task = await user.queued(AGENTS)
    for agent in AGENTS[: AGENTS.index(killed_in)]:
        crew.open(agent)
    await crew.noted(killed_in)
    worker.kill(supervisor=whole)
    if whole:
        crew.start(app="tests.lifecycles.analysis.app:hf", lease_seconds=30.0)
    await crew.noted(killed_in, 2)
    for agent in AGENTS:
        crew.open(agent)

    async def has_ended() -> bool:
        return bool((await user.read(task))["category"] == "Terminal")

    await eventually(has_ended)
    assert (await user.read(task))["status"] == "COMPLETED"
    assert {agent: len(crew.notes(agent)) for agent in AGENTS} == {agent: 1 + (agent == killed_in) for agent in AGENTS}
    assert await user.wallet() == {"balance": 995, "reserved": 0, "spent": 5}
    entries = (await user.http.get("/wallet")).json()["entries"]
    assert sorted(one["agent"] for one in entries if one["kind"] == "charge") == AGENTS
    assert set(await user.downloads(task)) == {"lines/lines.json", "size/size.json", "size/more/name.json"}


@pytest.mark.deep
async def test_who_is_cancelled_in_code_that_cannot_stop_harms_no_other(crew: Crew, user: Harness) -> None:
    crew.start(app="tests.lifecycles.analysis.app:hf", cancel_seconds=0.5)
    other = await user.queued(["lines"])
    await crew.noted("lines")
    task = await user.create(["stuck"], tool="stubborn")
    await user.put((await user.links(task))["primary"])
    await user.process(task)
    await crew.noted("stuck")
    assert (await user.cancel(task)).json()["effect"] == "requested"

    async def is_cancelled() -> bool:
        return bool((await user.read(task))["status"] == "CANCELLED")

    await eventually(is_cancelled)
    crew.open("lines")

    async def has_completed() -> bool:
        return bool((await user.read(other))["status"] == "COMPLETED")

    await eventually(has_completed)
    assert len(crew.notes("lines")) == 1
    assert set(crew.notes("lines")).isdisjoint(crew.notes("stuck"))  # each in a process of its own
