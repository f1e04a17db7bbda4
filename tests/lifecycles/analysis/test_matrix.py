"""Every cell of the published matrix: what is allowed happens, what is not is refused and changes nothing.

The states are reached over HTTP, as clients and workers reach them.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.task import Done, Failed
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from tests.lifecycles.analysis.desk import Desk, lasting

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


async def at_created(desk: Desk) -> str:
    return await desk.create()


async def at_uploading(desk: Desk) -> str:
    return await desk.uploaded()


async def at_upload_failed(desk: Desk) -> str:
    task = await desk.create()
    await desk.links(task)
    assert (await desk.process(task)).status_code == 409
    return task


async def at_queued(desk: Desk) -> str:
    return await desk.queued()


async def at_processing(desk: Desk) -> str:
    return (await desk.processing())[0]


async def at_completed(desk: Desk) -> str:
    return await desk.completed()


async def at_failed(desk: Desk) -> str:
    task, held = await desk.processing()
    await desk.store.finish(held, Failed("Fatal", "no"))
    return task


async def at_cancelled(desk: Desk) -> str:
    task = await desk.create()
    await desk.cancel(task)
    return task


async def at_expired(desk: Desk) -> str:
    task = await desk.create()
    desk.clock.advance(minutes=15)
    await desk.sweep()
    return task


AT: dict[str, Callable[[Desk], Awaitable[str]]] = {
    state: globals()[f"at_{state.lower()}"] for state in STATES
}  # fmt: skip


async def moved(desk: Desk, task: str, source: str, target: str) -> None:
    """Do what leads from one state to the other."""
    match source, target:
        case _, "UPLOADING":
            await desk.links(task)
        case "UPLOADING", "UPLOAD_FAILED":
            await desk.links(task)  # new ones, by which nothing was uploaded
            await desk.process(task)
        case _, "QUEUED":
            await desk.process(task)
        case "QUEUED", "PROCESSING":
            await desk.store.claim(["analysis"], lasting=lasting, worker="a test")
        case "PROCESSING", "PROCESSING":
            await desk.store.hand_back("a test")
            assert await desk.store.claim(["analysis"], lasting=lasting, worker="another")
        case "PROCESSING", "COMPLETED":
            await desk.store.hand_back("a test")
            desk.work()
        case "PROCESSING", "FAILED":
            desk.clock.advance(minutes=30)
            await desk.sweep()
        case "PROCESSING", "CANCELLED":
            await desk.cancel(task)
            await desk.store.hand_back("a test")
        case _, "CANCELLED":
            await desk.cancel(task)
        case _, "EXPIRED":
            desk.clock.advance(hours=1)
            await desk.sweep()


@pytest.mark.parametrize(("source", "target"), sorted(ALLOWED))
async def test_a_declared_move_happens(desk: Desk, source: str, target: str) -> None:
    task = await AT[source](desk)
    assert (await desk.read(task))["status"] == source
    await moved(desk, task, source, target)
    assert (await desk.read(task))["status"] == target


@pytest.mark.parametrize("source", STATES)
async def test_no_other_move_happens_not_even_by_hand(desk: Desk, source: str) -> None:
    task = await AT[source](desk)
    before = await desk.read(task)
    final = ANALYSIS[source].actor == "nobody"
    async with desk.engine.database.connect_owner() as connection:
        for target in [target for at, target in REFUSED if at == source and target != source]:
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(
                    f"update holdfast.{'task_done' if final else 'task'} set from_state = state, state = $2,"
                    " version = version + 1 where id = $1", UUID(task), target,
                )  # fmt: skip
    assert await desk.read(task) == before


async def test_what_the_declaration_adds_is_written_here() -> None:
    declared = {(state.name, move.to) for state in ANALYSIS.states for move in state.moves}
    declared |= {(state.name, state.limit.to) for state in ANALYSIS.states if state.limit and state.limit.to}
    assert declared | {("PROCESSING", "PROCESSING")} == ALLOWED


@pytest.mark.parametrize("source", STATES)
async def test_each_call_is_answered_as_the_state_allows(desk: Desk, source: str) -> None:
    """The actions of a state are those that work there; every other call is refused and changes nothing."""
    for name in ("upload-urls", "process", "downloads"):
        task = await AT[source](desk)
        before = await desk.read(task)
        match name:
            case "upload-urls":
                answer = await desk.ask_links(task)
            case "process":
                answer = await desk.process(task)
            case _:
                answer = await desk.http.get(f"/tasks/{task}/downloads")
        if name in before["actions"] or (name == "process" and source in ("QUEUED", "PROCESSING", "COMPLETED")):
            assert answer.is_success, (name, answer.text)
        else:
            assert answer.status_code == (410 if source == "EXPIRED" else 409), (name, answer.text)
            assert answer.json()["task_id"] == task
            assert answer.json()["state"] == source
            assert await desk.read(task) == before


async def test_the_first_end_wins(desk: Desk) -> None:
    task, held = await desk.processing()
    await desk.store.keep(held, "lines", [])
    await desk.store.keep(held, "size", [])
    await desk.store.finish(held, Done({}))
    answer = await desk.cancel(task)
    assert (answer.status_code, answer.json()["effect"], answer.json()["status"]) == (202, "too_late", "COMPLETED")


async def test_cancelling_says_whether_it_took_effect(desk: Desk) -> None:
    waiting = await desk.queued()
    assert (await desk.cancel(waiting)).json()["effect"] == "cancelled"
    held, _ = await desk.processing()
    assert (await desk.cancel(held)).json()["effect"] == "requested"
    assert (await desk.read(held))["cancel_requested"]
    assert (await desk.read(held))["status"] == "PROCESSING"
