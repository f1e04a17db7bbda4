"""The stand-in is faithful: the vendor's own client drives it from the upload to the results."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from holdfast.testing.providers import OpenAIStandIn, Server, ServerProcess
from tests.providers.openai_jobs import Place, standing_in


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(OpenAIStandIn(tmp_path_factory.mktemp("openai"))) as server:
        yield server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Place:
    return standing_in(server, tmp_path / "openai")


@pytest.fixture
def client(place: Place) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{place.server.url}/v1", api_key="sk-right", max_retries=0) as client:
        yield client


def uploaded(client: openai.OpenAI, *texts: str, url: str = "/v1/chat/completions") -> str:
    lines = [
        {
            "custom_id": f"p-{at}",
            "method": "POST",
            "url": url,
            "body": {"model": "small", "messages": [{"role": "user", "content": text}]},
        }
        for at, text in enumerate(texts)
    ]
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    file = client.files.create(file=("prompts.jsonl", content), purpose="batch")
    assert (file.bytes, file.filename, file.purpose) == (len(content), "prompts.jsonl", "batch")
    assert client.files.content(file.id).read() == content
    return file.id


def begun(client: openai.OpenAI, *texts: str, **metadata: str) -> openai.types.Batch:
    file = uploaded(client, *texts)
    return client.batches.create(
        input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h", metadata=metadata
    )


def ended(client: openai.OpenAI, batch: str) -> tuple[openai.types.Batch, list[str]]:
    seen: list[str] = []
    for _ in range(10):
        found = client.batches.retrieve(batch)
        seen.append(found.status)
        if found.status in ("completed", "failed", "expired", "cancelled"):
            return found, seen
    raise AssertionError(seen)


def lines(client: openai.OpenAI, file: str | None) -> list[Any]:
    return [json.loads(line) for line in client.files.content(file or "").text.splitlines()]


def test_a_batch_goes_from_its_upload_to_its_results(client: openai.OpenAI, place: Place) -> None:
    batch = begun(client, "one two", "!400 too_long", holdfast_job="t-1")
    assert batch.status == "validating"
    found, seen = ended(client, batch.id)
    assert seen == ["validating", "in_progress", "finalizing", "completed"]
    assert found.request_counts is not None
    assert (found.request_counts.total, found.request_counts.completed, found.request_counts.failed) == (2, 1, 1)
    assert found.usage is not None
    assert found.usage.total_tokens == 7
    (good,), (bad,) = lines(client, found.output_file_id), lines(client, found.error_file_id)
    assert good["custom_id"] == "p-0"
    assert good["response"]["body"]["choices"][0]["message"]["content"] == "two one"
    assert (bad["custom_id"], bad["response"]["status_code"]) == ("p-1", 400)
    assert [one["metadata"] for one in place.stand_in.ledger()] == [{"holdfast_job": "t-1"}]


def test_the_listing_goes_from_the_newest_to_the_oldest(client: openai.OpenAI, place: Place) -> None:
    ids = [begun(client, "x", number=str(number)).id for number in range(5)]
    assert [batch.id for batch in client.batches.list(limit=2)] == ids[::-1]
    place.stand_in.behave(page_most=1)
    assert [batch.id for batch in client.batches.list(limit=100)] == ids[::-1]
    place.stand_in.behave(hidden_lists=1)
    assert client.batches.list().data == []
    assert [batch.id for batch in client.batches.list()] == ids[::-1]
    place.stand_in.behave(hidden_seconds=3600)
    assert client.batches.list().data == []


def test_a_batch_can_be_cancelled(client: openai.OpenAI, place: Place) -> None:
    place.stand_in.behave(part=0.5)
    batch = begun(client, "one", "two")
    assert client.batches.cancel(batch.id).status == "cancelling"
    found, _ = ended(client, batch.id)
    assert found.status == "cancelled"
    assert [line["custom_id"] for line in lines(client, found.output_file_id)] == ["p-0"]
    assert [line["error"]["code"] for line in lines(client, found.error_file_id)] == ["batch_cancelled"]
    with pytest.raises(openai.BadRequestError):
        client.batches.cancel(batch.id)


def test_a_cancel_can_come_too_late(client: openai.OpenAI, place: Place) -> None:
    place.stand_in.behave(cancel="too_late")
    batch = begun(client, "one")
    assert client.batches.cancel(batch.id).status == "completed"


def test_a_file_that_is_wrong_fails_its_batch(client: openai.OpenAI) -> None:
    file = uploaded(client, "one", url="/v1/embeddings")
    batch = client.batches.create(input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h")
    found, _ = ended(client, batch.id)
    assert found.status == "failed"
    assert found.errors is not None
    assert found.errors.data is not None
    assert [(one.code, one.line) for one in found.errors.data] == [("invalid_url", 1)]


def test_refusals_are_the_errors_that_the_client_knows(client: openai.OpenAI, place: Place) -> None:
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_nowhere")
    with pytest.raises(openai.NotFoundError):
        client.files.content("file-nowhere")
    with pytest.raises(openai.BadRequestError):
        begun(client, "x", too_long="x" * 513)
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "!429 slow_down"}])
    assert refused.value.code == "slow_down"
    place.stand_in.behave(key="sk-other")
    with pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_a_chat_is_answered_and_models_are_listed(client: openai.OpenAI, place: Place) -> None:
    answer = client.chat.completions.create(model="small", messages=[{"role": "user", "content": "one two three"}])
    assert answer.choices[0].message.content == "three two one"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert [model.id for model in client.models.list()] == ["stand-in"]
    assert place.stand_in.completions() == ["one two three"]
    place.stand_in.behave(has_batches=False)
    with pytest.raises(openai.NotFoundError):
        client.batches.list(limit=1)


def test_work_can_go_on_by_the_clock(client: openai.OpenAI, place: Place) -> None:
    place.stand_in.behave(seconds=3600.0)
    batch = begun(client, "one")
    assert [client.batches.retrieve(batch.id).status for _ in range(5)] == ["validating"] * 5
    place.stand_in.behave(seconds=0.000001)
    assert client.batches.retrieve(batch.id).status == "completed"


def test_a_process_that_is_killed_forgets_nothing(tmp_path: Path) -> None:
    process = ServerProcess("openai", tmp_path / "openai").start()
    try:
        httpx2.post(f"{process.url}/_script", json={"polls": 2})
        with openai.OpenAI(base_url=f"{process.url}/v1", api_key="sk-right", max_retries=0) as client:
            batch = begun(client, "one", holdfast_job="t-1")
            assert [client.batches.retrieve(batch.id).status for _ in range(3)][-1] == "in_progress"
        process.kill()
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{process.url}/_ledger")
        process.start()
        with openai.OpenAI(base_url=f"{process.url}/v1", api_key="sk-right", max_retries=0) as client:
            assert [client.batches.retrieve(batch.id).status for _ in range(2)] == ["in_progress", "finalizing"]
        assert [one["id"] for one in httpx2.get(f"{process.url}/_ledger").json()] == [batch.id]
        assert len(httpx2.get(f"{process.url}/_faults/requests").json()) == 8
    finally:
        process.kill()
