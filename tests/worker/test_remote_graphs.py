"""A worker without a database runs graphs, publishes what they put out, and asks people."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.approvals.store import Questions
from holdfast.datasets.store import Datasets
from holdfast.errors import RequestInvalid
from holdfast.schedules.store import Schedules
from holdfast.sdk.client import Holdfast
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.eventually import eventually
from tests.over_http import staffing
from tests.worker import graph_app
from tests.worker.crew import Crew


@pytest.fixture
async def crew(live: Database, tmp_path: Path) -> AsyncIterator[Crew]:
    """Nobody yet; they will speak HTTP."""
    with contextlib.ExitStack() as stack:
        crew = await asyncio.to_thread(stack.enter_context, staffing(live, tmp_path, "http"))
        async with live.store() as crew.store:
            yield crew
            assert await crew.store.verify() == []


@pytest.mark.deep
async def test_a_graph_is_declared_run_and_published_over_http(crew: Crew) -> None:
    crew.start(app="tests.worker.graph_app", slots=2)
    (started,) = await crew.run(graph_app.start_graph.submission("2026-11-17"))
    run = started.result
    questions, datasets = Questions.over(crew.store), Datasets.over(crew.store)

    async def asked() -> list[Any]:
        return list(await questions.open())

    (question,) = await eventually(asked, "a question")
    assert question.question == "Publish 50 kg?"
    (dataset,) = await datasets.find()
    assert dataset["version"] == 0, "nobody sees it before all of it is done"
    (again,) = await crew.run(graph_app.start_graph.submission("2026-11-17"))
    assert again.result == run, "the same key is the same run"
    schedules = await Schedules.over(crew.store).read()
    assert [(one["name"], one["live"]) for one in schedules] == [("every-morning", True), ("every-night", True)]
    await questions.answer(question.task_id, {"approved": True})
    (ended,) = await crew.ended([UUID(run)])
    assert (ended.state, ended.result) == ("Completed", {"done": 3})
    found = await datasets.read(dataset["owner"], name="prices")
    assert found["items"][0]["rows"] == [{"species": "cod", "kg": 40}, {"species": "sole", "kg": 10}]


async def test_what_a_server_does_not_take_is_refused_with_the_fix(crew: Crew, tmp_path: Path) -> None:
    settings = Settings(
        api=crew.environment["HOLDFAST_API"], key=crew.environment["HOLDFAST_KEY"], home=tmp_path / ".holdfast"
    )
    client = Holdfast(settings=settings)
    nightly = client.dag("harbour")
    nightly.task(graph_app.landed)
    with pytest.raises(RequestInvalid, match="the owner of the key"):
        await nightly.opts(owner="ada").astart(day="today")
    await asyncio.to_thread(client.close)
