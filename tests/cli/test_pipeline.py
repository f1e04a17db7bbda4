"""Pipelines from the command line: a job is run to its end and told of, looked at, cancelled, set up otherwise."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.files import path_within
from holdfast.cli.params import read_pairs
from holdfast.errors import RequestInvalid
from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.cli.test_terminal import Terminal, plain
from tests.http.serving import serving
from tests.worker.living import staffed


@pytest.fixture(scope="module")
def server(live: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with staffed(live, tmp_path_factory.mktemp("home"), "tests.cli.leaflets:hf") as address:
        yield address


@pytest.fixture
def paused(live: Database, server: str) -> Iterator[None]:
    live.ask_owner("select holdfast.pause_queue('pipeline', 'ada')")
    yield
    live.ask_owner("select holdfast.resume_queue('pipeline')")


def test_a_job_is_followed_to_its_end_and_its_files_are_saved(typed: Keyboard, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "brief.md").write_text("yesterday's, which was longer than the one of today")
    done = typed("pipeline", "run", "press", "--param", "articles=3", "--evaluate", "--output", str(folder))
    assert done.code == 0, done.err
    answered = done.err.splitlines()
    assert [line for line in answered if line.endswith(": completed")] == [
        f"{name}: completed" for name in ("INGEST", "CLASSIFY", "NEUTRALIZE", "BRIEF", "SUMMARY", "EVALUATION")
    ]
    assert answered[-2] == "OPTIMIZATION: skipped, enable_auto_optimize is off."
    assert answered[-1].startswith("COMPLETED: Stages: 6 completed, 1 skipped; cost 0 cents, ")
    table = [line.split() for line in done.lines]
    assert table[0] == ["stage", "status", "took", "about"]
    assert (table[4][:2], table[4][-1]) == (["BRIEF", "completed"], "brief.md")
    assert done.lines[8:] == ["summary", '  {"articles": 3}', f"{folder}/brief.md"]
    assert (folder / "brief.md").read_text() == "3 articles, 3 softened"
    assert [one.name for one in folder.iterdir()] == ["brief.md"]


def test_files_of_one_name_are_kept_apart_by_their_stage(typed: Keyboard, tmp_path: Path) -> None:
    done = typed("pipeline", "run", "leaflet", "--param", "text=hello", "-o", str(tmp_path), "--json")
    assert (done.code, done.err, done.json["status"]) == (0, "", "COMPLETED")
    assert done.json["saved"] == [
        f"{tmp_path}/{one}" for one in ("front/page.txt", "notes/colours.txt", "back/page.txt")
    ]
    assert (tmp_path / "back" / "page.txt").read_text() == "back: hello"


def test_what_went_wrong_is_reported_and_the_exit_code_says_how_much(typed: Keyboard) -> None:
    some = typed("pipeline", "run", "press", "--param", 'script={"CLASSIFY": "fatal", "INGEST": "partial"}', "--wait")
    assert some.code == 6, some.err
    assert "CLASSIFY failed: CLASSIFY is broken." in some.lines
    assert "INGEST partial: INGEST: one of two was lost." in some.lines
    assert next(line for line in some.lines if line.startswith("BRIEF")).endswith("It needs CLASSIFY, which failed.")
    (job,) = typed("pipeline", "jobs", "--status", "partial", "--json").json
    assert f"holdfast retry {job['job_id']}" in some.err
    none = typed("pipeline", "run", "press", "--param", 'script={"INGEST": "fatal"}', "--wait", "--json")
    assert (none.code, none.json["status"], none.json["error"]) == (1, "FAILED", "INGEST: INGEST is broken.")
    assert typed("retry", job["job_id"], "--json").json["retry_of"] == job["job_id"]


def test_a_job_is_printed_with_links_and_found_by_the_beginning_of_its_id(typed: Keyboard) -> None:
    job = typed("pipeline", "run", "press", "--param", "articles=1", "--wait", "--json").json
    printed = typed("pipeline", "show", job["job_id"])
    assert printed.lines[:3] == [f"job       {job['job_id']}", "pipeline  press", "state     COMPLETED"]
    assert 'params    {"articles": 1}' in printed.lines
    link = printed.lines[-1].split()
    assert (link[:4], link[-1].startswith("http://127.0.0.1:")) == (["brief.md", "BRIEF", "22", "bytes"], True)
    beginning = typed("pipeline", "jobs").lines[1].split()[0]
    again = typed("pipeline", "show", beginning, "--json").json
    assert (again["job_id"], again["outputs"][0]["stage"]) == (job["job_id"], "BRIEF")


@pytest.mark.usefixtures("paused")
def test_waiting_for_a_job_that_no_worker_takes_up_prints_the_reason(
    typed: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.watcher.wonder_after_seconds", 0.0)
    late = typed("pipeline", "run", "press", "--wait", "--timeout", "1s", "--key", "late")
    assert late.code == 124
    assert "Queue pipeline is paused" in late.err
    begun = typed("pipeline", "run", "press", "--key", "late")
    job = begun.out.strip()
    assert (begun.code, len(job), f"holdfast watch {job}" in begun.err) == (0, 36, True)
    assert "Resume it: holdfast queues resume pipeline" in begun.err
    assert f"Cancel it: holdfast cancel {job}" in late.err
    assert typed("cancel", job, "--reason", "too late").code == 0
    ended = typed("pipeline", "run", "press", "--wait", "--key", "late")
    assert (ended.code, "CANCELLED: too late. Stages: 7 skipped" in ended.err) == (7, True), ended.err


@pytest.mark.usefixtures("paused")
def test_ctrl_c_leaves_the_job_alone_and_says_how_to_go_on(live: Database, server: str) -> None:
    waiting = Terminal(live, "pipeline", "run", "press", "--wait", columns=100, api=server).until("OPTIMIZATION")
    assert "· OPTIMIZATION" in plain(waiting.printed)
    waiting.process.send_signal(signal.SIGINT)
    waiting.until()
    assert waiting.process.returncode == 130
    assert "It goes on. Follow it: holdfast watch" in plain(waiting.printed)
    assert "Traceback" not in waiting.printed
    assert waiting.printed.rindex("\x1b[?25h") > waiting.printed.rindex("\x1b[?25l")


def test_settings_are_listed_changed_by_a_stage_and_taken_away(typed: Keyboard) -> None:
    assert typed("pipeline", "run", "press", "--optimize", "--wait").code == 0
    assert typed("pipeline", "settings", "press", "--json").json["settings"] == {"articles": 3}
    changed = typed("pipeline", "settings", "press", "--set", "articles=4", "--set", "enable_evaluation=true")
    assert [line.split() for line in changed.lines[:3]] == [
        ["parameter", "value", "from", "takes"],
        ["articles", "4", "setting", "integer"],
        ["enable_auto_optimize", "false", "default", "boolean"],
    ]
    listed = next(line for line in typed("pipeline").lines if line.startswith("press"))
    assert "ready   INGEST > CLASSIFY > NEUTRALIZE > BRIEF" in listed
    assert listed.endswith('{"articles": 4, "enable_evaluation": true}')
    back = typed("pipeline", "settings", "press", "--reset", "articles", "--reset", "enable_evaluation")
    assert back.lines[1].split() == ["articles", "2", "default", "integer"]
    needed = typed("pipeline", "settings", "leaflet").lines[1]
    assert needed.split() == ["text", "each", "job", "names", "it", "string"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "pres"], 2, "There is no pipeline 'pres'. There are: leaflet, press."),
        (["run", "leaflet"], 2, "text is missing. leaflet takes: text."),
        (["run", "press", "--param", "articles"], 2, "--param articles: write it as KEY=VALUE."),
        (["run", "press", "--param", "a=1", "--param", "a=2"], 2, "--param names a twice."),
        (["run", "press", "--params", "list.json"], 2, "list.json is not an object."),
        (["run", "press", "--params", "torn.json"], 2, "torn.json, line 1, column 2"),
        (["run", "press", "-o", "list.json/out"], 2, "list.json/out cannot be made: Not a directory."),
        (["run", "press", "--evaluate", "--param", "enable_evaluation=false"], 2, "Name it once."),
        (["show", "ffff"], 3, "No job's id begins with 'ffff'"),
        (["settings", "pres"], 3, "There is no pipeline 'pres'. There are: leaflet, press."),
        (["settings", "press", "--set", "pages=3"], 2, "'pages' is not a parameter of press."),
        (["settings", "press", "--set", "articles=3", "--reset", "articles"], 2, "articles is both set and reset."),
        (["jobs", "--pipeline", "press", "--status", "done"], 2, "Input should be 'PENDING', 'RUNNING'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_the_fix(
    typed: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1]")
    Path("torn.json").write_text("{")
    done = typed("pipeline", *arguments)
    assert (done.code, says in " ".join(done.err.split())) == (code, True), done.err


def test_where_there_is_nothing_the_next_step_is_named(
    holdfast: Keyboard, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(database) as address:
        monkeypatch.setenv("HOLDFAST_API", address)
        none = holdfast("pipeline", "ls")
        assert (none.code, none.out, "holdfast worker --app MODULE:NAME" in none.err) == (0, "", True)
        none = holdfast("pipeline", "jobs")
        assert (none.code, none.out, "holdfast pipeline run NAME --wait" in none.err) == (0, "", True)
        assert holdfast("pipeline", "jobs", "--json").json == []
        assert "none; start a worker that declares one" in holdfast("pipeline", "run", "press").err


def test_a_value_is_the_json_that_it_is_or_else_text() -> None:
    given = ["n=3", "flag=true", "list=[1]", "text=a=b", "empty=", 'quoted="3"', "nan=NaN"]
    assert read_pairs(given, "--param") == {
        "n": 3, "flag": True, "list": [1], "text": "a=b", "empty": "", "quoted": "3", "nan": "NaN",
    }  # fmt: skip


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "inner").mkdir(parents=True)
    (folder / "away").symlink_to(tmp_path)
    assert path_within(folder, "inner/a.txt") == folder / "inner" / "a.txt"
    for name in ("../a.txt", "inner/../../a.txt", "/etc/a.txt", "away/a.txt"):
        with pytest.raises(RequestInvalid, match="outside"):
            path_within(folder, name)
