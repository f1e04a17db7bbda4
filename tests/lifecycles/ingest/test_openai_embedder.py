"""Vectors from a server that speaks as OpenAI does, over real HTTP: what is asked, what is read, what is refused."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi import Response

from holdfast import Holdfast, step
from holdfast.apps.documents.embedders import embedder_at_hand, open_embedder, openai
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, SettingInvalid, Transient
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.settings import Settings
from holdfast.testing import Engine
from tests.lifecycles.ingest.embedding_server import KEY, EmbeddingServer, embedding_server, refusal, vector

SMALL = "openai:text-embedding-3-small"
SLOW = 'slow down " sk-secret'


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


def opened(setting: str) -> Embedder:
    return open_embedder(Settings(embedder=setting))


def body(**fields: object) -> Response:
    """A good status with this in it."""
    return Response(json.dumps(fields), media_type="application/json")


def rows(*vectors: list[float]) -> list[dict[str, object]]:
    return [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]


async def test_vectors_come_in_the_order_of_the_texts_and_have_length_one(server: EmbeddingServer) -> None:
    texts = ["tides", "bread and bread", "bees"]
    vectors = await opened(SMALL).embed(texts)
    for text, made in zip(texts, vectors, strict=True):
        length = sum(number**2 for number in vector(text, 1536)) ** 0.5
        assert made == pytest.approx([number / length for number in vector(text, 1536)])
    asked = {"model": "text-embedding-3-small", "input": texts, "encoding_format": "float"}
    assert server.asked == [{**asked, "authorization": f"Bearer {KEY}"}]


async def test_dimensions_are_asked_for_where_they_are_not_the_models_own(server: EmbeddingServer) -> None:
    (short,) = await opened(f"{SMALL}:256").embed(["tides"])
    (usual,) = await opened(f"{SMALL}:1536").embed(["tides"])
    (old,) = await opened("openai:text-embedding-ada-002").embed(["tides"])
    assert (len(short), len(usual), len(old)) == (256, 1536, 1536)
    assert [asked.get("dimensions") for asked in server.asked] == [256, None, None]


async def test_many_texts_take_as_many_requests_as_a_server_wants(server: EmbeddingServer) -> None:
    texts = [f"tide {number}" for number in range(300)]
    vectors = await opened("openai:house-model:8").embed(texts)
    assert len(vectors) == 300
    assert [len(asked["input"]) for asked in server.asked] == [128, 128, 44]
    server.asked.clear()
    await opened("openai:house-model:8").embed(["a" * 200_000, "b" * 100_000, "c", "d" * 400_000, "e"])
    assert [len(asked["input"]) for asked in server.asked] == [2, 1, 1, 1]
    server.asked.clear()
    assert await opened("openai:house-model:8").embed([]) == []
    assert server.asked == []


async def test_a_server_without_a_key_is_asked_without_one(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    server.script.append(body(data=rows([3.0, 4.0])))
    assert await opened("openai:tiny:2").embed(["tides"]) == [[0.6, 0.8]]
    assert server.asked[0]["authorization"] is None


@pytest.mark.parametrize(
    ("answer", "category", "wait"),
    [
        (refusal(429, SLOW, retry_after="7"), RateLimited, timedelta(seconds=7)),
        (refusal(429, SLOW, retry_after_ms="250", retry_after="1"), RateLimited, timedelta(milliseconds=250)),
        (
            refusal(429, SLOW, date="Mon, 16 Nov 2026 09:00:00 GMT", retry_after="Mon, 16 Nov 2026 09:02:00 GMT"),
            RateLimited,
            timedelta(minutes=2),
        ),
        (refusal(429, SLOW, retry_after="soon"), RateLimited, None),
        (refusal(429, SLOW, retry_after="1e300"), RateLimited, timedelta(days=1)),
        (
            refusal(429, SLOW, x_ratelimit_reset_requests="6m0s", x_ratelimit_reset_tokens="20ms",
                    x_ratelimit_remaining_requests="5", x_ratelimit_remaining_tokens="0"),
            RateLimited,
            timedelta(milliseconds=20),
        ),
        (refusal(429, SLOW, x_ratelimit_reset_requests="1m30s"), RateLimited, timedelta(seconds=90)),
        (refusal(429, SLOW), RateLimited, None),
        (refusal(429, SLOW, "insufficient_quota", retry_after="7"), Fatal, None),
        (refusal(503, SLOW, retry_after="7"), Transient, timedelta(seconds=7)),
        *((refusal(status, SLOW), Transient, None) for status in (408, 409, 425, 500, 502, 529)),
        *((refusal(status, SLOW), SchemaInvalid, None) for status in (400, 413, 415, 422)),
        *((refusal(status, SLOW), Fatal, None) for status in (401, 402, 403, 404, 405, 410, 302)),
        (Response("<html>sk-secret bad gateway</html>", 502), Transient, None),
        (Response('["sk-secret"]', 400), SchemaInvalid, None),
    ],
    ids=lambda value: str(value.status_code) if isinstance(value, Response) else "",
)  # fmt: skip
async def test_every_refusal_has_its_category_and_its_wait_and_keeps_the_key_secret(
    server: EmbeddingServer, answer: Response, category: type[Failure], wait: timedelta | None
) -> None:
    server.script.append(answer)
    with pytest.raises(Failure) as caught:
        await opened(SMALL).embed(["tides"])
    assert type(caught.value) is category
    assert caught.value.retry_after == wait
    assert getattr(caught.value, "budget", None) == (
        "embedder:text-embedding-3-small" if category is RateLimited else None
    )
    assert f"answers {answer.status_code}: " in caught.value.message
    assert KEY not in str(caught.value)
    assert len(server.asked) == 1  # trying again is the engine's business


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (body(data=rows([1.0, 0.0])), "KeyError: 1"),
        (body(data=rows([1.0, 0.0], [0.0, 1.0], [0.0, 1.0])), "answers 3 vectors"),
        (body(data=[*rows([1.0, 0.0]), *rows([1.0, 0.0])]), "KeyError: 1"),
        (body(data=rows([1.0, 0.0], [1.0])), r"vectors of \[1, 2\] numbers"),
        (body(data=rows([1.0, 0.0], [float("nan"), 1.0])), "length nan"),
        (body(data=rows([1.0, 0.0], [float("inf"), 1.0])), "length inf"),
        (body(data=rows([1.0, 0.0], [0.0, 0.0])), "length 0"),
        (body(data=rows([1.0, 0.0], [])), "length 0"),
        (body(data=[{"index": 0, "embedding": "AACAPwAAAAA="}]), "ValueError"),
        (body(data=None), "TypeError"),
        (Response("[]"), "TypeError"),
        (Response("<html>"), "not JSON"),
    ],
    ids=["too few", "too many", "one twice", "too short", "nan", "infinite", "no direction", "empty", "base64", "none",
         "a list", "html"],
)  # fmt: skip
async def test_an_answer_that_is_not_one_vector_for_each_text_is_refused(
    server: EmbeddingServer, answer: Response, says: str
) -> None:
    server.script.append(answer)
    with pytest.raises(SchemaInvalid, match=says):
        await opened("openai:tiny:2").embed(["tides", "bread"])


async def test_a_wrong_key_and_an_unknown_model_are_for_a_person(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Fatal, match="does not exist") as unknown:
        await opened("openai:none:8").embed(["tides"])
    assert unknown.value.code == "model_not_found"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with pytest.raises(Fatal, match=r"Bearer \*\*\*"):
        await opened(SMALL).embed(["tides"])


async def test_a_server_that_is_not_there_or_keeps_silent_may_answer_later(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "answer_within", timedelta(seconds=1))
    server.script.append("silence")
    with pytest.raises(Transient, match="does not answer: ReadTimeout"):
        await opened(SMALL).embed(["tides"])
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(Transient, match="does not answer: ConnectError"):
        await opened(SMALL).embed(["tides"])


def test_a_request_that_is_limited_makes_all_wait_and_what_was_used_is_kept(
    server: EmbeddingServer, holdfast: Engine
) -> None:
    app = Holdfast()

    @app.task(retries=0)
    async def embed(text: str) -> int:
        return len(await step("embedded", opened("openai:house-model:8").embed, [text]))

    server.script.append(refusal(429, "slow down", retry_after="600"))
    began = holdfast.clock.now()
    first = holdfast.start(embed, "tide")
    holdfast.drain(moving=False)
    others = [holdfast.start(embed, "four") for _ in range(3)]
    holdfast.drain(moving=False)
    assert len(server.asked) == 1
    holdfast.drain()
    assert [handle.state for handle in [first, *others]] == ["Completed"] * 4
    assert holdfast.clock.now() - began >= timedelta(seconds=600)
    (used,) = holdfast.call(holdfast.store.costs.totals())
    assert (used.group, used.calls, used.tokens_in, used.unpriced) == ("house-model", 4, 4, 4)


@pytest.mark.parametrize(
    ("setting", "name", "dimensions"),
    [
        ("wordllama", "wordllama-256", 256),
        (SMALL, "openai:text-embedding-3-small:1536", 1536),
        (f"{SMALL}:1536", "openai:text-embedding-3-small:1536", 1536),
        (f"{SMALL}:256", "openai:text-embedding-3-small:256", 256),
        ("openai:qwen3:0.6b:1024", "openai:qwen3:0.6b:1024", 1024),
    ],
)
def test_vectors_that_can_be_compared_have_the_same_name(
    server: EmbeddingServer, setting: str, name: str, dimensions: int
) -> None:
    embedder = opened(setting)
    assert (embedder.name, embedder.dimensions) == (name, dimensions)
    assert embedder_at_hand(Settings(embedder=setting))


def test_what_cannot_be_known_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingInvalid, match="Set OPENAI_API_KEY"):
        opened(SMALL)
    with pytest.raises(SettingInvalid, match="openai:house-model:768"):
        opened("openai:house-model")
    with pytest.raises(SettingInvalid, match="how many numbers"):
        opened(f"{SMALL}:0")
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8080/v1")
    with pytest.raises(SettingInvalid, match="OPENAI_BASE_URL: is not a web address"):
        opened(SMALL)
