"""A task asks a person: once, under one link, sleeping at no cost until the answer comes."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Holdfast, Transient, ask, step
from holdfast.approvals.store import Questions
from holdfast.errors import (
    AlreadyAnswered,
    QuestionClosed,
    QuestionUnknown,
    RequestInvalid,
    StepInvalid,
    TaskFailed,
    Unanswered,
)
from holdfast.execution.suspend import SuspendHandler
from holdfast.testing import Engine

YES = {"approved": True, "note": None}


def test_a_question_is_asked_once_sent_once_and_goes_on_with_the_answer(holdfast: Engine) -> None:
    app, links, prepared = Holdfast(), list[str](), list[int]()

    @app.task
    async def publish(rows: int) -> Any:
        await step("prepared", prepared.append, rows)
        return await ask("publish", f"Publish {rows} prices?", within="2d", tell=links.append)

    handle = holdfast.start(publish, 1204)
    holdfast.drain(moving=False)
    why = holdfast.call(holdfast.store.explain(handle.id))
    assert (why.reason, why.actor) == ("owner", "owner")
    assert why.sentence.startswith("Waits for an answer: Publish 1204 prices? Asked since ")
    assert f"holdfast answer {handle.id}" in why.fix
    assert why.until == holdfast.clock.now() + timedelta(days=2)
    holdfast.clock.advance(hours=30)
    holdfast.drain(moving=False)
    holdfast.answer(handle)
    ran = holdfast.run(handle)
    assert (ran.value, len(links), prepared) == (YES, 1, [1204])
    assert links[0].startswith("http://127.0.0.1:7777/answers/")
    assert len(links[0].rpartition("/")[2]) == 43
    assert ran.steps == ["prepared", "publish:told", "publish"]
    assert [event.verb for event in ran.events] == ["submit", "claim", "later", "later", "claim", "done"]
    assert {event.attempt for event in ran.events} == {1}


@pytest.mark.parametrize("before", [True, False])
def test_after_a_crash_it_is_the_same_question_under_the_same_link(holdfast: Engine, before: bool) -> None:
    app, links = Holdfast(), list[str]()

    @app.task
    async def publish() -> Any:
        try:
            return await ask("publish", "Publish?", within="2d", tell=links.append)
        except Unanswered:
            return "nobody"

    sent_link = "publish:told"
    ran = holdfast.run(publish, crash_before=sent_link) if before else holdfast.run(publish, crash_after=sent_link)
    assert (ran.value, len(links), len(set(links))) == ("nobody", 2 if before else 1, 1)


def test_an_answer_that_comes_while_the_worker_still_has_the_task_is_not_slept_on(holdfast: Engine) -> None:
    app = Holdfast()
    began = holdfast.clock.now()

    @app.task
    async def publish() -> Any:
        async def answered_at_once(_: str) -> None:
            await Questions.over(holdfast.store).answer((await holdfast.store.list_tasks()).items[0]["id"], "now")

        return await ask("publish", "Publish?", within="2d", tell=answered_at_once)

    ran = holdfast.run(publish)
    assert (ran.value, holdfast.clock.now()) == ("now", began)
    assert [event.verb for event in ran.events] == ["submit", "claim", "later", "claim", "done"]


def test_several_are_asked_at_once_and_what_is_under_way_is_finished(holdfast: Engine) -> None:
    app, work = Holdfast(), list[str]()

    async def long() -> str:
        await asyncio.sleep(0.2)
        work.append("done")
        return "long"

    async def branch() -> Any:
        answer = await ask("second", "Second?", within="3d")
        await step("used", work.append, answer)
        return answer

    @app.task
    async def both() -> Any:
        return await asyncio.gather(ask("first", "First?", within="2d"), branch(), step("long", long))

    handle = holdfast.start(both)
    holdfast.drain(moving=False)
    asked = holdfast.call(Questions.over(holdfast.store).open())
    assert sorted((one.step, one.question, one.name) for one in asked) == [
        ("first", "First?", both.name), ("second", "Second?", both.name)
    ]  # fmt: skip
    assert work == ["done"]
    assert "First? (and 1 more)" in holdfast.call(holdfast.store.explain(handle.id)).sentence
    with pytest.raises(RequestInvalid, match="Name the step: first, second"):
        holdfast.answer(handle)
    holdfast.answer(handle, 2, step="second")
    holdfast.drain(moving=False)
    assert work == ["done", 2]
    holdfast.answer(handle, 1)
    assert holdfast.run(handle).value == [1, 2, "long"]
    assert work == ["done", 2]


def test_a_task_group_and_a_plain_function_ask_as_well(holdfast: Engine) -> None:
    app, links = Holdfast(), list[str]()

    @app.task
    async def grouped() -> Any:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(name, f"{name}?", within=60)) for name in "ab"]
        return [one.result() for one in asked]

    @app.task
    def plain() -> Any:
        try:
            return ask.sync("a", "Plainly?", within="1h", tell=links.append)
        except Exception:
            return "took it for a failure"

    for task, answers in ((grouped, ["a", "b"]), (plain, ["a"])):
        handle = holdfast.start(task)
        holdfast.drain(moving=False)
        for name in answers:
            holdfast.answer(handle, name, step=name)
        value = holdfast.run(handle).value
        assert value == (answers if task is grouped else "a")
    assert len(links) == 1


def test_nobody_answers_in_time(holdfast: Engine) -> None:
    app = Holdfast()
    began = holdfast.clock.now()

    @app.task
    async def strict() -> Any:
        return await ask("publish", "Publish?", within="2d")

    @app.task
    async def lenient() -> Any:
        try:
            await ask("publish", "Publish?", within="2d")
        except Unanswered:
            await step("noted", lambda: None)
            return await ask("again", "Really not?", within="1d")
        return "answered"

    ran = holdfast.run(strict)
    assert isinstance(ran.error, TaskFailed)
    assert (ran.error.category, ran.error.code, ran.error.step) == ("Fatal", "unanswered", "publish")
    assert "No answer to 'publish' came in time: Publish?" in str(ran.error)
    assert (holdfast.clock.now() - began).days == 2
    handle = holdfast.start(lenient)
    holdfast.drain(moving=False)
    holdfast.clock.advance(days=2)
    with pytest.raises(QuestionClosed, match="had to be answered until"):
        holdfast.answer(handle)
    holdfast.drain(moving=False)
    with pytest.raises(QuestionClosed):
        holdfast.answer(handle, step="publish")
    holdfast.answer(handle, "really", step="again")
    assert holdfast.run(handle).value == "really"


@dataclass
class Verdict:
    approved: bool
    note: str | None


def test_an_answer_may_have_a_type_and_any_shape(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def typed() -> str:
        verdict = await ask("typed", "Publish?", within="1h", answer_as=Verdict)
        return f"{verdict.approved} {verdict.note}"

    @app.task
    async def anything() -> Any:
        return await ask("any", "What?", within="1h")

    handle = holdfast.start(typed)
    holdfast.drain(moving=False)
    holdfast.answer(handle, {"approved": False, "note": "no"})
    assert holdfast.run(handle).value == "False no"
    for answer in (None, False, 0, [1, {"a": None}], "text"):
        other = holdfast.start(anything)
        holdfast.drain(moving=False)
        holdfast.answer(other, answer)
        ran = holdfast.run(other)
        assert (ran.value, ran.error) == (answer, None)


def test_a_task_that_is_cancelled_waits_for_nobody(holdfast: Engine) -> None:
    app, questions = Holdfast(), Questions.over(holdfast.store)

    @app.task
    async def publish() -> Any:
        return await ask("publish", "Publish?", within="2d")

    handle = holdfast.start(publish)
    holdfast.drain(moving=False)
    assert len(holdfast.call(questions.open())) == 1
    handle.cancel("changed my mind")
    assert holdfast.call(questions.open()) == []
    with pytest.raises(QuestionClosed, match="has ended"):
        holdfast.answer(handle)
    holdfast.clock.advance(days=40)
    assert holdfast.call(questions.forget()) == 1
    with pytest.raises(QuestionUnknown):
        holdfast.answer(handle)


def test_a_retried_task_sends_its_new_link(holdfast: Engine) -> None:
    app, links = Holdfast(), list[str]()

    @app.task
    async def publish() -> Any:
        return await ask("publish", "Publish?", within="2d", tell=links.append)

    first = holdfast.run(publish)
    assert first.error
    again = holdfast.call(holdfast.store.retry(first.handle.id))
    holdfast.drain(moving=False)
    assert len(set(links)) == 2
    holdfast.call(Questions.over(holdfast.store).answer(again, "yes"))
    holdfast.drain(moving=False)
    assert holdfast.call(holdfast.store.read(again))["outcome"] == "done"
    assert len(links) == 2


def test_a_link_that_could_not_be_sent_is_sent_again(holdfast: Engine) -> None:
    app, links = Holdfast(), list[str]()

    def mail(link: str) -> None:
        links.append(link)
        if len(links) == 1:
            raise Transient("no mail today")

    @app.task(retries=3)
    async def publish() -> Any:
        return await ask("publish", "Publish?", within="2d", tell=mail)

    handle = holdfast.start(publish)
    holdfast.drain(moving=False)
    holdfast.clock.advance(hours=1)
    holdfast.drain(moving=False)
    holdfast.answer(handle)
    assert holdfast.run(handle).value == YES
    assert len(links) == 2
    assert len(set(links)) == 1


def test_the_first_answer_counts(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def publish() -> Any:
        return await ask("publish", "Publish?", within="2d")

    handle = holdfast.start(publish)
    holdfast.drain(moving=False)
    holdfast.answer(handle, "yes")
    holdfast.answer(handle, "yes")
    with pytest.raises(AlreadyAnswered):
        holdfast.answer(handle, "no")
    assert holdfast.run(handle).value == "yes"
    holdfast.answer(handle, "yes")
    with pytest.raises(AlreadyAnswered):
        holdfast.answer(handle, "no")


def test_mistakes_are_named(holdfast: Engine) -> None:
    app = Holdfast()

    async def asks() -> None:
        await ask("inner", "Inner?", within=1)

    @app.task
    async def within_a_step() -> None:
        await step("outer", asks)

    @app.task
    async def twice() -> None:
        await step("same", lambda: None)
        await ask("same", "Same?", within=1)

    @app.task
    async def forgotten() -> None:
        ask("never", "Never awaited?", within=1)  # type: ignore[unused-coroutine]

    @app.task
    def wrong_colour() -> Any:
        return ask("a", "A?", within=1)

    @app.task
    async def no_time() -> Any:
        return await ask("a", "A?", within="soon")

    @app.task
    async def no_question() -> Any:
        return await ask("a", " ", within=1)

    for task, message in (
        (within_a_step, "asked within a step"), (twice, "'same' was run twice"), (forgotten, "never awaited"),
        (wrong_colour, r"ask.sync('a', ...)"), (no_time, "is not a duration"), (no_question, "asks nothing"),
    ):  # fmt: skip
        assert message in str(holdfast.run(task).error), task
    with pytest.raises(StepInvalid, match="No task is running"):
        asyncio.run(outside())
    assert not issubclass(SuspendHandler, Exception)


async def outside() -> None:
    await ask("a", "A?", within=1)
