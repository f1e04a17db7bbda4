"""`holdfast questions` and `holdfast answer`: what tasks ask people, and what a person says."""

from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from tests.approvals.test_answering import DAY, asked, waits
from tests.cli.conftest import Keyboard, Stage


async def one_asks(store: Store) -> UUID:
    lease, question = await asked(store)
    await store.finish(lease, waits(question))
    return lease.task_id


async def results(store: Store, task: UUID) -> list[object]:
    return [step.result for step in await store.steps(task)]


def test_a_question_is_listed_and_answered(holdfast: Keyboard, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert holdfast("questions").err == "No question waits for an answer.\n"
    task = stage(one_asks)
    printed = holdfast("questions")
    assert all(part in printed.out for part in (str(task), "publish", "Publish?", "work"))
    (listed,) = holdfast("questions", "ls", "--json").json
    assert (listed["task_id"], listed["step"], "secret" in listed) == (str(task), "publish", False)
    assert "Waits for an answer: Publish?" in holdfast("why", str(task)).out
    answered = holdfast("answer", str(task)[-36:], "--deny", "--note", "not today")
    assert (answered.code, answered.out) == (0, "publish is answered.\n")
    assert stage(lambda store: results(store, task)) == [{"approved": False, "note": "not today"}]
    again = holdfast("answer", str(task), "--deny", "--note", "not today")
    assert again.out == "publish is answered before; nothing changed.\n"
    other = holdfast("answer", str(task), "--approve")
    assert (other.code, other.out) == (4, "")
    assert "The question was answered before, with another answer." in other.err
    assert '{"by": "ada"}' in holdfast("events", str(task), "--json").out.replace('"by":"ada"', '"by": "ada"')


@pytest.mark.parametrize(("written", "meant"), [("null", None), ('{"a": [1]}', {"a": [1]})])
def test_any_json_is_an_answer(holdfast: Keyboard, stage: Stage, written: str, meant: object) -> None:
    task = stage(one_asks)
    answered = holdfast("answer", str(task), "--step", "publish", "--json-value", written, "--json")
    assert answered.json["repeated"] is False
    assert stage(lambda store: results(store, task)) == [meant]


def test_what_is_no_answer_is_refused(holdfast: Keyboard, stage: Stage) -> None:
    async def two(store: Store) -> UUID:

        lease, _ = await asked(store)
        await store.ask(lease, "other", "Other?", DAY)
        return lease.task_id

    task = str(stage(two))
    for arguments in (
        (),
        ("--approve", "--deny"),
        ("--approve", "--json-value", "1"),
        ("--json-value", "1", "--note", "x"),
        ("--json-value", "{"),
    ):
        assert holdfast("answer", task, *arguments).code == 2
    assert "Name the step: other, publish." in holdfast("answer", task, "--approve").err
    assert holdfast("answer", task, "--approve", "--step", "none").code == 3
    assert holdfast("answer", "01ffffff", "--approve").code == 3
