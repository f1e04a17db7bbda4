"""Sessions that meet in the SQL of pipelines: each ends as if one had come after the other."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Done, Lease
from holdfast.errors import LeaseLost
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.testing import Database
from tests.lifecycles.pipeline.app import ALL_ON, NAMES, hf, press
from tests.promises.stage import MINUTE, meet


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    async with database.store() as store:
        await hf.declare(store)
        yield store
        assert await store.verify() == []


async def begun(store: Store) -> Lease:
    await store.submit(press.submission(**ALL_ON))
    (lease,) = await store.claim(["pipeline"], lasting=MINUTE, worker="w")
    return lease


def kept(lease: Lease, stage: str, **more: Any) -> Checkpoint:
    return Checkpoint(lease, stage, {"status": "completed", "errors": [], **more})


async def test_a_cancel_is_seen_by_the_stage_that_begins_after_it(database: Database, store: Store) -> None:
    lease = await begun(store)
    began = await meet(
        database, lambda one: Store(one).cancel(lease.task_id), lambda other: Jobs(other).begin(lease, "INGEST")
    )
    assert not began


async def test_a_cancel_comes_into_the_stage_that_began_before_it(database: Database, store: Store) -> None:
    lease = await begun(store)
    effect = await meet(
        database, lambda one: Jobs(one).begin(lease, "INGEST"), lambda other: Store(other).cancel(lease.task_id)
    )
    assert effect == "requested"
    assert (await store.heartbeat([lease], lasting=MINUTE))[lease.task_id].cancel_requested


async def test_of_two_jobs_that_change_the_settings_at_once_the_first_counts(database: Database, store: Store) -> None:
    leases = [await begun(store), await begun(store)]
    for lease in leases:
        for name in NAMES[:-1]:
            await store.checkpoint(kept(lease, name))
    first, second = (kept(lease, NAMES[-1], settings={"articles": n}) for n, lease in enumerate(leases, 7))
    await meet(database, lambda one: Store(one).checkpoint(first), lambda other: Store(other).checkpoint(second))
    (found,) = await Jobs.over(store).pipelines("press")
    assert (found["settings"], found["settings_number"]) == ({"articles": 7}, 1)
    recorded = [{one.kind for one in await store.step_events(lease.task_id)} for lease in leases]
    assert [kinds & {"settings_changed", "settings_not_changed"} for kinds in recorded] == [
        {"settings_changed"},
        {"settings_not_changed"},
    ]
    for lease in leases:
        assert (await store.finish(lease, Done({}))).state == "COMPLETED"


async def test_a_stage_that_is_kept_while_the_limit_passes_is_kept_or_lost_whole(
    database: Database, store: Store
) -> None:
    lease = await begun(store)
    await Jobs.over(store).begin(lease, "INGEST")
    database.clock.advance(hours=2)
    await store.sweep()
    (late,) = await store.checkpoint(kept(lease, "INGEST"))
    assert late.status == "lost"
    with pytest.raises(LeaseLost):
        await Jobs.over(store).begin(lease, "INGEST")
    job = await Jobs.over(store).job(lease.task_id)
    assert (job.status, job.stages[0].status) == ("FAILED", "failed")
