"""Real workers publish what their tasks put out, beside tasks that put out nothing."""

import pytest

from holdfast.datasets.store import Datasets
from tests.datasets import app
from tests.worker.crew import Crew


@pytest.mark.deep
async def test_workers_publish_each_output_once_and_settle_the_others_beside(crew: Crew) -> None:
    crew.start(app="tests.datasets.app", processes=2, slots=10)
    ended = await crew.run(*(task.submission(number) for number in range(30) for task in (app.collect, app.plain)))
    assert sorted(one.result for one in ended) == sorted([*range(30)] * 2)
    found = await Datasets.over(crew.store).read("", name="prices")
    assert sorted(one["rows"][0]["n"] for one in found["items"]) == list(range(30))
    assert found["version"] == 30


@pytest.mark.deep
async def test_what_cannot_be_published_ends_the_task_with_the_reason(crew: Crew) -> None:
    crew.start(app="tests.datasets.app")
    await crew.run(app.columns.submission("date"))
    refused, columns = await crew.run(app.refused.submission(), app.columns.submission("text"))
    assert [one.state for one in (refused, columns)] == ["Dead", "Dead"]
    entries = {one["task_id"]: one for one in await crew.store.inbox.newest()}
    assert entries[refused.task_id]["category"] == "SchemaInvalid"
    entry = entries[columns.task_id]
    assert (entry["category"], "day date -> text" in entry["error"]["message"]) == ("Fatal", True)
    assert [one["name"] for one in await Datasets.over(crew.store).find("")] == ["tables"]
