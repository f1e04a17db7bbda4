"""`holdfast ls`, `show`, `why` and `events`: what a person sees of tasks, and what a program gets."""

from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Lease
from holdfast.testing import Clock, Database
from tests.cli.conftest import Keyboard, Stage
from tests.promises.stage import submit, take_one


async def busy(store: Store) -> list[UUID]:
    """A done task, a failed one, one that a worker holds and one that waits, in the order of their birth."""
    await submit(store, "sent")
    await store.finish(await take_one(store), Done({"number": "INV-1"}))
    await submit(store, "broken", payload={"doc": "a.pdf"}, max_attempts=1, tags=["invoice"])
    lease = await take_one(store, worker="w1")
    await store.keep(lease, "fetched", {"bytes": 3})
    await store.finish(lease, Failed("Fatal", "not a PDF", step="extracted"))
    await submit(store, "running")
    held = await take_one(store, worker="w1")
    await store.heartbeat(
        [held], lasting=timedelta(minutes=1), progress={held.task_id: {"done": 3, "total": 4, "note": "persisting"}}
    )
    await submit(store, "waiting", delay=timedelta(hours=1))
    found = {one["name"]: UUID(one["id"]) for one in (await store.list_tasks()).items}
    return [found[name] for name in NAMES]


NAMES = ("sent", "broken", "running", "waiting")


def test_an_empty_list_says_how_to_begin(holdfast: Keyboard, database: Database) -> None:
    none = holdfast("ls")
    where = f"the local socket/{database.name}"
    assert (none.code, none.out) == (0, "")
    assert none.err == f"No tasks yet ({where}). Start one: holdfast start NAME '{{}}'\n"
    assert where in holdfast("show", "abc").err
    assert holdfast("ls", "--json").json == []
    assert "No task fits." in holdfast("ls", "--state", "Dead").err


def test_ls_has_a_line_for_each_task(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    stage(busy)
    clock.advance(minutes=3)
    listed = {line.split()[1]: " ".join(line.split()[2:]) for line in holdfast("ls").lines}
    assert listed == {
        "name": "state try queue age note",
        "sent": "Completed 1/3 default 3 min ago",
        "broken": "Dead 1/1 default 3 min ago not a PDF",
        "running": "Running 1/3 default 3 min ago 3/4 persisting",
        "waiting": "Queued 1/3 default 3 min ago",
    }


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--live",), {"running", "waiting"}),
        (("--finished",), {"sent", "broken"}),
        (("--failed",), {"broken"}),
        (("--state", "Completed"), {"sent"}),
        (("--name", "waiting"), {"waiting"}),
        (("--queue", "default"), set(NAMES)),
        (("--tag", "invoice"), {"broken"}),
        (("--lifecycle", "batch"), set()),
        (("--live", "--name", "sent"), set()),
    ],
)
def test_ls_shows_what_fits_every_filter(
    holdfast: Keyboard, stage: Stage, arguments: tuple[str, ...], names: set[str]
) -> None:
    stage(busy)
    assert {task["name"] for task in holdfast("ls", *arguments, "--json").json} == names


def test_ls_is_newest_first_and_says_that_there_is_more(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    for name in ("old", "middle", "new"):
        stage(lambda store, name=name: submit(store, name))  # type: ignore[misc]
        clock.advance(seconds=5)
    listed = holdfast("ls", "--limit", "2")
    assert [line.split()[1] for line in listed.lines[1:]] == ["new", "middle"]
    assert listed.err == "There are more: --limit 10 shows more.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--state", "Quued"), "There is no state 'Quued'. Known are: "),
        (("--state", "COMPUTED", "--lifecycle", "dispatch"), "There is no state 'COMPUTED'."),
        (("--queue", "defualt"), "There is no queue 'defualt'. Known are: analysis, batch, default"),
        (
            ("--lifecycle", "dipsatch"),
            "There is no lifecycle 'dipsatch'. Known are: analysis, batch, batch_stop, dag, dispatch",
        ),
        (("--lifecycle", "batch"), "No task fits."),
    ],
)
def test_a_filter_of_an_unknown_value_names_the_known_ones(
    holdfast: Keyboard, arguments: tuple[str, ...], message: str
) -> None:
    assert message in holdfast("ls", *arguments).err


def test_the_ids_of_a_list_are_enough_to_name_a_task(holdfast: Keyboard, stage: Stage) -> None:
    stage(busy)
    for line in holdfast("ls").lines[1:]:
        short, name = line.split()[:2]
        assert len(short) < 36
        assert holdfast("show", short, "--json").json["task"]["name"] == name


def test_a_prefix_of_many_lists_them(holdfast: Keyboard, stage: Stage) -> None:
    ids = stage(busy)
    refused = holdfast("why", str(ids[0])[:4])
    assert (refused.code, refused.out) == (2, "")
    assert sorted(ids) == [UUID(line) for line in refused.err.split() if len(line) == 36]
    digits = ids[0].hex[:20].upper()
    assert holdfast("why", digits).code == 0


def test_why_is_a_sentence_and_what_to_do(holdfast: Keyboard, stage: Stage) -> None:
    task = stage(submit)
    sentence, fix = "No worker serves queue default.", "Start one: holdfast worker --app module:hf --queue default"
    assert holdfast("why", str(task)).lines == [sentence, fix]
    answered = holdfast("why", str(task), "--json").json
    assert answered == {
        "task_id": str(task), "reason": "no_worker", "actor": "worker", "state": "Queued",
        "since": "2030-01-01T00:00:00Z", "until": None, "sentence": sentence, "fix": fix,
    }  # fmt: skip


def test_show_tells_everything_about_a_task(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    broken = stage(busy)[1]
    clock.advance(seconds=90)
    again = holdfast("retry", str(broken)).out.strip()
    printed = holdfast("show", str(broken)).out
    for part in (
        f"broken  {broken}",
        "state       Dead",
        "why         It ended as Dead: not a PDF.",
        "lifecycle   dispatch, version 1",
        "queue       default, priority 0",
        "attempt     1 of 1",
        "tags        invoice",
        "finished    2030-01-01T00:00:00.000Z, 1 min ago",
        f"retried as  {again}  broken, Queued",
        "failed  w1      Fatal: not a PDF",
        'done       1        1 min ago  {"bytes": 3}',
        "failed 1x  1        1 min ago",
        "error\n  Fatal, step extracted\n  not a PDF\n",
        '{"doc": "a.pdf"}',
    ):
        assert part in printed
    assert f"retry of   {broken}  broken, Dead" in holdfast("show", again).out


def test_show_has_all_of_it_in_json(holdfast: Keyboard, stage: Stage) -> None:
    answered = holdfast("show", str(stage(busy)[1]), "--json").json
    assert list(answered) == ["task", "why", "attempts", "steps", "links", "cost"]
    assert (answered["task"]["payload"], answered["why"]["reason"], answered["links"]) == (
        {"doc": "a.pdf"},
        "final",
        [],
    )
    assert [(one["attempt"], one["ended"], one["worker_id"]) for one in answered["attempts"]] == [(1, "failed", "w1")]
    assert {one["name"]: one["done"] for one in answered["steps"]} == {"fetched": True, "extracted": False}


def test_a_long_payload_is_cut_for_people_only(holdfast: Keyboard, stage: Stage) -> None:
    task = str(stage(lambda store: submit(store, payload={"text": "x" * 10_000})))
    assert "more characters: --json has all" in holdfast("show", task).out
    assert holdfast("show", task, "--json").json["task"]["payload"]["text"] == "x" * 10_000


def test_a_long_history_is_cut_for_people_only(holdfast: Keyboard, stage: Stage) -> None:
    async def long(store: Store) -> UUID:
        task = await submit(store)
        lease = await take_one(store)
        for number in range(40):
            await store.keep(lease, f"page {number:02}")
        return task

    task = str(stage(long))
    printed = holdfast("show", task).out
    assert "steps, the last 30 of 40: --json has all" in printed
    assert ("page 09" in printed, "page 10" in printed, "page 39" in printed) == (False, True, True)
    assert len(holdfast("show", task, "--json").json["steps"]) == 40


def test_events_are_every_move_and_every_step(holdfast: Keyboard, stage: Stage) -> None:
    broken = str(stage(busy)[1])
    answered = holdfast("events", broken, "--json").json
    moves = [(one["version"], one["verb"], one["to_state"]) for one in answered if one["of"] == "task"]
    assert moves == [(0, "submit", "Queued"), (1, "claim", "Running"), (2, "fail", "Dead")]
    assert next(one["kind"] for one in answered if one["of"] == "step") == "step_completed"
    lines = [line.split() for line in holdfast("events", broken).lines]
    assert lines[0] == ["when", "what", "where", "attempt", "worker", "note"]
    assert ["2030-01-01T00:00:00.000Z", "claim", "Queued", "->", "Running", "1", "w1"] in lines
    assert len(lines) == len(answered) + 1


def test_a_held_task_is_printed_as_running(holdfast: Keyboard, stage: Stage) -> None:
    async def held(store: Store) -> Lease:
        await submit(store)
        return await take_one(store, worker="w1")

    printed = holdfast("show", str(stage(held).task_id)).out
    assert "Worker w1 works on it; its lease lasts until 2030-01-01 00:01:00 UTC." in printed
    assert "running  w1" in printed


def test_a_running_task_shows_how_far_it_is(holdfast: Keyboard, stage: Stage) -> None:
    printed = holdfast("show", str(stage(busy)[2])).out
    assert "3/4 persisting" in printed
