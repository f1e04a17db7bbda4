"""A server that only speaks chat: the prompts are done one by one, and none is paid for twice."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.providers.openai import OpenAI
from holdfast.errors import Fatal, RateLimited, Transient
from holdfast.lifecycles.batch.provider import Running, Usage
from holdfast.objects.local import Folder
from holdfast.testing.providers import Fault, OpenAIStandIn, Server, delay, dropped, lost_answer, rewrite, status
from tests.providers.openai_jobs import Engine, Place, engine_for, prompts, standing_in

CHAT = "/chat/completions$"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(OpenAIStandIn(tmp_path_factory.mktemp("openai"))) as server:
        yield server


@pytest.fixture
def place(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    place = standing_in(server, tmp_path / "openai")
    place.stand_in.behave(has_batches=False)
    return place


@pytest.fixture
async def provider(place: Place) -> AsyncIterator[OpenAI]:
    """Begins two prompts in each poll."""
    provider = OpenAI(fanout_at_once=2, fanout_spell=timedelta(0))
    yield provider
    await provider.close()


@pytest.fixture
async def unhurried(place: Place) -> AsyncIterator[OpenAI]:
    """Does all of a job in one poll."""
    provider = OpenAI(fanout_spell=timedelta(hours=1))
    yield provider
    await provider.close()


@pytest.fixture
def engine(provider: OpenAI, tmp_path: Path) -> Engine:
    return engine_for(provider, Folder(tmp_path / "objects").open())


async def test_prompts_are_done_one_by_one(engine: Engine, place: Place) -> None:
    inputs = prompts("one two", "three", "!400", "four", "five")
    assert await engine.provider.find(engine.job) is None
    external_id = await engine.submit(inputs)
    assert await engine.provider.find(engine.job) == external_id
    first = await engine.poll()
    assert isinstance(first, Running)
    assert first.done == 2
    assert (await engine.to_the_end()).outcome == "succeeded"
    results = await engine.results(inputs)
    assert results["p-0"].output == {"text": "two one", "finish_reason": "stop", "model": "small"}
    assert results["p-0"].usage == Usage("small", 5, 2)
    assert [results[f"p-{at}"].ok for at in range(5)] == [True, True, False, True, True]
    assert results["p-2"].category == "SchemaInvalid"
    assert sorted(place.stand_in.completions()) == ["five", "four", "one two", "three"]
    assert len(place.faults.requests("GET", "/batches$")) == 1  # asked once


async def test_a_poll_does_as_much_as_fits(engine: Engine, unhurried: OpenAI) -> None:
    other = Engine(unhurried, engine.job)
    inputs = prompts(*(f"prompt {number}" for number in range(10)))
    await other.submit(inputs)
    await other.to_the_end(polls=1)
    assert len(await other.results(inputs)) == 10


async def test_a_crash_repeats_at_most_what_was_under_way(engine: Engine, place: Place) -> None:
    inputs = prompts(*(f"prompt {number}" for number in range(8)))
    await engine.submit(inputs)
    await engine.poll()
    loop, ended = asyncio.get_running_loop(), threading.Event()

    def crash(answer: Any) -> Any:  # both are answered, and neither answer has arrived
        loop.call_soon_threadsafe(polling.cancel)
        assert ended.wait(20)
        return answer

    place.faults.add("POST", CHAT, delay(60))
    place.faults.add("POST", CHAT, rewrite(crash), nth=2)
    polling = asyncio.create_task(engine.poll())
    polling.add_done_callback(lambda _: ended.set())
    with pytest.raises(asyncio.CancelledError):
        await polling
    await engine.to_the_end()
    times = Counter(place.stand_in.completions())
    assert sorted(times.values()) == [1, 1, 1, 1, 1, 1, 2, 2]
    assert len(await engine.results(inputs)) == 8


async def test_a_submit_that_crashed_is_found_by_what_it_wrote(engine: Engine) -> None:
    inputs = prompts("one")
    await engine.provider.submit(engine.job, inputs)  # and the answer was lost
    assert await engine.adopt() is not None
    await engine.to_the_end()
    assert (await engine.results(inputs))["p-0"].ok


async def test_a_rate_limit_keeps_what_is_done(engine: Engine, place: Place) -> None:
    inputs = prompts("one", "two", "three")
    await engine.submit(inputs)
    place.faults.add("POST", CHAT, status(429, {"Retry-After": "7"}), nth=2)
    with pytest.raises(RateLimited) as caught:
        await engine.poll()
    assert caught.value.retry_after == timedelta(seconds=7)
    assert len(place.stand_in.completions()) == 1
    await engine.to_the_end()
    assert sorted(place.stand_in.completions()) == ["one", "three", "two"]


async def test_a_prompt_in_trouble_holds_nobody_up_and_fails_alone(engine: Engine, place: Place) -> None:
    inputs = prompts("!503", "one", "two", "three")
    await engine.submit(inputs)
    troubles = 0
    for _ in range(10):
        try:
            if not isinstance(await engine.poll(), Running):
                break
        except Transient:
            troubles += 1
    results = await engine.results(inputs)
    assert [results[f"p-{at}"].ok for at in range(4)] == [False, True, True, True]
    assert results["p-0"].category == "Transient"
    assert troubles < 3  # which would be the end of the job
    assert sorted(place.stand_in.completions()) == ["one", "three", "two"]


@pytest.mark.parametrize("fault", [status(503), dropped(), lost_answer()])
async def test_a_server_in_trouble_is_a_failure(engine: Engine, place: Place, fault: Fault) -> None:
    await engine.submit(prompts(*(f"prompt {number}" for number in range(6))))
    place.faults.add("POST", CHAT, fault, times=None)
    with pytest.raises(Transient):
        await engine.poll()
    assert len(place.faults.requests("POST", CHAT)) == 2  # at once, and none was begun after that
    place.faults.clear()
    assert (await engine.to_the_end()).outcome == "succeeded"


async def test_prompts_in_trouble_come_after_the_others(engine: Engine, place: Place) -> None:
    await engine.submit(prompts("!503", "!503", "one", "two"))
    with pytest.raises(Transient):
        await engine.poll()
    await engine.poll()
    assert sorted(place.stand_in.completions()) == ["one", "two"]


async def test_trouble_ends_a_poll_that_had_time_left(engine: Engine, unhurried: OpenAI, place: Place) -> None:
    other = Engine(unhurried, engine.job)
    await other.submit(prompts(*(f"prompt {number}" for number in range(12))))
    place.faults.add("POST", CHAT, status(503), times=None)
    with pytest.raises(Transient):
        await other.poll()
    assert len(place.faults.requests("POST", CHAT)) <= 4


async def test_no_access_is_for_a_person(engine: Engine, place: Place) -> None:
    await engine.submit(prompts("one", "two"))
    place.stand_in.behave(key="sk-other")
    with pytest.raises(Fatal):
        await engine.poll()


async def test_a_cancelled_job_stops_since_nobody_polls_it(engine: Engine, place: Place) -> None:
    inputs = prompts("one", "two", "three")
    await engine.submit(inputs)
    await engine.poll()
    await engine.provider.cancel(engine.job)
    assert len(await engine.results(inputs)) == 2  # what was done stays


async def test_a_job_stays_here_when_the_server_learns_batches(engine: Engine, unhurried: OpenAI, place: Place) -> None:
    await engine.submit(prompts("one"))
    place.stand_in.behave(has_batches=True)
    other = Engine(unhurried, replace(engine.job, external_id=None))
    assert await other.adopt() == engine.job.external_id
    assert (await other.to_the_end()).outcome == "succeeded"
    assert place.stand_in.ledger() == []


async def test_files_that_are_gone_are_for_a_person(engine: Engine) -> None:
    await engine.submit(prompts("one"))
    await engine.job.objects.delete(engine.job.place)
    with pytest.raises(Fatal, match="gone"):
        await engine.poll()
