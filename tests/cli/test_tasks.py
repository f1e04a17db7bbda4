"""`holdfast start`, `cancel` and `retry`: what a person does to tasks, and what a script gets back."""

from pathlib import Path
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Lease
from tests.cli.conftest import Keyboard, Stage
from tests.promises.stage import submit, take_one

NOBODY = "01b8dac5-b400-730f-8c80-71bbed710aed"


async def ended(store: Store) -> UUID:
    """A task that failed after its first step."""
    await submit(store, "ingest", payload={"doc": "a.pdf"})
    lease = await take_one(store)
    await store.keep(lease, "fetched", {"bytes": 3})
    await store.finish(lease, Failed("Fatal", "not a PDF", step="extracted"))
    return lease.task_id


def test_start_gives_a_script_the_id_and_nothing_else(holdfast: Keyboard, stage: Stage) -> None:
    stage(lambda store: store.hello("w1", label="", queues=["default"], slots=1, names=["send"]))
    started = holdfast("start", "send", '{"order": 42}')
    assert (started.code, started.err) == (0, "")
    task = stage(lambda store: store.read(started.out.strip()))
    assert (task["name"], task["payload"], task["queue"]) == ("send", {"order": 42}, "default")


def test_a_start_that_nobody_will_take_up_says_so_beside_the_id(holdfast: Keyboard, stage: Stage) -> None:
    alone = holdfast("start", "send")
    assert (alone.code, len(alone.lines)) == (0, 1)
    assert alone.err.startswith("No worker serves queue default. Start one: holdfast worker")
    stage(lambda store: store.hello("w1", label="", queues=["default"], slots=1, names=["fetch"]))
    assert "knows a task called send" in holdfast("start", "send", "--json").err
    holdfast("queues", "pause", "default")
    assert "holdfast queues resume default" in holdfast("start", "fetch").err
    assert holdfast("start", "fetch", "--delay", "1h").err == ""


def test_start_passes_every_option_on(holdfast: Keyboard, stage: Stage) -> None:
    holdfast("queues", "make", "mail")
    first = holdfast("start", "first").out.strip()
    arguments = ("--queue", "mail", "--priority", "9", "--delay", "5m", "--after", first, "--tag", "a", "--tag", "b",
             "--key", "inv-42", "--max-attempts", "7")  # fmt: skip
    made = holdfast("start", "send", "{}", *arguments, "--json").json
    again = holdfast("start", "send", "{}", *arguments, "--json").json
    assert (made["created"], again["created"], made["task_id"]) == (True, False, again["task_id"])
    task = stage(lambda store: store.read(made["task_id"]))
    assert (task["queue"], task["priority"], task["max_attempts"]) == ("mail", 9, 7)
    assert (task["tags"], task["state"], task["due_at"][:16]) == (["a", "b"], "Blocked", "2030-01-01T00:05")


def test_the_payload_comes_from_stdin_or_a_file_too(holdfast: Keyboard, stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}')
    by_stdin = holdfast("start", "send", "-", stdin='{"from": "stdin"}')
    by_file = holdfast("start", "send", f"@{tmp_path}/payload.json")
    assert stage(lambda store: store.read(by_stdin.out.strip()))["payload"] == {"from": "stdin"}
    assert stage(lambda store: store.read(by_file.out.strip()))["payload"] == {"from": "file"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{'order': 42}", "line 1, column 2"),
        ('{"a": 1,\n  "b": }', "line 2, column 8"),
        ("", "line 1, column 1"),
        ("NaN", "not JSON compliant"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json_is_a_usage_error_that_points_at_the_mistake(holdfast: Keyboard, given: str, says: str) -> None:
    refused = holdfast("start", "send", given)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err


def test_the_mark_stands_below_the_mistake(holdfast: Keyboard) -> None:
    printed = holdfast("start", "send", '{"order" 42}').err.splitlines()
    assert printed[2].index("42") == printed[3].index("^")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("start",), 2),
        (("start", "send", "@no-such-file"), 2),
        (("start", "send", "{}", "--delay", "soon"), 2),
        (("start", "send", "{}", "--priority", "10"), 2),
        (("start", "send", "{}", "--queue", "nope"), 2),
        (("start", "send", "{}", "--lifecycle", "nope"), 3),
        (("start", "send", "{}", "--after", NOBODY), 3),
        (("cancel", NOBODY), 3),
        (("retry", NOBODY), 3),
        (("watch", "xyz"), 3),
        (("why", ""), 3),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(holdfast: Keyboard, arguments: tuple[str, ...], code: int) -> None:
    refused = holdfast(*arguments)
    assert (refused.code, refused.out) == (code, "")
    assert refused.err
    assert "Traceback" not in refused.err


def test_cancel_at_once_through_the_worker_or_too_late(holdfast: Keyboard, stage: Stage) -> None:
    free = stage(submit)
    assert holdfast("cancel", str(free), "--reason", "not needed").out == "Cancelled: it is Canceled.\n"
    assert stage(lambda store: store.explain(free)).sentence == "It ended as Canceled: not needed."
    late = holdfast("cancel", str(free))
    assert (late.code, late.out, late.err) == (4, "", "Too late: it is Canceled.\n")

    async def held(store: Store) -> Lease:
        await submit(store)
        return await take_one(store, worker="w1")

    lease = stage(held)
    assert holdfast("cancel", str(lease.task_id)).out == "Requested: worker w1 gets it with its next heartbeat.\n"
    asked = holdfast("cancel", str(lease.task_id), "--json").json
    assert asked == {"task_id": str(lease.task_id), "effect": "requested", "state": "Running"}


def test_retry_makes_a_new_task_that_keeps_what_was_done(holdfast: Keyboard, stage: Stage) -> None:
    old = stage(ended)
    new = holdfast("retry", str(old)[:8]).out.strip()
    assert [step.name for step in stage(lambda store: store.steps(new))] == ["fetched"]
    refused = holdfast("retry", str(old), "--payload", "null")
    assert (refused.code, "null is not another payload." in refused.err) == (2, True)
    answered = holdfast("retry", str(old), "--from-step", "fetched", "--payload", '{"doc": "b.pdf"}', "--json").json
    assert answered["retry_of"] == str(old)
    assert stage(lambda store: store.steps(answered["task_id"])) == []
    assert stage(lambda store: store.read(answered["task_id"]))["payload"] == {"doc": "b.pdf"}


def test_retry_is_refused_while_it_runs_and_for_steps_it_never_had(holdfast: Keyboard, stage: Stage) -> None:
    running = holdfast("retry", str(stage(submit)))
    assert (running.code, running.out) == (4, "")
    assert "has not ended" in running.err
    wrong = holdfast("retry", str(stage(ended)), "--from-step", "nope")
    assert (wrong.code, wrong.out) == (2, "")
    assert "Its steps are: " in wrong.err


def test_start_and_wait_prints_the_result_of_what_is_done_already(holdfast: Keyboard, stage: Stage) -> None:
    holdfast("start", "send", "{}", "--key", "k")

    async def finish(store: Store) -> None:
        await store.finish(await take_one(store), Done({"sent": True}))

    stage(finish)
    waited = holdfast("start", "send", "{}", "--key", "k", "--wait")
    assert (waited.code, waited.json, waited.err) == (0, {"sent": True}, "")
    answered = holdfast("start", "send", "{}", "--key", "k", "--wait", "--json").json
    assert (answered["created"], answered["outcome"], answered["result"]) == (False, "done", {"sent": True})


def test_a_wait_that_takes_too_long_is_exit_124_and_the_task_goes_on(holdfast: Keyboard, stage: Stage) -> None:
    waited = holdfast("start", "send", "{}", "--wait", "--timeout", "1ms")
    assert (waited.code, waited.out) == (124, "")
    (task,) = holdfast("ls", "--json").json
    assert f"holdfast watch {task['id']}" in waited.err
    assert "No worker serves queue default." in waited.err
    assert task["state"] == "Queued"
    answered = holdfast("start", "send", "{}", "--wait", "--timeout", "1ms", "--json").json
    assert (answered["state"], answered["outcome"]) == ("Queued", None)
