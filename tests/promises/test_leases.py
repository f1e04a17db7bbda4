"""One task, one lease: who holds it, how long, and what everybody else may do to it, which is nothing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import (
    Cancelled,
    Checkpoint,
    Done,
    Failed,
    Later,
    Lease,
    Moved,
    Outcome,
    Partial,
    Settlement,
    Submission,
)
from holdfast.errors import LeaseLost
from holdfast.postgres.connections import Address, open_pool
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, state_of, submit, take, take_one


async def test_a_task_is_claimed_by_one_worker_alone(store: Store) -> None:
    task = await submit(store)
    claims = await asyncio.gather(*(take(store, worker=f"worker-{n}") for n in range(10)))
    assert [lease.task_id for leases in claims for lease in leases] == [task]


async def test_each_claim_has_a_token_of_its_own(store: Store) -> None:
    await submit(store)
    first = await take_one(store)
    await store.finish(first, Later())
    second = await take_one(store)
    assert (first.attempt, first.token != second.token) == (second.attempt, True)


async def test_a_lease_lasts_as_long_as_heartbeats_come(store: Store, clock: Clock) -> None:
    await submit(store)
    lease = await take_one(store)
    for _ in range(5):
        clock.advance(seconds=50)
        assert (await store.heartbeat([lease], lasting=MINUTE))[lease.task_id].expires_at == clock.now() + MINUTE
        assert (await store.sweep()).reaped == 0
    await store.finish(lease, Done())


async def test_a_lease_without_heartbeats_ends_to_the_second(store: Store, clock: Clock) -> None:
    await submit(store)
    await take_one(store)
    clock.advance(seconds=60)
    assert (await store.sweep()).reaped == 0
    clock.advance(seconds=1)
    assert (await store.sweep()).reaped == 1


async def test_a_worker_that_lost_its_lease_cannot_complete(store: Store, clock: Clock) -> None:
    await submit(store)
    first = await take_one(store, worker="first")
    clock.advance(seconds=61)
    await store.sweep()
    second = await take_one(store, worker="second")
    with pytest.raises(LeaseLost):
        await store.finish(first, Done("stale"))
    await store.finish(second, Done("fresh"))
    assert (await store.read(second.task_id))["result"] == "fresh"


async def test_a_settle_that_comes_before_the_sweep_still_counts(store: Store, clock: Clock) -> None:
    await submit(store)
    lease = await take_one(store)
    clock.advance(hours=1)
    assert (await store.finish(lease, Done())).state == "Completed"


def stale(lease: Lease) -> dict[str, Lease]:
    return {
        "another token": replace(lease, token=uuid4()),
        "the attempt before": replace(lease, attempt=lease.attempt - 1),
        "the attempt after": replace(lease, attempt=lease.attempt + 1),
        "another task": replace(lease, task_id=uuid4()),
    }


OUTCOMES: list[Outcome] = [
    Done(), Partial(), Moved("Queued"), Later(), Cancelled(), Failed("Fatal", "x"), Failed("Transient", "x", step="s"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["another token", "the attempt before", "the attempt after", "another task"])
async def test_a_stale_token_or_attempt_changes_no_row(kind: str, store: Store, database: Database) -> None:
    await submit(store)
    await submit(store)
    lease, _ = await take(store, n=2)
    old = stale(lease)[kind]
    before = await everything(database)
    assert {one.status for one in await store.settle(*((old, outcome) for outcome in OUTCOMES))} == {"lost"}
    assert (await store.settle((old, Done())))[0].status == "lost"  # alone it goes another way
    assert await store.heartbeat([old], lasting=MINUTE) == {}
    assert (await store.checkpoint(Checkpoint(old, "step", 1)))[0].status == "lost"
    with pytest.raises(LeaseLost):
        await store.record(old, "step_started", "step")
    assert await everything(database) == before
    await store.finish(lease, Done())


async def everything(database: Database) -> dict[str, object]:
    """All rows of all tables of the schema, but for the count of refusals."""
    async with database.connect_owner() as owner:
        tables = await owner.fetch("select tablename from pg_tables where schemaname = 'holdfast' order by 1")
        return {
            name: await owner.fetchval(f"select jsonb_agg(to_jsonb(t) order by to_jsonb(t)) from holdfast.{name} t")
            for (name,) in tables
            if name != "tally"
        }


async def test_the_winning_settle_repeated_gets_the_same_answer_and_does_nothing(
    store: Store, database: Database
) -> None:
    await submit(store)
    lease = await take_one(store)
    first = await store.finish(lease, Done({"pages": 3}))
    before = await everything(database)
    again = await store.finish(lease, Done({"pages": 3}))
    assert (again.status, again.state, again.version, again.attempt) == ("repeat", first.state, first.version, 1)
    for other in (Done({"pages": 4}), Partial({"pages": 3}), Failed("Fatal", "x"), Later()):
        with pytest.raises(LeaseLost):
            await store.finish(lease, other)
    assert await everything(database) == before


async def test_a_repeat_is_known_in_every_time_zone(store: Store, database: Database) -> None:
    await submit(store, lifecycle="batch")
    lease = await take_one(store, "batch")
    outcome = Failed("Fatal", "bad", retry_at=lease.due_at + timedelta(days=1))
    await store.finish(lease, outcome)
    async with database.connect() as elsewhere:
        await elsewhere.execute("set time zone 'Asia/Kathmandu'")
        assert (await Store(elsewhere).finish(lease, outcome)).status == "repeat"


async def test_releasing_a_lease_costs_nothing(store: Store, clock: Clock) -> None:
    task = await submit(store, max_attempts=1)
    for _ in range(20):
        lease = await take_one(store)
        assert lease.attempt == 1
        await store.finish(lease, Later())
    await store.finish(await take_one(store), Done())
    assert (await store.read(task))["attempt"] == 1


async def test_settling_and_claiming_are_one_call(store: Store) -> None:
    await store.submit(*(Submission("work") for _ in range(3)))
    first = await take(store, n=2)
    refused, leases = await store.settle_and_claim(
        [(lease, Done()) for lease in first], ["default"], 2, lasting=MINUTE, worker="worker"
    )
    assert refused == {}
    assert [await state_of(store, lease.task_id) for lease in first] == ["Completed", "Completed"]
    assert {lease.task_id for lease in leases}.isdisjoint({lease.task_id for lease in first})
    assert len(leases) == 1


async def test_settle_and_claim_answers_only_what_was_refused(store: Store) -> None:
    await store.submit(*(Submission("work") for _ in range(3)))
    good, stale, wrong = await take(store, n=3)
    given: list[Settlement] = [(good, Done()), (replace(stale, token=uuid4()), Done()), (wrong, Moved("NOWHERE"))]
    refused, leases = await store.settle_and_claim(given, ["default"], lasting=MINUTE, worker="worker")
    assert (refused, leases) == ({stale.task_id: "lost", wrong.task_id: "unknown_state"}, [])
    again, _ = await store.settle_and_claim(given[:1], ["default"], lasting=MINUTE, worker="worker")
    assert again == {}, "the very same again is no refusal"


async def test_a_batch_answers_for_each_of_its_items(store: Store) -> None:
    await store.submit(*(Submission("work") for _ in range(3)))
    good, stale_one, wrong = await take(store, n=3)
    answers = await store.settle(
        (good, Done()), (replace(stale_one, token=uuid4()), Done()), (wrong, Moved("NOWHERE")), (wrong, Moved("Failed"))
    )
    assert {(one.task_id, one.status) for one in answers} == {
        (good.task_id, "ok"), (stale_one.task_id, "lost"), (wrong.task_id, "unknown_state"),
    }  # fmt: skip
    assert await state_of(store, stale_one.task_id) == "Running"
    assert [one.status for one in await store.settle((stale_one, Done()), (wrong, Done()))] == ["ok", "ok"]


async def test_a_claim_by_id_takes_only_what_can_be_taken(store: Store) -> None:
    free, held, done = [await submit(store) for _ in range(3)]
    later = await submit(store, delay=MINUTE)
    (_, lease) = await store.claim_these([held, done], lasting=MINUTE, worker="other")
    await store.finish(lease, Done())
    claimed = await store.claim_these([free, held, str(done), later, uuid4()], lasting=MINUTE, worker="worker")
    assert [lease.task_id for lease in claimed] == [free]


async def test_a_worker_never_gets_a_task_it_does_not_know(store: Store, database: Database) -> None:
    strange = await submit(store, "strange")
    known = await submit(store, "known")
    leases = await store.claim(["default"], 10, lasting=MINUTE, worker="w", names=["known"])
    assert [lease.task_id for lease in leases] == [known]
    assert (await store.explain(strange)).reason == "unknown_task"
    assert (await store.read(strange))["attempt"] == 1
    await store.hello("new", label="new", queues=["default"], names=["strange"], slots=1)
    assert (await take_one(store)).task_id == strange
    assert await store.verify() == []


async def test_what_a_worker_does_not_know_hides_nothing_that_lies_behind_it(store: Store, clock: Clock) -> None:
    await store.submit(*[Submission("theirs") for _ in range(50)])
    clock.advance(seconds=1)
    ours = await submit(store, "ours")
    (lease,) = await store.claim(["default"], 2, lasting=MINUTE, worker="w", names=["ours"])
    assert lease.task_id == ours
    for _ in range(2):  # and whoever knows what was set aside gets it at once
        leases = await store.claim(["default"], 2, lasting=MINUTE, worker="v", names=["theirs"])
        assert [lease.name for lease in leases] == ["theirs", "theirs"]
    assert await store.verify() == []


async def test_a_process_reads_the_rows_of_a_newer_release(store: Store, database: Database) -> None:
    await store.submit(Submission("a"), Submission("b"))
    database.ask_owner("alter type holdfast.lease add attribute newer int")
    old = database.ask_owner("select pg_get_functiondef('holdfast.lease_tasks'::regproc)")
    database.ask_owner(old.replace("is not null, i.trace\n", "is not null, i.trace, 7\n"))
    async with open_pool(Address(given=database.url)) as pool:
        new = Store(pool)
        lease = await take_one(new)
        refused, leases = await new.settle_and_claim([(lease, Done())], ["default"], lasting=MINUTE, worker="w")
        assert (refused, [one.name for one in leases]) == ({}, ["b"])
