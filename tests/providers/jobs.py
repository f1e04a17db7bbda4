"""Jobs for providers, and what becomes of them."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.providers.local.provider import Local
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Provider, Result, Running
from holdfast.objects import Objects

ROOT = Path(__file__).parents[2]


def needs(task_type: str) -> pytest.MarkDecorator:
    """Skip the test where a model is not installed."""
    missing = Local().missing(task_type)
    return pytest.mark.skipif(missing is not None, reason=missing or "")


async def forget(memo: Any) -> None:
    """LOCAL has nothing to remember."""
    raise AssertionError(memo)


def job(task_type: str, objects: Objects, model: str | None = None) -> Job:
    token = secrets.token_hex(8)
    return Job(token, task_type, model, "this machine", None, None, None, forget, objects, f"batch/{token}/")


async def finish(provider: Provider, one: Job) -> list[Running]:
    """Poll until it has ended; the answers on the way."""
    answers: list[Running] = []
    while isinstance(answer := await provider.poll(one), Running):
        answers.append(answer)
        assert len(answers) < 100
    assert isinstance(answer, Ended)
    assert answer.outcome == "succeeded"
    return answers


async def results(provider: Provider, one: Job, inputs: Sequence[Input]) -> dict[str, Result]:
    return {result.key: result async for result in provider.fetch(one, inputs)}


async def all_of(provider: Provider, one: Job, inputs: Sequence[Input]) -> dict[str, Result]:
    """What becomes of these inputs, from submit to fetch."""
    await provider.submit(one, inputs)
    await finish(provider, one)
    return await results(provider, one, inputs)
