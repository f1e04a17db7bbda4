"""OPENAI keeps the promises of the door, whatever goes wrong on the way."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.providers.openai import OpenAI
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.lifecycles.batch.provider import CannotTell, Ended, Input, Running, Usage
from holdfast.objects.local import Folder
from holdfast.testing.providers import (
    Fault,
    OpenAIStandIn,
    Server,
    change,
    drip,
    dropped,
    gzipped,
    html,
    lost_answer,
    rewrite,
    status,
    truncated,
)
from tests.providers.openai_jobs import Engine, Place, engine_for, prompts, standing_in

KEY = "sk-very-secret"
SOON = timedelta(seconds=0.3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(OpenAIStandIn(tmp_path_factory.mktemp("openai"))) as server:
        yield server


@pytest.fixture
def place(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    return standing_in(server, tmp_path / "openai")


@pytest.fixture
async def provider(place: Place) -> AsyncIterator[OpenAI]:
    provider = OpenAI()
    yield provider
    await provider.close()


@pytest.fixture
async def restarted(place: Place) -> AsyncIterator[OpenAI]:
    """The same in a process that has asked nothing yet."""
    provider = OpenAI()
    yield provider
    await provider.close()


@pytest.fixture
def objects(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "objects").open()


@pytest.fixture
def engine(provider: OpenAI, objects: Folder) -> Engine:
    return engine_for(provider, objects)


async def test_a_batch_is_done_from_submit_to_results(engine: Engine, place: Place) -> None:
    inputs = prompts("one two", "three", "!400 too_long")
    await engine.provider.check()
    external_id = await engine.submit(inputs)
    assert [(one["id"], one["metadata"]) for one in place.stand_in.ledger()] == [
        (external_id, {"holdfast_job": engine.job.token})
    ]
    assert await engine.poll() == Running("validating", done=0)
    ended = await engine.to_the_end()
    assert (ended.status, ended.outcome, ended.error, ended.has_results) == ("completed", "succeeded", None, True)
    results = await engine.results(inputs)
    assert results["p-0"].output == {"text": "two one", "finish_reason": "stop", "model": "small"}
    assert results["p-0"].usage == Usage("small", 5, 2)
    assert results["p-1"].ok
    assert (results["p-2"].output, results["p-2"].category) == (None, "SchemaInvalid")
    assert "answered 400" in str(results["p-2"].error)
    assert await engine.results(inputs) == results  # each call begins anew


# ---- submitting, and what is known of it


async def test_a_lost_answer_is_one_job(engine: Engine, place: Place) -> None:
    place.faults.add("POST", "/batches$", lost_answer())
    inputs = prompts("one")
    with pytest.raises(Transient):
        await engine.submit(inputs)
    found = await engine.adopt()
    assert [one["id"] for one in place.stand_in.ledger()] == [found]
    await engine.to_the_end()
    assert (await engine.results(inputs))["p-0"].ok


async def test_what_was_uploaded_is_not_uploaded_again(engine: Engine, place: Place) -> None:
    place.faults.add("POST", "/batches$", dropped())
    inputs = prompts("one")
    with pytest.raises(Transient):
        await engine.submit(inputs)
    assert await engine.adopt() is None
    await engine.submit(inputs)
    assert len(place.faults.requests("POST", "/files$")) == 1
    assert [{"input_file_id": one["input_file_id"]} for one in place.stand_in.ledger()] == engine.memos


@pytest.mark.parametrize(
    ("fault", "category"),
    [
        (status(429, {"Retry-After": "7"}), RateLimited),
        (status(429, {}, {"error": {"code": "insufficient_quota"}}), Fatal),
        (status(400), SchemaInvalid),
        (status(401), Fatal),
        (status(409), Transient),
        (status(503), Transient),
        (html(), Transient),
        (truncated(), Transient),
        (change({}, remove=["id"]), Transient),
    ],
)
@pytest.mark.parametrize("path", ["/files$", "/batches$"])
async def test_a_refusal_is_certain_and_all_else_is_open(
    engine: Engine, place: Place, path: str, fault: Fault, category: type[Failure]
) -> None:
    place.faults.add("POST", path, fault)
    with pytest.raises(Failure) as caught:
        await engine.submit(prompts("one"))
    assert type(caught.value) is category
    if category is not Transient:
        assert place.stand_in.ledger() == []
    assert len(place.faults.requests("POST", path)) == 1


async def test_a_batch_is_found_only_once_it_is_listed(engine: Engine, place: Place) -> None:
    place.stand_in.behave(hidden_lists=2)
    external_id = await engine.submit(prompts("one"))
    assert [await engine.provider.find(engine.job) for _ in range(3)] == [None, None, external_id]


async def test_a_batch_is_found_among_many_one_page_at_a_time(engine: Engine, place: Place, objects: Folder) -> None:
    place.stand_in.behave(page_most=1)
    external_id = await engine.submit(prompts("one"))
    for number in range(3):
        await engine_for(engine.provider, objects, token=f"other-{number}").submit(prompts("x"))
    assert await engine.adopt() == external_id
    assert len(place.faults.requests("GET", "/batches$")) == 1 + 4  # the question whether there are any at all


async def test_looking_back_ends_before_the_job_was_intended(engine: Engine, place: Place, objects: Folder) -> None:
    place.stand_in.behave(page_most=2)
    now = int(datetime.now(UTC).timestamp())
    for number in range(8):
        await engine_for(engine.provider, objects, token=f"other-{number}").submit(prompts("x"))

    def aged(page: Any) -> Any:
        for row in page["data"]:
            row["created_at"] = str(now - 3600 * (9 - int(row["metadata"]["holdfast_job"].rpartition("-")[2])))
        return page

    place.faults.add("GET", "/batches$", rewrite(aged), times=None)
    assert await engine.adopt() is None
    assert len(place.faults.requests("GET", "/batches$")) == 1 + 1
    engine.job = replace(engine.job, intended_at=datetime.now(UTC) - timedelta(hours=4))
    assert await engine.adopt() is None
    assert len(place.faults.requests("GET", "/batches$")) == 1 + 1 + 2


async def test_a_listing_in_another_order_is_read_to_its_end(engine: Engine, place: Place, objects: Folder) -> None:
    """A server that lists the oldest first must not pass for one that has nothing new."""
    place.stand_in.behave(page_most=1)
    external_id = await engine.submit(prompts("one"))
    for number in range(3):
        await engine_for(engine.provider, objects, token=f"other-{number}").submit(prompts("x"))
    now = int(datetime.now(UTC).timestamp())
    by_age = [engine.job.token, "other-0", "other-1", "other-2"]

    def aged(page: Any) -> Any:
        for row in page["data"]:
            row["created_at"] = now - by_age.index(row["metadata"]["holdfast_job"]) * 40_000
        return page

    place.faults.add("GET", "/batches$", rewrite(aged), times=None)
    assert await engine.adopt() == external_id


async def test_a_listing_that_goes_in_circles_cannot_tell(engine: Engine, place: Place, objects: Folder) -> None:
    await engine_for(engine.provider, objects, token="other").submit(prompts("x"))
    place.faults.add("GET", "/batches$", rewrite(lambda page: {**page, "has_more": True}), times=1)
    place.faults.add("GET", "/batches$", change({"data": [{"id": "batch_a"}], "has_more": True}), nth=2, times=None)
    with pytest.raises(CannotTell):
        await engine.adopt()


async def test_a_server_that_lost_its_batches_cannot_tell(engine: Engine, place: Place, restarted: OpenAI) -> None:
    place.faults.add("POST", "/batches$", lost_answer())
    with pytest.raises(Transient):
        await engine.submit(prompts("one"))
    place.stand_in.behave(has_batches=False)
    with pytest.raises(CannotTell):
        await restarted.find(engine.job)


async def test_a_job_of_another_account_is_for_a_person(engine: Engine) -> None:
    await engine.submit(prompts("one"))
    engine.job = replace(engine.job, account="elsewhere.example")
    with pytest.raises(CannotTell, match=r"elsewhere\.example"):
        await engine.provider.find(engine.job)
    with pytest.raises(Fatal, match=r"elsewhere\.example"):
        await engine.poll()
    with pytest.raises(Fatal):
        await engine.provider.cancel(engine.job)


# ---- polling


@pytest.mark.parametrize(
    ("fault", "running"),
    [
        (change({"status": "contemplating"}), Running("contemplating", done=0)),
        (change({}, remove=["status"]), Running("unknown", done=0)),
        (change({"status": None, "request_counts": None}), Running("unknown")),
        (change({"request_counts": {"completed": "3", "failed": "1", "total": "9"}}), Running("validating", done=4)),
        (rewrite(json.dumps), Running("validating", done=0)),
        (gzipped(), Running("validating", done=0)),
    ],
)
async def test_what_nobody_has_heard_of_is_running(
    engine: Engine, place: Place, fault: Fault, running: Running
) -> None:
    await engine.submit(prompts("one"))
    place.faults.add("GET", "/batches/", fault)
    assert await engine.poll() == running
    assert (await engine.to_the_end()).outcome == "succeeded"


@pytest.mark.parametrize(
    ("fault", "category"),
    [
        (status(500), Transient),
        (status(529), Transient),
        (html(), Transient),
        (dropped(), Transient),
        (status(429, {"Retry-After": "7"}), RateLimited),
        (status(403), Fatal),
    ],
)
async def test_a_poll_that_goes_wrong_leaves_the_job_as_it_is(
    engine: Engine, place: Place, fault: Fault, category: type[Failure]
) -> None:
    await engine.submit(prompts("one"))
    place.faults.add("GET", "/batches/", fault)
    with pytest.raises(Failure) as caught:
        await engine.poll()
    assert type(caught.value) is category
    assert (await engine.to_the_end()).outcome == "succeeded"


async def test_a_poll_that_drips_is_given_up(engine: Engine, place: Place) -> None:
    await engine.submit(prompts("one"))
    engine.provider._http.patience = replace(engine.provider._http.patience, whole=SOON)
    place.faults.add("GET", "/batches/", drip(0.05))
    with pytest.raises(Transient):
        await engine.poll()


async def test_a_key_can_be_changed_while_a_job_runs(
    engine: Engine, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.submit(prompts("one"))
    place.stand_in.behave(key="sk-new-secret")
    with pytest.raises(Fatal) as caught:
        await engine.poll()
    assert KEY not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-new-secret")
    assert (await engine.to_the_end()).outcome == "succeeded"


async def test_a_batch_that_is_unknown_at_first_is_waited_for(engine: Engine, place: Place) -> None:
    place.stand_in.behave(unknown_polls=1)
    await engine.submit(prompts("one"))
    assert await engine.poll() == Running("not shown yet")
    assert (await engine.to_the_end()).outcome == "succeeded"


async def test_a_batch_that_is_gone_is_gone(engine: Engine, place: Place) -> None:
    external_id = await engine.submit(prompts("one"))
    place.stand_in.behave(forgotten=[external_id])
    engine.job = replace(engine.job, intended_at=datetime.now(UTC) - timedelta(hours=1))
    gone = await engine.poll()
    assert isinstance(gone, Ended)
    assert (gone.outcome, gone.has_results) == ("expired", False)


async def test_the_server_says_when_to_ask_again(engine: Engine, place: Place) -> None:
    await engine.submit(prompts("one"))
    place.faults.add("GET", "/batches/", status(200, {"Retry-After": "30"}, {"status": "in_progress"}))
    assert await engine.poll() == Running("in_progress", again_in=timedelta(seconds=30))


@pytest.mark.parametrize(
    ("code", "category"),
    [("invalid_request", "SchemaInvalid"), ("token_limit_exceeded", "RateLimited"), ("insufficient_quota", "Fatal")],
)
async def test_a_batch_that_failed_says_why(engine: Engine, place: Place, code: str, category: str) -> None:
    place.stand_in.behave(ends="failed", failed_code=code)
    await engine.submit(prompts("one"))
    ended = await engine.to_the_end()
    assert (ended.outcome, ended.category, ended.has_results) == ("failed", category, False)
    assert code in str(ended.error)


async def test_a_refused_line_is_named(engine: Engine) -> None:
    one, two = prompts("one", "two")
    await engine.submit([one, replace(two, key=one.key)])
    ended = await engine.to_the_end()
    assert (ended.outcome, ended.category) == ("failed", "SchemaInvalid")
    assert "line 2: " in str(ended.error)


@pytest.mark.parametrize("how", ["expired", "cancelled"])
async def test_what_was_done_before_the_end_is_harvested(engine: Engine, place: Place, how: str) -> None:
    place.stand_in.behave(ends=how, part=0.5)
    inputs = prompts("one", "two", "three", "four")
    await engine.submit(inputs)
    ended = await engine.to_the_end()
    assert (ended.outcome, ended.has_results) == (how, True)
    results = await engine.results(inputs)
    assert [results[f"p-{at}"].ok for at in range(4)] == [True, True, False, False]
    assert results["p-3"].category == "Transient"


async def test_nothing_done_is_nothing_to_fetch(engine: Engine, place: Place) -> None:
    place.stand_in.behave(ends="expired")
    place.faults.add("GET", "/batches/", change({"status": "expired", "output_file_id": ""}))
    await engine.submit(prompts("one"))
    ended = await engine.to_the_end()
    assert (ended.outcome, ended.has_results) == ("expired", False)


# ---- results


@pytest.mark.parametrize(
    "mangled",
    [
        ["duplicate"],
        ["shuffle"],
        ["foreign"],
        ["huge"],
        ["body_as_text"],
        ["numbers_as_text"],
        ["numbers_as_text", "body_as_text", "duplicate", "foreign", "shuffle"],
    ],
    ids="+".join,
)
async def test_every_result_counts_once_whatever_the_file_looks_like(
    engine: Engine, place: Place, mangled: list[str]
) -> None:
    place.stand_in.behave(mangled=mangled, empty_error_file=True, polls=0)
    inputs = prompts("one two", "three", "four")
    await engine.submit(inputs)
    await engine.to_the_end()
    results = await engine.results(inputs)
    assert sorted(results) == ["p-0", "p-1", "p-2"]
    assert all(result.ok for result in results.values())
    assert results["p-0"].usage == Usage("small", 5, 2)
    assert results["p-2"].output["text"] == "four"


async def test_a_missing_line_is_left_out_and_one_that_is_cut_off_may_be_tried_again(
    engine: Engine, place: Place
) -> None:
    inputs = prompts("one", "two", "three")
    place.stand_in.behave(mangled=["missing"], polls=0)
    await engine.submit(inputs)
    await engine.to_the_end()
    assert sorted(await engine.results(inputs)) == ["p-0", "p-1"]
    place.stand_in.behave(mangled=["truncated"])
    other = engine_for(engine.provider, engine.job.objects, token="job-2")
    await other.submit(inputs)
    await other.to_the_end()
    results = await other.results(inputs)
    assert [results[key].ok for key in sorted(results)] == [True, True, False]
    assert results["p-2"].category == "Transient"


@pytest.mark.parametrize(
    ("refused", "category"),
    [
        ("!429", "RateLimited"),
        ("!429 insufficient_quota", "Fatal"),
        ("!503", "Transient"),
        ("!403", "Fatal"),
        ("!422", "SchemaInvalid"),
    ],
)
async def test_each_line_has_its_own_category(engine: Engine, place: Place, refused: str, category: str) -> None:
    place.stand_in.behave(polls=0)
    inputs = prompts("one", refused)
    await engine.submit(inputs)
    assert (await engine.to_the_end()).outcome == "succeeded"
    results = await engine.results(inputs)
    assert (results["p-0"].ok, results["p-1"].category) == (True, category)


async def test_results_are_fetched_anew_after_a_download_that_broke(engine: Engine, place: Place) -> None:
    place.stand_in.behave(polls=0)
    inputs = prompts(*(f"prompt {number}" for number in range(200)))
    await engine.submit(inputs)
    await engine.to_the_end()
    place.faults.add("GET", "/content$", truncated())
    place.faults.add("GET", "/content$", html(), nth=2)
    place.faults.add("GET", "/content$", gzipped(), nth=3)
    for _ in range(2):
        with pytest.raises(Transient):
            await engine.results(inputs)
    assert len(await engine.results(inputs)) == 200


async def test_results_are_found_without_a_memo(engine: Engine, place: Place) -> None:
    place.stand_in.behave(polls=0)
    inputs = prompts("one")
    await engine.submit(inputs)
    await engine.to_the_end()
    engine.job = replace(engine.job, memo=None)
    assert (await engine.results(inputs))["p-0"].ok


# ---- cancelling


@pytest.mark.parametrize(("cancel", "outcome"), [("works", "cancelled"), ("too_late", "succeeded")])
async def test_a_cancel_may_lose_the_race(engine: Engine, place: Place, cancel: str, outcome: str) -> None:
    place.stand_in.behave(cancel=cancel)
    await engine.submit(prompts("one"))
    await engine.provider.cancel(engine.job)
    assert (await engine.to_the_end()).outcome == outcome
    await engine.provider.cancel(engine.job)  # answered 400, since it has ended


async def test_a_cancel_that_is_not_answered_is_a_failure(engine: Engine, place: Place) -> None:
    await engine.submit(prompts("one"))
    place.faults.add("POST", "/cancel$", status(503))
    with pytest.raises(Transient):
        await engine.provider.cancel(engine.job)
    place.stand_in.behave(cancel="refused")
    await engine.provider.cancel(engine.job)


# ---- what is known without asking


def test_what_is_missing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert "OPENAI_API_KEY" in str(OpenAI().missing("completion"))
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8080")
    assert "web address" in str(OpenAI().missing("completion"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:hidden@localhost:8080/v1/")
    assert OpenAI().missing("completion") is None
    assert OpenAI().account == "localhost:8080"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in repr(vars(OpenAI()))


def test_what_is_no_prompt_is_refused_before_anybody_is_asked() -> None:
    provider = OpenAI()
    assert provider.refuse("completion", prompts("one")[0]) is None
    assert provider.refuse("completion", Input("a", uri="https://x.example/a.wav"))
    assert provider.refuse("completion", Input("a", body={"messages": [], "stream": True}))
