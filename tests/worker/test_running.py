"""A started task runs and its result comes back, whatever it returns and however it fails."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.task import Submission
from tests.eventually import eventually
from tests.worker import app
from tests.worker.crew import ROOT, Crew


@contextlib.contextmanager
def command(crew: Crew, *marks: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker as a user starts one; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", *marks],
        cwd=ROOT, env={**os.environ, **crew.environment}, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.over_http
async def test_results_come_back(staff: Crew) -> None:
    plain, awaited = await staff.run(app.add.submission(1, 2), app.add_async.submission(3, b=4))
    assert (plain.result, awaited.result) == (3, 7)


async def test_a_thousand_tasks_run_once_each(staff: Crew) -> None:
    ends = await staff.run(*(app.add.submission(n, 0) for n in range(5000, 6000)))
    assert [end.result for end in ends] == list(range(5000, 6000))
    assert all(len(staff.notes(f"add-{n}")) == 1 for n in range(5000, 6000))


@pytest.mark.over_http
async def test_a_task_may_start_others_and_run_programs(staff: Crew) -> None:
    (end,) = await staff.run(app.calls_others.submission(3))
    assert end.result == 3


@pytest.mark.deep
async def test_several_processes_share_the_work(crew: Crew) -> None:
    crew.start(processes=2, slots=1)
    tasks = await crew.submit(*(app.hold.submission("both", "shared") for _ in range(2)))
    pids = await crew.noted("shared", 2)
    crew.open("both")
    await crew.ended(tasks)
    assert len(set(pids)) == 2


@pytest.mark.deep
async def test_a_task_that_nobody_knows_waits_for_somebody_who_does(crew: Crew, tmp_path: Path) -> None:
    crew.start()
    (task,) = await crew.submit(Submission("strange", {"word": "hello"}))

    async def unknown() -> bool:
        return (await crew.store.explain(task)).reason == "unknown_task"

    await eventually(unknown)
    file = tmp_path / "strangers.py"
    file.write_text(
        "from holdfast import Holdfast\nhf = Holdfast()\n@hf.task\ndef strange(word: str) -> str: return word * 2\n"
    )
    crew.start(app=str(file))
    (end,) = await crew.ended([task])
    assert end.result == "hellohello"


@pytest.mark.deep
async def test_the_command_runs_the_tasks_of_a_file(crew: Crew, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from holdfast import Holdfast\nhf = Holdfast()\n@hf.task\nasync def mine() -> str:\n    return 'ok'\n"
    )
    with command(crew, "--app", str(file), "--lease", "2s", "--grace", "1s") as process:
        try:
            (end,) = await crew.run(Submission("mine"))
        finally:
            process.terminate()
        assert end.result == "ok"
        output = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert b" stopped." in output


async def test_an_application_that_cannot_be_loaded_says_why(crew: Crew, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with command(crew, "--app", str(file)) as process:
        output = process.communicate(timeout=30)[1]
    assert process.returncode != 0
    assert b"ZeroDivisionError" in output
    assert b"Traceback" not in output


# Failures

CATEGORIES = [  # how it fails, how often; what comes of it, after how many executions
    ("RateLimited", 8, "done", 9),
    ("Transient", 4, "done", 5),
    ("Transient", 99, "failed", 5),
    ("SchemaInvalid", 99, "failed", 1),
    ("Fatal", 99, "failed", 1),
    ("mapped", 2, "done", 3),
    ("unmapped", 99, "failed", 3),
    ("returned", 2, "done", 3),
    ("self", 99, "failed", 3),
]


@pytest.mark.parametrize(("kind", "times", "outcome", "executions"), CATEGORIES)
async def test_each_kind_of_failure_has_its_reaction(
    staff: Crew, kind: str, times: int, outcome: str, executions: int
) -> None:
    crew = staff
    before = len(crew.notes(f"fail-{kind}"))
    (end,) = await crew.run(app.fail.submission(kind, before + times))
    assert end.outcome == outcome
    assert len(crew.notes(f"fail-{kind}")) - before == executions


async def test_quitting_is_a_failure_and_ends_nothing_else(staff: Crew) -> None:
    runners = {runner.pid for runner in staff.workers[0].runners()}
    ends = await staff.run(
        app.quit_politely.submission("sys.exit"), app.quit_politely.submission("KeyboardInterrupt"),
        app.quits_in_a_step.submission(),
    )  # fmt: skip
    assert [end.outcome for end in ends] == ["failed"] * 3
    assert {runner.pid for runner in staff.workers[0].runners()} == runners


async def test_a_payload_that_does_not_fit_fails_at_once(staff: Crew) -> None:
    (end,) = await staff.run(Submission("add", {"a": "no number", "b": 1}))
    assert (end.outcome, end.note["category"]) == ("failed", "SchemaInvalid")


@pytest.mark.parametrize("what", ["object", "large", "nan", "nul", "half", "loop"])
@pytest.mark.over_http
async def test_a_result_that_cannot_be_kept_fails_alone(staff: Crew, what: str) -> None:
    first, bad, last = await staff.run(
        app.give.submission("first"), app.give.submission(what), app.give.submission("last")
    )
    assert (first.result, bad.outcome, last.result) == ("first", "failed", "last")


async def test_a_step_that_cannot_be_kept_fails_its_task(staff: Crew) -> None:
    bad, good = await staff.run(app.bad_step.submission(), app.give.submission("good"))
    assert (bad.outcome, good.result) == ("failed", "good")


@pytest.mark.parametrize(
    ("way", "state", "result"),
    [
        ("moved", "CLOSED", {"all": "well"}),
        ("later", "CLOSED", {"all": "well"}),
        ("partial", "HALF", {"half": 1}),
        ("nowhere", "BROKEN", None),
        ("forbidden", "BROKEN", None),
        ("undeclared", "BROKEN", None),
    ],
)
@pytest.mark.over_http
async def test_outcomes_lead_where_the_lifecycle_says(staff: Crew, way: str, state: str, result: object) -> None:
    end, neighbour = await staff.run(app.ticket.submission(way), app.give.submission("fine"))
    assert (end.state, end.result) == (state, result)
    assert neighbour.result == "fine"


# Time limits


async def test_a_task_that_runs_too_long_is_stopped(staff: Crew) -> None:
    awaited, plain = await staff.run(app.too_long.submission(), app.too_long_sync.submission())
    assert (awaited.outcome, awaited.note["code"]) == ("failed", "timeout")
    assert (plain.outcome, plain.note["code"]) == ("failed", "timeout")
    assert (len(staff.notes("too_long")), len(staff.notes("too_long_sync"))) == (2, 1)


@pytest.mark.over_http
async def test_cancelling_raises_in_the_handler(staff: Crew) -> None:
    tasks = await staff.submit(app.cooperative.submission("awaits"), app.cooperative_sync.submission("loops"))
    for mark in ("awaits", "loops"):
        await staff.noted(mark)
    for task in tasks:
        assert await staff.store.cancel(task) == "requested"
    assert [end.outcome for end in await staff.ended(tasks)] == ["cancelled"] * 2
    await staff.noted("awaits-finally")
    await staff.noted("loops-finally")


# What a handler says on its way


@pytest.mark.over_http
async def test_progress_is_seen_while_it_runs(staff: Crew) -> None:
    (task,) = await staff.submit(app.shows.submission("seen"))

    async def read_progress() -> object:
        return (await staff.read(task))["progress"]

    seen = await eventually(read_progress)
    staff.open("seen")
    await staff.ended([task])
    assert seen == {"done": 3, "total": 7, "note": "halfway"}


async def test_nonsense_for_progress_costs_nobody_a_lease(staff: Crew) -> None:
    noisy, quiet = await staff.submit(
        app.shows_nonsense.submission("nonsense"), app.hold.submission("nonsense", "near_nonsense")
    )
    await staff.noted("near_nonsense")
    token = (await staff.read(quiet))["lease_expires_at"]

    async def extended_twice() -> bool:
        task = await staff.read(quiet)
        return bool(task["lease_expires_at"] > token and task["attempt"] == 1) and await staff.store.verify() == []

    await eventually(extended_twice)
    staff.open("nonsense")
    assert [end.result for end in await staff.ended([noisy, quiet])] == ["kept its lease", "near_nonsense"]
    assert len(staff.notes("near_nonsense")) == 1
