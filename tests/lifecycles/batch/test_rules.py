"""What Postgres refuses of a batch and of its jobs, whoever writes."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Lease, Moved, Partial
from holdfast.errors import LeaseLost, MoveRefused, RequestInvalid
from holdfast.lifecycles.batch.store import Batches, InvalidInput, PlannedJob
from holdfast.testing import Clock, Database
from tests.lifecycles.batch.bureau import Bureau
from tests.promises.stage import MINUTE, meet

STATUSES = (
    "PLANNED", "INTENDED", "PARKED", "SUBMITTED", "ENDED", "COMPLETED", "PARTIAL_COMPLETE", "FAILED", "CANCELLED",
)  # fmt: skip
WAYS = {
    "PLANNED": {"INTENDED", "FAILED", "CANCELLED"},
    "INTENDED": {"PLANNED", "SUBMITTED", "PARKED", "FAILED", "CANCELLED"},
    "PARKED": {"INTENDED", "PLANNED", "SUBMITTED", "ENDED", "FAILED", "CANCELLED"},
    "SUBMITTED": {"ENDED", "PARKED", "FAILED", "CANCELLED"},
    "ENDED": {"COMPLETED", "PARTIAL_COMPLETE", "FAILED", "CANCELLED", "PARKED"},
}


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    hf = Holdfast()
    hf.batch("transcription", Bureau())
    async with database.store() as store:
        await hf.declare(store)
        yield store
        assert await store.verify() == []


@pytest.fixture
def batches(store: Store) -> Batches:
    return Batches.over(store)


async def made(batches: Batches, **given: Any) -> UUID:
    task, _ = await batches.make("transcription", "BUREAU", urls=["https://example.org/a.wav"], **given)
    return task


async def held(store: Store, batches: Batches, jobs: int = 1, invalid: int = 0) -> Lease:
    await made(batches)
    (lease,) = await store.claim(["batch"], lasting=MINUTE, worker="w")
    plans = [PlannedJob("main", None, 2, "https://example.org/a.wav", "a.wav", "key") for _ in range(jobs)]
    await batches.plan(lease, plans, [InvalidInput("x", "no")] * invalid, 2 * jobs + invalid)
    return lease


async def report(batches: Batches, lease: Lease, job: int, verb: str, **more: Any) -> str:
    _, rows = await batches.report(lease, lease.task_id, {"job": job, "verb": verb, **more})
    return rows[job].status


async def ended(batches: Batches, lease: Lease, job: int, ok: int) -> str:
    await report(batches, lease, job, "intend")
    await report(batches, lease, job, "accept", external_id=f"B{job}")
    await report(batches, lease, job, "end", status="ready", outcome="succeeded", has_results=True)
    return await report(batches, lease, job, "finish", ok=ok, output_key="key", result=[])


async def test_a_batch_without_jobs_is_not_in_progress(store: Store, batches: Batches, database: Database) -> None:
    await made(batches)
    (lease,) = await store.claim(["batch"], lasting=MINUTE, worker="w")
    with pytest.raises(MoveRefused, match="without jobs"):
        await store.keep(lease, to="IN_PROGRESS")
    with pytest.raises(MoveRefused, match="without jobs"):
        await store.finish(lease, Moved("IN_PROGRESS"))
    async with database.connect_owner() as owner:
        with pytest.raises(asyncpg.PostgresError, match="without jobs"):
            await owner.execute(
                "update holdfast.task set state = 'IN_PROGRESS', from_state = 'PENDING', verb = 'to:IN_PROGRESS',"
                " version = version + 1, lease_token = null, lease_expires_at = null"
            )


async def test_the_jobs_of_a_batch_in_progress_cannot_be_taken_away(
    store: Store, batches: Batches, database: Database
) -> None:
    lease = await held(store, batches)
    await store.keep(lease, to="IN_PROGRESS")
    async with database.connect_owner() as owner:
        with pytest.raises(asyncpg.PostgresError, match="left without a job"):
            await owner.execute("delete from holdfast.batch_job")


@pytest.mark.parametrize("status", STATUSES)
async def test_a_job_goes_only_the_ways_that_there_are(
    store: Store, batches: Batches, database: Database, status: str
) -> None:
    await held(store, batches)
    common = (
        "external_id = 'B', ok = case $1 when 'PARTIAL_COMPLETE' then 1 when 'COMPLETED' then 2 else 0 end,"
        " running = $1 in ('INTENDED', 'SUBMITTED'), finished_at = case when $1 in ('COMPLETED', 'PARTIAL_COMPLETE',"
        " 'FAILED', 'CANCELLED') then holdfast.now() end"
    )
    async with database.connect_owner() as owner:
        reached = set()
        for target in STATUSES:
            transaction = owner.transaction()
            await transaction.start()
            await owner.execute("set local session_replication_role = replica")
            await owner.execute(f"update holdfast.batch_job set status = $1, {common}", status)
            await owner.execute("set local session_replication_role = origin")
            try:
                await owner.execute(f"update holdfast.batch_job set status = $1, {common}", target)
                reached.add(target)
            except asyncpg.PostgresError as error:
                if error.sqlstate != "TK002":
                    raise
            await transaction.rollback()
        assert reached - {status} == WAYS.get(status, set())


async def test_the_name_that_a_provider_gave_stays(store: Store, batches: Batches, database: Database) -> None:
    lease = await held(store, batches)
    await report(batches, lease, 1, "intend")
    await report(batches, lease, 1, "accept", external_id="B1")
    async with database.connect_owner() as owner:
        with pytest.raises(asyncpg.PostgresError, match="does not become"):
            await owner.execute("update holdfast.batch_job set external_id = 'B2'")


@pytest.mark.parametrize(
    ("ok", "invalid", "state"),
    [
        ((2, 2), 0, "COMPLETED"),
        ((2, 2), 1, "PARTIAL_COMPLETE"),
        ((2, 0), 0, "PARTIAL_COMPLETE"),
        ((1, 0), 0, "PARTIAL_COMPLETE"),
        ((0, 0), 0, None),
    ],
)
async def test_a_batch_ends_as_its_jobs_say(
    store: Store, batches: Batches, ok: tuple[int, ...], invalid: int, state: str | None
) -> None:
    lease = await held(store, batches, len(ok), invalid)
    for number, good in enumerate(ok, 1):
        await ended(batches, lease, number, good)
    await store.keep(lease, to="IN_PROGRESS")
    with pytest.raises(MoveRefused):
        await store.finish(lease, Done() if state == "COMPLETED" else Partial())
    await batches.keep_merged(lease, "result", "manifest")
    for outcome, meant in ((Done(), "COMPLETED"), (Partial(), "PARTIAL_COMPLETE")):
        if meant != state:
            with pytest.raises(MoveRefused, match="do not make it"):
                await store.finish(lease, outcome)
    if state:
        assert (await store.finish(lease, Done() if state == "COMPLETED" else Partial())).state == state


async def test_a_batch_does_not_end_while_a_job_is_open(store: Store, batches: Batches) -> None:
    lease = await held(store, batches, 2)
    await ended(batches, lease, 1, 2)
    await store.keep(lease, to="IN_PROGRESS")
    await batches.keep_merged(lease, "result", "manifest")
    with pytest.raises(MoveRefused, match="some have not ended"):
        await store.finish(lease, Done())


async def test_a_worker_that_lost_the_lease_reports_nothing(store: Store, batches: Batches, clock: Clock) -> None:
    zombie = await held(store, batches)
    await report(batches, zombie, 1, "intend")
    clock.advance(minutes=2)
    await store.sweep()
    (lease,) = await store.claim(["batch"], lasting=MINUTE, worker="other")
    for verb, more in (("accept", {"external_id": "Z"}), ("absent", {}), ("fail", {"error": "no"})):
        with pytest.raises(LeaseLost):
            await report(batches, zombie, 1, verb, **more)
    with pytest.raises(LeaseLost):
        await batches.plan(zombie, [], [], 0)
    assert await report(batches, lease, 1, "accept", external_id="B1") == "SUBMITTED"


async def test_what_is_reported_twice_counts_once(store: Store, batches: Batches) -> None:
    lease = await held(store, batches)
    await report(batches, lease, 1, "intend")
    await report(batches, lease, 1, "accept", external_id="B1")
    await report(batches, lease, 1, "stumble", failures=0, error="down", seconds=1)
    with pytest.raises(MoveRefused):
        await report(batches, lease, 1, "stumble", failures=0, error="down", seconds=1)
    await report(batches, lease, 1, "end", status="ready", outcome="succeeded", has_results=True)
    usage = [{"model": "ear", "tokens_in": 1, "tokens_out": 1, "cost_cents": "2.5"}]
    await report(batches, lease, 1, "finish", ok=2, output_key="key", usage=usage)
    with pytest.raises(MoveRefused):
        await report(batches, lease, 1, "finish", ok=2, output_key="key", usage=usage)
    (line,) = await store.costs.totals(by="total")
    assert float(line.cost_cents) == 2.5


async def test_after_a_wish_to_cancel_nothing_is_intended(store: Store, batches: Batches) -> None:
    lease = await held(store, batches)
    await store.cancel(lease.task_id)
    wants_stop, rows = await batches.report(lease, lease.task_id, {"job": 1, "verb": "intend"})
    assert (wants_stop, rows) == (True, {})


async def test_a_cancel_that_comes_first_is_seen_by_who_intends(
    store: Store, batches: Batches, database: Database
) -> None:
    lease = await held(store, batches)
    wants_stop, rows = await meet(
        database,
        lambda one: Store(one).cancel(lease.task_id),
        lambda other: Batches(other).report(lease, lease.task_id, {"job": 1, "verb": "intend"}),
    )
    assert (wants_stop, rows) == (True, {})


async def test_a_cancel_that_comes_second_leaves_a_stop_behind(
    store: Store, batches: Batches, database: Database
) -> None:
    lease = await held(store, batches)
    await meet(
        database,
        lambda one: Batches(one).report(lease, lease.task_id, {"job": 1, "verb": "intend"}),
        lambda other: Store(other).cancel(lease.task_id),
    )
    await store.finish(lease, Moved("IN_PROGRESS"))
    (found,) = await batches.read([lease.task_id])
    assert (found.status, found.stopped_by is not None) == ("CANCELLED", True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("summary", "BUREAU"), "No worker offers summary with BUREAU"),
        (("transcription", "NOBODY"), "There are: transcription with BUREAU"),
    ],
)
async def test_what_nobody_offers_is_refused_when_it_is_made(
    batches: Batches, given: tuple[str, str], message: str
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        await batches.make(*given, urls=["https://example.org/a.wav"])
    assert message in f"{refused.value.detail} {refused.value.fix}"


async def test_nothing_to_do_is_refused_when_it_is_made(batches: Batches) -> None:
    with pytest.raises(RequestInvalid, match="nothing to do"):
        await batches.make("transcription", "BUREAU")


async def test_files_of_the_server_and_of_others_cannot_be_named(batches: Batches) -> None:
    for url in ("file:///etc/passwd", "object:users/bob/ingest/1/0", "object:batches/x/result.json"):
        with pytest.raises(RequestInvalid, match="not yours"):
            await batches.make("transcription", "BUREAU", urls=[url], owner="ada")
    await batches.make("transcription", "BUREAU", urls=["object:users/ada/ingest/1/0"], owner="ada")
