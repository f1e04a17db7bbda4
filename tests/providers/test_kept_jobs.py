"""Jobs that we do ourselves: what one poll makes of failures that come together."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.providers.kept_jobs import Fanout
from holdfast.errors import ObjectsUnreachable, RateLimited
from holdfast.lifecycles.batch.provider import Input, Job, Result
from holdfast.objects.local import Folder
from tests.providers.jobs import job
from tests.providers.openai_jobs import prompts


class FullForTheLast(Folder):
    """A folder that takes everything but the result of the third prompt."""

    async def put(self, key: str, *given: Any, **more: Any) -> Any:
        if key.endswith("results/p-2.json"):
            raise ObjectsUnreachable("The disk is full.")
        return await super().put(key, *given, **more)


async def test_a_server_that_asks_to_wait_is_heard_beside_a_result_that_cannot_be_kept(tmp_path: Path) -> None:
    is_begun, is_refused = asyncio.Event(), asyncio.Event()

    async def do(_: Job, one: Input) -> Result:
        match one.key:
            case "p-1":
                await is_begun.wait()
                is_refused.set()
                raise RateLimited("Later.")
            case "p-2":
                is_begun.set()
                await is_refused.wait()
        return Result(one.key, output={"text": one.key})

    asked = job("completion", FullForTheLast(tmp_path / "objects").open())
    fanout = Fanout(do, at_once=3)
    await fanout.submit(asked, prompts("one", "two", "three"))
    with pytest.raises(RateLimited, match="Later"):
        await fanout.poll(asked)
