"""Graphs from the command line: run to the end, shown level by level, retried, cancelled, drawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.worker.living import staffed


@pytest.fixture(scope="module")
def server(live: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with staffed(live, tmp_path_factory.mktemp("home"), "tests.cli.night:hf") as address:
        yield address


def test_a_run_is_followed_to_its_end(typed: Keyboard) -> None:
    done = typed("dag", "run", "nightly", "--param", "day=mon", "--wait", "--timeout", "60s")
    assert done.code == 0, done.err
    answered = done.err.splitlines()
    assert sorted(line for line in answered if line.endswith(": completed")) == [
        f"{name}: completed" for name in ("check", "load", "publish", "report")
    ]
    assert answered[-1].startswith("Completed: Nodes: 4 completed, ")
    rows = [line.split()[:4] for line in done.lines]
    assert rows[0] == ["level", "node", "state", "after"]
    assert [row[:3] for row in rows[1:]] == [
        ["1", "load", "Completed"], ["2", "check", "Completed"], ["3", "report", "Completed"],
        ["4", "publish", "Completed"],
    ]  # fmt: skip
    assert "load, check (ignore)" in done.lines[3]


def test_what_failed_is_listed_and_only_that_runs_again(typed: Keyboard, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"day": "mon", "broken": true}')
    failed = typed("dag", "run", "nightly", "--params", str(file), "--wait", "--json")
    assert failed.code == 6
    run = failed.json
    assert {one["name"]: one["state"] for one in run["nodes"]} == {
        "load": "Completed", "check": "Dead", "report": "Completed", "publish": "Canceled",
    }  # fmt: skip
    printed = typed("dag", "show", run["dag_id"][:20])
    assert printed.code == 0, printed.err
    assert "the prices make no sense" in printed.out
    again = typed("dag", "retry", run["dag_id"], "--wait", "--json")
    assert again.code == 6
    kept = {one["name"]: one["task_id"] for one in run["nodes"]}
    assert [one["name"] for one in again.json["nodes"] if one["task_id"] != kept[one["name"]]] == ["check", "publish"]
    once_more = typed("retry", again.json["dag_id"], "--json")  # as any task is
    assert once_more.json["retry_of"] == again.json["dag_id"]
    node = next(one["task_id"] for one in run["nodes"] if one["name"] == "check")
    refused = typed("retry", node)
    assert (refused.code, f"holdfast dag retry {run['dag_id']}" in refused.err) == (4, True)
    listed = typed("dag", "ls", "--dag", "nightly", "--state", "partial", "--json").json
    assert {run["dag_id"], again.json["dag_id"]} <= {one["dag_id"] for one in listed}
    assert "nightly" in typed("dag", "ls").out


def test_the_same_key_is_the_same_run_and_a_finished_one_is_not_cancelled(typed: Keyboard) -> None:
    first, again = [
        typed("dag", "run", "nightly", "--params", '{"day": "tue"}', "--key", "tuesday").out for _ in range(2)
    ]
    assert first == again
    assert typed("watch", first.strip(), "--timeout", "60s").code == 0
    late = typed("dag", "cancel", first.strip())
    assert (late.code, late.err.strip()) == (4, "Too late: it is Completed.")


def test_graphs_that_are_declared_are_listed_printed_and_drawn(typed: Keyboard, tmp_path: Path) -> None:
    assert "load check report publish" in typed("dag").out
    printed = typed("dag", "show", "nightly").out
    assert "broken?, day" in printed
    assert "nightly.check" in printed
    typed("dag", "draw", "nightly", "-o", str(tmp_path / "nightly.mmd"))
    drawn = (tmp_path / "nightly.mmd").read_text().splitlines()
    assert drawn[:2] == ["flowchart LR", '    n1["load"]']
    assert "    n2 -. ignore .-> n3" in drawn
    missing = typed("dag", "draw", "daily")
    assert (missing.code, "There are: nightly." in missing.err) == (3, True)


def test_mistakes_are_named(typed: Keyboard) -> None:
    missing = typed("dag", "run", "nightly")
    assert (missing.code, "day is missing" in missing.err) == (2, True)
    unknown = typed("dag", "run", "daily")
    assert (unknown.code, "There is no graph 'daily'" in unknown.err) == (2, True)
    assert typed("dag", "run", "nightly", "--params", "[1]").code == 2
    assert typed("dag", "show", "ffff").code == 3
