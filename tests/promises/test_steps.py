"""Steps: done once, kept for ever, and handed to whoever takes the task up again."""

import asyncio

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Done, Failed
from holdfast.errors import LeaseLost, MoveRefused, RequestInvalid, StateUnknown, StepUnknown
from holdfast.testing import Clock
from tests.promises.stage import state_of, submit, take_one


async def test_the_first_to_write_a_step_wins_and_all_others_get_its_result(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    results = await asyncio.gather(*(store.keep(lease, "fetched", {"by": n}) for n in range(10)))
    assert len({str(result) for result in results}) == 1
    (step,) = await store.steps(lease.task_id)
    assert (step.name, step.done, step.result) == ("fetched", True, results[0])


async def test_a_new_attempt_finds_what_the_last_one_has_done(store: Store, clock: Clock) -> None:
    await submit(store)
    first = await take_one(store)
    await store.keep(first, "fetched", "raw")
    clock.advance(seconds=61)
    await store.sweep()
    second = await take_one(store)
    assert [(step.name, step.result, step.attempt) for step in await store.steps(second.task_id)] == [
        ("fetched", "raw", 1)
    ]
    assert await store.keep(second, "fetched", "done again") == "raw"
    with pytest.raises(LeaseLost):
        await store.keep(first, "extracted", "late")


async def test_a_step_that_failed_before_can_be_done(store: Store, clock: Clock) -> None:
    await submit(store)
    await store.finish(await take_one(store), Failed("Transient", "no", step="fetched"))
    clock.advance(hours=1)
    await store.sweep()
    lease = await take_one(store)
    assert await store.keep(lease, "fetched", "raw") == "raw"
    (step,) = await store.steps(lease.task_id)
    assert (step.done, step.failures) == (True, 1)


async def test_an_item_walks_through_its_states_under_one_lease(store: Store) -> None:
    task = await submit(store, None, lifecycle="ingest_item")
    lease = await take_one(store, "ingest_item")
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED"):
        await store.keep(lease, state.lower(), state, to=state)
        assert await state_of(store, task) == state
    assert (await store.finish(lease, Done())).state == "DONE"
    assert len([event for event in await store.step_events(task) if event.kind == "step_completed"]) == 4


async def test_a_checkpoint_repeated_moves_nobody_twice(store: Store) -> None:
    task = await submit(store, None, lifecycle="ingest_item")
    lease = await take_one(store, "ingest_item")
    assert [(await store.keep(lease, "fetched", n, to="FETCHED")) for n in (1, 2)] == [1, 1]
    assert [event.verb for event in await store.events(task)] == ["submit", "claim", "to:FETCHED"]


async def test_parallel_branches_are_kept_separately_in_one_call(store: Store) -> None:
    await submit(store, None, lifecycle="ingest_item")
    lease = await take_one(store, "ingest_item")
    kept = await store.checkpoint(*(Checkpoint(lease, name, name) for name in ("chunked", "entities", "embedded")))
    assert {(one.step, one.status) for one in kept} == {("chunked", "ok"), ("entities", "ok"), ("embedded", "ok")}
    assert len({event.number for event in await store.step_events(lease.task_id)}) == 3


async def test_a_checkpoint_into_the_wrong_state_keeps_nothing(store: Store) -> None:
    await submit(store, None, lifecycle="ingest_item")
    lease = await take_one(store, "ingest_item")
    for to, error in (("INDEXED", MoveRefused), ("DONE", MoveRefused), ("NOWHERE", StateUnknown)):
        with pytest.raises(error):
            await store.keep(lease, "fetched", 1, to=to)
    assert await store.steps(lease.task_id) == []
    await store.keep(lease, "fetched", 1, to="FETCHED")


async def test_a_task_does_not_move_to_two_states_in_one_call(store: Store) -> None:
    await submit(store, None, lifecycle="ingest_item")
    lease = await take_one(store, "ingest_item")
    with pytest.raises(RequestInvalid):
        await store.checkpoint(Checkpoint(lease, "a", 1, "FETCHED"), Checkpoint(lease, "b", 1, "CONTENT_EXTRACTED"))
    await store.checkpoint(Checkpoint(lease, "a", 1, "FETCHED"), Checkpoint(lease, "b", 1, "FETCHED"))
    assert await state_of(store, lease.task_id) == "FETCHED"
    assert len(await store.events(lease.task_id)) == 3


async def test_what_a_model_cost_is_kept_with_the_step(store: Store) -> None:
    await submit(store)
    lease = await take_one(store)
    await store.record(lease, "step_started", "embedded")
    usage = {"model": "tiny-embed", "tokens_in": 120, "tokens_out": 0, "cost_cents": 0.02}
    await store.keep(lease, "embedded", 1, usage=usage)
    events = await store.step_events(lease.task_id)
    assert [(event.number, event.kind, event.data) for event in events] == [
        (1, "step_started", None), (2, "step_completed", usage),
    ]  # fmt: skip


# Running a finished task again


async def test_a_retry_is_a_new_task_with_the_old_payload_and_its_completed_steps(store: Store) -> None:
    old = await submit(store, payload={"url": "a"})
    lease = await take_one(store)
    for step in ("fetched", "extracted", "chunked"):
        await store.keep(lease, step, step.upper())
    await store.finish(lease, Failed("Fatal", "no", step="embedded"))
    new = await store.retry(old, by="ada")
    read = await store.read(new)
    assert (read["retry_of"], read["payload"], read["state"]) == (str(old), {"url": "a"}, "Queued")
    assert {step.name: step.result for step in await store.steps(new)} == {
        "fetched": "FETCHED", "extracted": "EXTRACTED", "chunked": "CHUNKED",
    }  # fmt: skip
    assert await state_of(store, old) == "Dead"
    assert await store.inbox.newest() == []
    (entry,) = await store.inbox.newest(everything=True)
    assert (entry["resolution"], entry["resolved_by"]) == ("retried", "ada")


async def test_a_retry_from_a_step_inherits_only_what_came_before_it(store: Store) -> None:
    old = await submit(store)
    lease = await take_one(store)
    for step in ("fetched", "extracted", "chunked"):
        await store.keep(lease, step, 1)
    await store.finish(lease, Done())
    new = await store.retry(old, from_step="extracted", payload={"edited": True})
    assert [step.name for step in await store.steps(new)] == ["fetched"]
    assert (await store.read(new))["payload"] == {"edited": True}
    with pytest.raises(StepUnknown):
        await store.retry(old, from_step="embedded")


async def test_a_task_that_still_runs_is_not_retried(store: Store) -> None:
    with pytest.raises(MoveRefused):
        await store.retry(await submit(store))


async def test_an_inbox_entry_is_resolved_once(store: Store) -> None:
    await submit(store)
    await store.finish(await take_one(store), Failed("Fatal", "order 17 of 2f0a77aa11 is broken"))
    (entry,) = await store.inbox.newest()
    assert "order # of # is broken" in entry["signature"]
    await store.inbox.resolve(entry["id"], by="ada", note="known")
    with pytest.raises(MoveRefused):
        await store.inbox.resolve(entry["id"], by="bob")
    assert await store.inbox.newest() == []
