"""A provider that asks to be left alone, over real HTTP: the run is slowed, and nothing else happens to it."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from fastapi import Response

from holdfast import Holdfast
from holdfast.engine.task import Submission
from holdfast.lifecycles.ingest.declaration import STEPS
from holdfast.sdk.client import override_settings
from holdfast.settings import Settings
from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.eventually import eventually
from tests.lifecycles.ingest.embedding_server import KEY, EmbeddingServer, embedding_server, refusal
from tests.lifecycles.ingest.harness import Harness, harness_at
from tests.lifecycles.ingest.ledger import Ledger, watch
from tests.worker.crew import Crew

EMBEDDER = "openai:house-model:8"
number = 5

beside = Holdfast()


@beside.task
async def other() -> str:
    """Work that needs no provider."""
    return "done"


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture
def server(running: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingServer:
    monkeypatch.setenv("OPENAI_BASE_URL", running.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running.asked.clear()
    running.script.clear()
    return running


@pytest.fixture
async def slow_harness(
    holdfast: Engine, server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Harness]:
    """A server and a worker with one slot, whose embedder is that provider."""
    monkeypatch.setattr("holdfast.testing.engine.slots", 1)
    settings = Settings(url=holdfast.database.url, home=tmp_path / "home", embedder=EMBEDDER)
    with override_settings(settings):
        async with harness_at(holdfast, settings, tmp_path / "papers") as harness:
            yield harness


def papers(harness: Harness) -> list[str]:
    return [harness.write(f"{place}.md", f"# Page {place}\n\nIt speaks of seaweed.\n") for place in range(number)]


def slow_down(seconds: int) -> Response:
    return refusal(429, "Slow down.", "rate_limit_exceeded", Retry_After=str(seconds))


async def check_unharmed(harness: Harness, run: str) -> None:
    """Nothing failed, and no attempt was used up."""
    for item in await harness.items(run):
        assert (item["status"], item["retry_count"], item["attempt"]) == ("DONE", 0, 1)
    found = await harness.run(run)
    assert (found["status"], found["item_count_done"], found["item_count_failed"]) == ("COMPLETED", number, 0)
    assert await harness.store.inbox.newest() == []
    assert len(await harness.found("seaweed", limit=100)) == number


async def test_when_the_provider_limits_one_item_all_wait_and_none_is_harmed(
    slow_harness: Harness, server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, ledger = slow_harness, Ledger(tmp_path / "ledger")
    watch(monkeypatch.setattr, ledger)
    server.script += [slow_down(600), slow_down(900)]
    run = await harness.begin(*papers(harness))
    for requests, seconds in ((1, 600), (2, 900)):
        began = harness.clock.now()
        harness.work(moving=False)
        assert len(server.asked) == requests  # one of them was limited; the others wait with it
        found = await harness.run(run)
        assert (found["item_count_running"], found["item_count_pending"]) == (0, number)  # they hold no place
        for item in await harness.items(run):
            why = await harness.store.explain(UUID(item["item_id"]))
            assert (why.reason, item["last_error_kind"], item["retry_count"]) == ("rate_budget", "RateLimited", 0)
            assert why.until
            assert (why.until - began).total_seconds() >= seconds
        assert harness.engine.run(other).result == "done"  # by the one slot that there is
        assert (len(server.asked), harness.clock.now()) == (requests, began)
        harness.clock.advance(seconds=seconds)
    harness.work()
    assert len(server.asked) == 2 + number
    await check_unharmed(harness, run)
    begun = Counter(line.step for line in ledger.lines() if line.what == "begin")
    assert begun == {**dict.fromkeys(STEPS, number), "EMBEDDED": begun["EMBEDDED"]}
    assert begun["EMBEDDED"] >= 2 * number


async def test_what_was_paid_for_before_the_wait_is_not_paid_for_again(
    slow_harness: Harness, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.apps.documents.ingestion.embedded_at_once", 1)
    await slow_harness.store.costs.set_price("house-model", 1_000_000, 0)
    text = "\n\n".join(f"## Part {place}\n\n" + f"Kelp number {place} grows. " * 60 for place in range(4))
    server.script += [None, slow_down(600)]
    run = await slow_harness.begin(slow_harness.write("long.md", text))
    slow_harness.work()
    item = await slow_harness.item(run)
    chunks = item["result"]["chunks"]
    assert chunks > 1
    assert (item["status"], item["retry_count"]) == ("DONE", 0)
    assert len(server.asked) == chunks + 1
    paid = [one for one in await slow_harness.events(item["item_id"]) if one["tokens_in"]]
    assert len(paid) == chunks
    assert (await slow_harness.run(run))["cost_cents"] == pytest.approx(sum(one["tokens_in"] for one in paid))


@pytest.mark.deep
@pytest.mark.timeout(180)
async def test_a_worker_with_one_slot_goes_on_with_other_work(
    live: Database, server: EmbeddingServer, tmp_path: Path
) -> None:
    (tmp_path / "crew").mkdir()
    server.script += [slow_down(1), slow_down(1)]
    settings = Settings(home=tmp_path, embedder=EMBEDDER)
    with contextlib.closing(Crew(live.url, tmp_path / "crew")) as crew:
        crew.environment |= {"HOLDFAST_OBJECTS": f"file://{tmp_path}/objects", "HOLDFAST_EMBEDDER": EMBEDDER}
        async with live.store() as crew.store, harness_at(Engine(live), settings, tmp_path / "papers") as harness:
            crew.start(app="tests.lifecycles.ingest.watched_app:hf", slots=1)
            run = await harness.begin(*papers(harness))

            async def was_asked() -> bool:
                return bool(server.asked)

            await eventually(was_asked, "a request", within=60)
            (ended,) = await crew.run(Submission("other"))
            assert ended.result == "done"

            async def has_ended() -> bool:
                return bool((await harness.run(run))["status"] != "RUNNING")

            await eventually(has_ended, "its end", within=60)
            assert len(server.asked) == 2 + number
            await check_unharmed(harness, run)
