"""The same with the files in a bucket: bytes go there and come from there, never through the server."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx2
import pytest

from holdfast.sdk.client import override_settings
from holdfast.settings import Settings
from holdfast.testing import Ground
from holdfast.testing.engine import Engine
from tests.lifecycles.analysis.harness import TABLE, Harness, harness_at, sha256
from tests.objects.servers import BUCKET

pytestmark = pytest.mark.deep  # each needs a bucket

SERVERS = {"s3": "seaweed", "az": "azurite"}


@pytest.fixture(params=SERVERS)
async def bucket(
    request: pytest.FixtureRequest, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Harness]:
    for name, value in request.getfixturevalue(SERVERS[request.param]).items():
        monkeypatch.setenv(name, value)
    with ground.live_database() as live, Engine(live) as engine:
        settings = Settings(url=live.url, objects=f"{request.param}://{BUCKET}/{uuid4().hex}")
        with override_settings(settings):
            async with harness_at(engine, settings) as harness, httpx2.AsyncClient() as harness.outside:
                yield harness


async def test_a_task_goes_from_upload_to_download_in_a_bucket(bucket: Harness) -> None:
    task = await bucket.create(["size", "lines"])
    promise = {"size": len(TABLE), "sha256": sha256(TABLE)}
    links = await bucket.links(task, parameters=True, primary=promise)
    assert (await bucket.put(links["primary"])).is_success
    assert (await bucket.put(links["parameters"], b'{"lines": {"mark": "anchor"}}')).is_success
    assert (await bucket.links(task, parameters=True, primary=promise))["primary"]["uploaded"]
    again = (await bucket.links(task, parameters=True, primary=promise))["parameters"]
    assert (await bucket.put(again, b'{"lines": {"mark": "anchor"}}')).is_success
    answer = await bucket.process(task)
    assert answer.status_code == 202, answer.text
    assert (await bucket.put(links["primary"], TABLE.upper())).status_code in (200, 201)  # too late to change anything
    bucket.work()
    outputs = await bucket.downloads(task)
    assert outputs["lines/lines.json"] == {"lines": 3, "mark": "anchor"}
    assert outputs["size/size.json"] == {"bytes": len(TABLE)}


async def test_what_is_not_there_is_missed_and_what_is_due_is_deleted(bucket: Harness) -> None:
    task = await bucket.create()
    await bucket.put((await bucket.links(task, primary={}, baseline={}))["primary"])
    answer = await bucket.process(task)
    assert (answer.status_code, answer.json()["missing"]) == (409, ["baseline"])
    assert await bucket.files_of(task) == ["uploads"]
    await bucket.cancel(task)
    async with bucket.engine.database.connect_owner() as connection:
        await connection.execute("update holdfast.cleanup set due_at = holdfast.now()")
    await bucket.clean()
    assert await bucket.files_of(task) == []
