"""An answer is decided under the lock of the task: whatever it meets, it is neither lost nor slept on."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.approvals.store import Questions
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Asked, Done, Later, Lease
from holdfast.errors import AlreadyAnswered, HoldfastError, QuestionClosed, QuestionUnknown, RequestInvalid
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, meet, submit, take, take_one

DAY = timedelta(days=1)


async def asked(store: Store, step: str = "publish", **options: Any) -> tuple[Lease, Asked]:
    """A task that a worker holds, and that has just asked."""
    await submit(store, **options)
    lease = await take_one(store)
    return lease, await store.ask(lease, step, "Publish?", DAY)


def waits(question: Asked, *steps: str) -> Later:
    return Later(
        at=question.until, kind="question", message="Waits for an answer: Publish?", steps=steps or ("publish",)
    )


async def test_a_settle_that_meets_an_answer_does_not_sleep_on_it(database: Database, store: Store) -> None:
    lease, question = await asked(store)
    settled = await meet(
        database,
        lambda one: Questions(one).answer(lease.task_id, "yes"),
        lambda other: Store(other).finish(lease, waits(question)),
    )
    assert (settled.status, settled.due_at) == ("ok", await store.now())
    assert [one.task_id for one in await take(store)] == [lease.task_id]


async def test_an_answer_that_meets_a_settle_wakes_the_task(database: Database, store: Store) -> None:
    lease, question = await asked(store)
    answered = await meet(
        database,
        lambda one: Store(one).finish(lease, waits(question)),
        lambda other: Questions(other).answer(lease.task_id, "yes"),
    )
    assert not answered.repeated
    assert [one.task_id for one in await take(store)] == [lease.task_id]


async def test_a_settle_that_was_rolled_back_leaves_the_task_to_its_worker(database: Database, store: Store) -> None:
    lease, question = await asked(store)
    await meet(
        database,
        lambda one: Store(one).finish(lease, waits(question)),
        lambda other: Questions(other).answer(lease.task_id, "yes"),
        commit=False,
    )
    assert await take(store) == []
    assert (await store.finish(lease, waits(question))).due_at == await store.now()


async def test_of_two_answers_at_once_one_counts(database: Database, store: Store) -> None:
    lease, _ = await asked(store)
    with pytest.raises(AlreadyAnswered):
        await meet(
            database,
            lambda one: Questions(one).answer(lease.task_id, "yes"),
            lambda other: Questions(other).answer(lease.task_id, "no"),
        )
    again = await Questions.over(store).answer(lease.task_id, "yes")
    assert again.repeated
    assert [(step.name, step.result) for step in await store.steps(lease.task_id)] == [("publish", "yes")]


async def test_an_answer_that_meets_a_cancellation_comes_too_late(database: Database, store: Store) -> None:
    lease, question = await asked(store)
    await store.finish(lease, waits(question))
    with pytest.raises(QuestionClosed):
        await meet(
            database,
            lambda one: Store(one).cancel(lease.task_id),
            lambda other: Questions(other).answer(lease.task_id, "yes"),
        )
    assert await store.steps(lease.task_id) == []


async def test_whoever_is_to_be_cancelled_is_not_answered(store: Store) -> None:
    lease, _ = await asked(store)
    await store.cancel(lease.task_id)
    with pytest.raises(QuestionClosed):
        await Questions.over(store).answer(lease.task_id, "yes")
    assert await Questions.over(store).open() == []


async def test_late_is_late_for_the_task_and_for_the_person(store: Store, clock: Clock) -> None:
    questions = Questions.over(store)
    lease, question = await asked(store)
    await store.finish(lease, waits(question))
    clock.advance(days=1)
    with pytest.raises(QuestionClosed, match="until"):
        await questions.answer(lease.task_id, "yes")
    again = await take_one(store)
    assert (await store.ask(again, "publish", "Publish?", DAY)).status == "late"
    clock.set(clock.now() - timedelta(seconds=1))
    await questions.answer(lease.task_id, "yes")
    answered = await store.ask(again, "publish", "Publish?", DAY)
    assert (answered.status, answered.answer, answered.secret) == ("answered", "yes", None)


async def test_a_question_is_asked_under_the_lease_alone(store: Store, clock: Clock) -> None:
    questions = Questions.over(store)
    lease, first = await asked(store)
    clock.advance(seconds=61)
    await store.sweep()
    assert (await store.ask(lease, "publish", "Publish?", DAY)).status == "lost"
    assert (await store.ask(lease, "other", "Other?", DAY)).status == "lost"
    second = await take_one(store)
    again = await store.ask(second, "publish", "Publish, really?", 5 * DAY)
    assert again == first
    assert [one.question for one in await questions.open()] == ["Publish?"]


async def test_an_answer_during_a_backoff_does_not_shorten_it(store: Store, clock: Clock) -> None:
    lease, _ = await asked(store)
    await store.finish(lease, Later(MINUTE, kind="provider_poll"))
    await Questions.over(store).answer(lease.task_id, "yes")
    assert await take(store) == []
    clock.advance(minutes=1)
    assert [step.result for step in await store.steps((await take_one(store)).task_id)] == ["yes"]


async def test_a_task_with_a_limit_gives_its_place_away_while_it_waits(store: Store) -> None:
    lease, question = await asked(store, limit_key="one at a time", limit_to=1)
    other = await submit(store, limit_key="one at a time", limit_to=1)
    assert await take(store) == []
    await store.finish(lease, waits(question))
    running = await take_one(store)
    assert running.task_id == other
    await Questions.over(store).answer(lease.task_id, "yes")
    assert await take(store) == []
    await store.finish(running, Done())
    assert (await take_one(store)).task_id == lease.task_id


async def test_the_events_tell_who_answered(store: Store) -> None:
    lease, question = await asked(store)
    await store.finish(lease, waits(question))
    await Questions.over(store).answer(lease.task_id, "yes", by="ada")
    answered = [(event.kind, event.data) for event in await store.step_events(lease.task_id)]
    assert [kind for kind, _ in answered] == ["question_asked", "question_answered", "step_completed"]
    assert (answered[0][1]["question"], answered[1][1], answered[2][1]) == ("Publish?", {"by": "ada"}, None)
    assert await store.verify() == []


async def test_what_cannot_be_asked_or_answered_is_refused(store: Store) -> None:
    questions = Questions.over(store)
    await submit(store)
    lease = await take_one(store)
    for step, question, within in (("", "?", DAY), ("a", "", DAY), ("a", "x" * 2001, DAY), ("a", "?", -DAY)):
        with pytest.raises(RequestInvalid):
            await store.ask(lease, step, question, within)
    for named in ({}, {"step": "a"}, {"step": "a", "owner": "bob"}):
        with pytest.raises(QuestionUnknown):
            await questions.answer(lease.task_id, 1, **named)
    await store.ask(lease, "a", "A?", DAY)
    with pytest.raises(QuestionUnknown):
        await questions.answer(lease.task_id, 1, step="a", owner="bob")
    with pytest.raises(HoldfastError):
        await questions.answer(lease.task_id, "x" * 2_000_000)


async def test_many_workers_and_many_answers_leave_nobody_asleep(database: Database, store: Store) -> None:
    questions = Questions.over(store)
    for _ in range(30):
        await submit(store)
    leases = await take(store, n=30)
    found = await asyncio.gather(*(store.ask(lease, "publish", "Publish?", DAY) for lease in leases))
    await asyncio.gather(
        *(store.finish(lease, waits(question)) for lease, question in zip(leases, found, strict=True)),
        *(questions.answer(lease.task_id, number % 3) for number, lease in enumerate(leases)),
    )
    assert len(await take(store, n=40)) == 30


async def test_no_role_but_the_functions_reaches_a_secret(database: Database, store: Store) -> None:
    lease, question = await asked(store)
    assert question.secret
    async with database.connect() as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("select secret from holdfast.question")
    for listed in (await Questions.over(store).open(), await store.step_events(lease.task_id)):
        assert question.secret not in str(listed)
