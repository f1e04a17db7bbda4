"""Every cell of the published matrix: what is allowed happens, what is not is refused and changes nothing.

The states are reached over HTTP, as clients and workers reach them.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.task import Done, Failed
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from tests.lifecycles.analysis.harness import Harness, lasting

PUBLISHED = {
    "CREATED": {"UPLOADING", "EXPIRED"},
    "UPLOADING": {"UPLOAD_FAILED", "QUEUED", "EXPIRED"},
    "UPLOAD_FAILED": {"UPLOADING"},
    "QUEUED": {"PROCESSING"},
    "PROCESSING": {"COMPLETED", "FAILED", "CANCELLED"},
    "COMPLETED": set(), "FAILED": set(), "CANCELLED": set(), "EXPIRED": set(),
}  # fmt: skip
ADDED = {
    "CREATED": {"CANCELLED"},
    "UPLOADING": {"CANCELLED", "UPLOADING"},
    "UPLOAD_FAILED": {"EXPIRED", "CANCELLED"},
    "QUEUED": {"EXPIRED", "CANCELLED"},
    "PROCESSING": {"PROCESSING"},  # taken up again by another worker, or after a pause
}
STATES = [state.name for state in ANALYSIS.states]
ALLOWED = {(source, target) for source in STATES for target in PUBLISHED[source] | ADDED.get(source, set())}
REFUSED = [(source, target) for source in STATES for target in STATES if (source, target) not in ALLOWED]


async def at_created(harness: Harness) -> str:
    return await harness.create()


async def at_uploading(harness: Harness) -> str:
    return await harness.uploaded()


async def at_upload_failed(harness: Harness) -> str:
    task = await harness.create()
    await harness.links(task)
    assert (await harness.process(task)).status_code == 409
    return task


async def at_queued(harness: Harness) -> str:
    return await harness.queued()


async def at_processing(harness: Harness) -> str:
    return (await harness.processing())[0]


async def at_completed(harness: Harness) -> str:
    return await harness.completed()


async def at_failed(harness: Harness) -> str:
    task, held = await harness.processing()
    await harness.store.finish(held, Failed("Fatal", "no"))
    return task


async def at_cancelled(harness: Harness) -> str:
    task = await harness.create()
    await harness.cancel(task)
    return task


async def at_expired(harness: Harness) -> str:
    task = await harness.create()
    harness.clock.advance(minutes=15)
    await harness.sweep()
    return task


AT: dict[str, Callable[[Harness], Awaitable[str]]] = {
    state: globals()[f"at_{state.lower()}"] for state in STATES
}  # fmt: skip


async def moved(harness: Harness, task: str, source: str, target: str) -> None:
    """Do what leads from one state to the other."""
    match source, target:
        case _, "UPLOADING":
            await harness.links(task)
        case "UPLOADING", "UPLOAD_FAILED":
            await harness.links(task)  # new ones, by which nothing was uploaded
            await harness.process(task)
        case _, "QUEUED":
            await harness.process(task)
        case "QUEUED", "PROCESSING":
            await harness.store.claim(["analysis"], lasting=lasting, worker="a test")
        case "PROCESSING", "PROCESSING":
            await harness.store.release_leases("a test")
            assert await harness.store.claim(["analysis"], lasting=lasting, worker="another")
        case "PROCESSING", "COMPLETED":
            await harness.store.release_leases("a test")
            harness.work()
        case "PROCESSING", "FAILED":
            harness.clock.advance(minutes=30)
            await harness.sweep()
        case "PROCESSING", "CANCELLED":
            await harness.cancel(task)
            await harness.store.release_leases("a test")
        case _, "CANCELLED":
            await harness.cancel(task)
        case _, "EXPIRED":
            harness.clock.advance(hours=1)
            await harness.sweep()


@pytest.mark.parametrize(("source", "target"), sorted(ALLOWED))
async def test_a_declared_move_happens(harness: Harness, source: str, target: str) -> None:
    task = await AT[source](harness)
    assert (await harness.read(task))["status"] == source
    await moved(harness, task, source, target)
    assert (await harness.read(task))["status"] == target


@pytest.mark.parametrize("source", STATES)
async def test_no_other_move_happens_not_even_by_hand(harness: Harness, source: str) -> None:
    task = await AT[source](harness)
    before = await harness.read(task)
    final = ANALYSIS[source].actor == "nobody"
    async with harness.engine.database.connect_owner() as connection:
        for target in [target for at, target in REFUSED if at == source and target != source]:
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(
                    f"update holdfast.{'task_done' if final else 'task'} set from_state = state, state = $2,"
                    " version = version + 1 where id = $1", UUID(task), target,
                )  # fmt: skip
    assert await harness.read(task) == before


async def test_what_the_declaration_adds_is_written_here() -> None:
    declared = {(state.name, move.to) for state in ANALYSIS.states for move in state.moves}
    declared |= {(state.name, state.limit.to) for state in ANALYSIS.states if state.limit and state.limit.to}
    assert declared | {("PROCESSING", "PROCESSING")} == ALLOWED


@pytest.mark.parametrize("source", STATES)
async def test_each_call_is_answered_as_the_state_allows(harness: Harness, source: str) -> None:
    """The actions of a state are those that work there; every other call is refused and changes nothing."""
    for name in ("upload-urls", "process", "downloads"):
        task = await AT[source](harness)
        before = await harness.read(task)
        match name:
            case "upload-urls":
                answer = await harness.ask_links(task)
            case "process":
                answer = await harness.process(task)
            case _:
                answer = await harness.http.get(f"/tasks/{task}/downloads")
        if name in before["actions"] or (name == "process" and source in ("QUEUED", "PROCESSING", "COMPLETED")):
            assert answer.is_success, (name, answer.text)
        else:
            assert answer.status_code == (410 if source == "EXPIRED" else 409), (name, answer.text)
            assert answer.json()["task_id"] == task
            assert answer.json()["state"] == source
            assert await harness.read(task) == before


async def test_the_first_end_wins(harness: Harness) -> None:
    task, held = await harness.processing()
    await harness.store.keep(held, "lines", [])
    await harness.store.keep(held, "size", [])
    await harness.store.finish(held, Done({}))
    answer = await harness.cancel(task)
    assert (answer.status_code, answer.json()["effect"], answer.json()["status"]) == (202, "too_late", "COMPLETED")


async def test_cancelling_says_whether_it_took_effect(harness: Harness) -> None:
    waiting = await harness.queued()
    assert (await harness.cancel(waiting)).json()["effect"] == "cancelled"
    held, _ = await harness.processing()
    assert (await harness.cancel(held)).json()["effect"] == "requested"
    assert (await harness.read(held))["cancel_requested"]
    assert (await harness.read(held))["status"] == "PROCESSING"
