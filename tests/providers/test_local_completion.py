"""Prompts are completed on this machine, with their tokens counted; what cannot be asked is refused."""

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.apps.providers.local.completion import accepted_request, refuse_request
from holdfast.apps.providers.local.provider import Local
from holdfast.lifecycles.batch.provider import Input, Usage
from holdfast.objects.local import Folder
from tests.providers.jobs import all_of, job, needs

HELLO = [{"role": "user", "content": "Say hello."}]
SCHEMA = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}


@pytest.fixture(scope="module")
def provider() -> Iterator[Local]:
    provider = Local()
    yield provider
    asyncio.run(provider.close())


@pytest.mark.deep
@needs("completion")
async def test_prompts_are_completed_and_counted(provider: Local, tmp_path: Path) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "short": {"messages": HELLO, "max_tokens": 8, "temperature": 0},
        "again": {"messages": HELLO, "max_tokens": 8, "temperature": 0},
        "seeded": {"messages": HELLO, "max_tokens": 8, "seed": 7},
        "same-seed": {"messages": HELLO, "max_tokens": 8, "seed": 7},
        "schema": {
            "messages": [{"role": "user", "content": "Choose a colour."}],
            "max_tokens": 40,
            "response_format": {"type": "json_schema", "json_schema": {"name": "choice", "schema": SCHEMA}},
        },
        "long": {"messages": [{"role": "user", "content": "word " * 5000}]},
        "no-schema": {
            "messages": HELLO,
            "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}},
        },
    }
    inputs = [Input(name, body=body) for name, body in bodies.items()]
    found = await all_of(provider, job("completion", Folder(tmp_path / "objects").open(), "smollm2"), inputs)

    short = found["short"]
    assert set(short.output) == {"text", "finish_reason", "model"}
    assert (short.output["finish_reason"], short.output["model"], bool(short.output["text"])) == (
        "length",
        "smollm2",
        True,
    )
    assert isinstance(short.usage, Usage)
    assert short.usage == Usage("smollm2", short.usage.tokens_in, 8, Decimal(0))
    assert 10 < short.usage.tokens_in < 60
    assert found["again"].output == short.output
    assert found["seeded"].output == found["same-seed"].output
    assert json.loads(found["schema"].output["text"])["colour"] in ("red", "blue")
    assert (found["long"].category, "4096 fit" in str(found["long"].error)) == ("SchemaInvalid", True)
    assert found["no-schema"].category == "SchemaInvalid"

    assert provider.completion.process is not None
    model = psutil.Process(provider.completion.process.pid)
    assert model.net_connections("inet") == []  # nobody else can ask it


def test_there_is_one_model_for_prompts_and_no_choice_for_recordings() -> None:
    assert (list(Local().models("completion")), list(Local().models("transcription"))) == (["smollm2"], [])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "valid dictionary"),
        ([], "valid dictionary"),
        ({}, "messages: Field required"),
        ({"messages": []}, "messages: "),
        ({"messages": "hello"}, "messages: "),
        ({"messages": [{"role": "robot", "content": "hello"}]}, "messages.0."),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0."),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages.0.",
        ),
        ({"messages": HELLO, "tools": []}, "tools: "),
        ({"messages": HELLO, "stream": True}, "stream: "),
        ({"messages": HELLO, "max_tokens": 0}, "max_tokens"),
        ({"messages": HELLO, "max_tokens": True}, "max_tokens"),
        ({"messages": HELLO, "temperature": "hot"}, "temperature"),
        ({"messages": HELLO, "seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_asked_is_refused(body: Any, why: str) -> None:
    assert why in str(refuse_request(body))


def test_a_request_without_a_limit_gets_one_and_what_changes_nothing_is_left_out() -> None:
    asked = {"messages": HELLO, "model": "gpt", "user": "ada", "temperature": None}
    assert refuse_request(asked) is None
    assert accepted_request(asked) == {"messages": HELLO, "max_tokens": 256}
    assert accepted_request({"messages": HELLO, "max_completion_tokens": 9})["max_tokens"] == 9
    assert refuse_request({"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}) is None
