"""Batches from the command line: sent, followed to their end and told of, looked at, decided about, done again."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.apps.providers.local.provider import Local
from holdfast.cli.batch import find_inputs, guess_type
from holdfast.cli.batch_results import Known, outputs_of, print_items, text_of
from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.cli.keyboard import Answer
from tests.cli.test_terminal import Terminal, plain
from tests.eventually import eventually_sync
from tests.http.serving import serving
from tests.worker.living import staffed

AT = ("--provider", "bureau")


@pytest.fixture(scope="module")
def server(live: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with staffed(live, home, "tests.cli.bureau:hf", AWS_REGION="", OPENAI_API_KEY="") as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a person has two recordings, prompts, and a note that is neither."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.wav": "a", "b.mp3": "b", "prompts.txt": "Hello.\nbad\n", "note.md": "no"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def until(typed: Keyboard, batch: str, status: str) -> dict[str, Any]:
    """The batch, once its first job is in this status."""

    def read() -> dict[str, Any] | None:
        found: dict[str, Any] = typed("batch", "show", batch, "--json").json
        return found if [job["status"] for job in found["jobs"]][:1] == [status] else None

    found = eventually_sync(read, f"a job that is {status}")
    assert found
    return found


@pytest.mark.deep
def test_files_are_sent_followed_to_their_end_and_saved(typed: Keyboard, folder: Path) -> None:
    done = typed("batch", "submit", "a.wav", "b.mp3", "s3://bucket/c.wav", *AT, "--save", "out")
    assert done.code == 0, done.err
    answered = done.err.splitlines()
    assert answered[0] == "uploaded 2 files (2 bytes)"
    assert {line for line in answered if ": completed" in line} == {"job 1: completed 2/2", "job 2: completed 1/1"}
    assert answered[-1].startswith("COMPLETED: 3 of 3 ok; cost 1.50 cents, ")
    assert done.lines[0].split() == ["input", "status", "words", "tokens", "cost"]
    assert done.lines[1].split() == ["a.wav", "ok", "words", "of", "0-a.wav", "10", "+", "2", "0.50", "cents"]
    assert done.lines[3].startswith("s3://bucket/c.wav  ok      words of c.wav")
    assert done.lines[4:] == ["out/result.json", "out/manifest.json"]
    result = json.loads((folder / "out" / "result.json").read_text())
    assert [one["transcript"] for one in result["transcriptions"]] == [
        "words of\n0-a.wav", "words of\n1-b.mp3", "words of\nc.wav",
    ]  # fmt: skip
    assert json.loads((folder / "out" / "manifest.json").read_text())["ok"] == 3


def test_prompts_are_counted_by_line_and_what_failed_is_done_again(typed: Keyboard, folder: Path) -> None:
    some = typed("batch", "submit", str(folder), "--type", "completion", *AT, "--model", "m1", "--wait")
    assert some.code == 6, some.err
    assert "Left out: 3 of another kind" in some.err
    assert [line.split() for line in some.lines] == [
        ["input", "model", "status", "words", "tokens", "cost"],
        [f"{folder}/prompts.txt:1", "m1", "ok", "You", "said:", "Hello.", "10", "+", "2", "0.50", "cents"],
        [f"{folder}/prompts.txt:2", "m1", "failed", "It", "crackles."],
    ]
    batch = typed("batch", "ls", "--status", "partial_complete", "--json").json[0]
    assert f"holdfast batch retry-failed {batch['task_id']} --wait" in some.err
    again = typed("batch", "retry-failed", batch["task_id"], "--wait", "--json")
    assert (again.code, again.err, again.json["retry_of"]) == (1, "", batch["task_id"])
    assert [(one["status"], one["reason"]) for one in again.json["items"]] == [("failed", "It crackles.")]
    printed = typed("batch", "show", again.json["task_id"])
    assert f"retry of  {batch['task_id']}" in printed.lines
    assert printed.lines[-1].endswith("It crackles.")


def test_a_dataset_is_sent_by_its_name_and_its_files_keep_theirs(typed: Keyboard, folder: Path) -> None:
    assert typed("dataset", "make", "calls", "a.wav", "https://example.org/bad.wav").code == 0
    done = typed("batch", "submit", "--dataset", "calls", *AT, "--wait")
    assert (done.code, [line.split()[:2] for line in done.lines[1:]]) == (
        6, [["a.wav", "ok"], ["https://example.org/bad.wav", "failed"]],
    )  # fmt: skip
    batch = typed("batch", "--json").json[0]["task_id"]
    watched = typed("batch", "watch", batch)
    assert (watched.code, watched.out) == (6, done.out)
    beginning = typed("batch").lines[1].split()[0]
    printed = typed("batch", "show", beginning)
    assert printed.lines[0].split() == ["batch", batch]
    assert any("https://example.org/bad.wav: It crackles." in line for line in printed.lines)


@pytest.mark.deep
def test_a_job_that_waits_for_a_person_is_listed_with_the_commands_that_answer(typed: Keyboard) -> None:
    batch = typed("batch", "submit", "s3://b/lost.wav", *AT).out.strip()
    until(typed, batch, "PARKED")
    printed = typed("batch", "show", batch)
    (waits,) = [line for line in printed.lines if line.startswith("Job 1 waits for a person.")]
    assert waits.endswith("BUREAU cannot tell whether it has it. Its list has no names.")
    for options in ("--adopt EXTERNAL_ID", "--resubmit", "--go-on", "--give-up"):
        assert f"holdfast batch resolve {batch} 1 {options}" in printed.out
    late = typed("batch", "watch", batch, "--timeout", "100ms")
    assert (late.code, f"What to do: holdfast batch show {batch}" in late.err) == (124, True), late.err
    assert "1 parked" in next(line for line in typed("batch").lines if line.startswith(batch[:18]))
    refused = typed("batch", "resolve", batch, "1", "--adopt", "B-9", "--give-up")
    assert (refused.code, "Say one of --go-on" in " ".join(refused.err.split())) == (2, True)
    assert typed("batch", "resolve", batch, "1", "--adopt", "B-9", "--note", "seen there").lines == [
        "Job 1 is SUBMITTED."
    ]
    done = typed("batch", "watch", batch, "--json")
    assert (done.code, done.json["jobs"][0]["external_job_id"]) == (0, "B-9")
    assert typed("batch", "resolve", batch, "1", "--go-on").code == 4


def test_what_cannot_be_stopped_is_listed_after_a_cancel(typed: Keyboard) -> None:
    batch = typed("batch", "submit", "s3://b/stuck.wav", *AT).out.strip()
    until(typed, batch, "SUBMITTED")
    assert typed("cancel", batch, "--reason", "enough").code == 0
    ended = typed("batch", "watch", batch)
    assert (ended.code, "CANCELLED: enough." in ended.err) == (7, True), ended.err
    assert "BUREAU may still be at work on B-" in ended.err
    stop = typed("batch", "show", batch, "--json").json["stopped_by"]
    assert f"Stopped by: holdfast show {stop}" in ended.err
    assert typed("watch", stop).code == 1


def test_ctrl_c_leaves_the_batch_alone_and_says_how_to_go_on(live: Database, server: str) -> None:
    arguments = ("batch", "submit", "s3://b/stuck.wav", *AT, "--wait")
    waiting = Terminal(live, *arguments, columns=100, api=server).until("dusting")
    assert "● job 1" in plain(waiting.printed)
    waiting.process.send_signal(signal.SIGINT)
    waiting.until()
    assert (waiting.process.returncode, "Traceback" in waiting.printed) == (130, False)
    assert "It goes on. Follow it: holdfast batch watch" in plain(waiting.printed)
    assert waiting.printed.rindex("\x1b[?25h") > waiting.printed.rindex("\x1b[?25l")


def test_the_providers_are_listed_with_what_they_lack(typed: Keyboard) -> None:
    listed = typed("batch", "providers")
    found = {tuple(line.split()[:4]) for line in listed.lines}
    assert ("BUREAU", "completion", "yes", "ready") in found
    assert ("ATTIC", "transcription", "no", "ready") in found
    assert {line[0] for line in found} >= {"LOCAL", "AWS", "OPENAI"}
    assert "ATTIC transcription: The key to the attic is missing: set ATTIC_KEY." in listed.err
    refused = typed("batch", "submit", "s3://b/a.wav", "--provider", "attic")
    assert (refused.code, "set ATTIC_KEY" in refused.err) == (2, True)


@pytest.mark.deep
@pytest.mark.skipif(Local().missing("transcription") is not None, reason="the speech model is not installed")
@pytest.mark.timeout(180)  # a model is loaded, on a machine that may be busy
def test_the_samples_are_heard_here_with_a_score(typed: Keyboard) -> None:
    done = typed("batch", "submit", "--samples", "--wait", "--json")
    assert (done.code, len(done.json["items"])) == (0, 6), done.err
    assert all(one["word_error_rate"] < 0.3 for one in done.json["items"])
    assert done.json["word_error_rate"] < 0.2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["submit"], 2, "files, folders or addresses; --dataset NAME; or --samples to try it."),
        (["submit", "gone.wav"], 2, "There is no gone.wav."),
        (["submit", "note.md"], 2, "Say it: --type transcription, or --type completion."),
        (["submit", "a.wav", "prompts.txt"], 2, "recordings and prompts: a.wav and prompts.txt."),
        (["submit", "a.wav", "--provider", "nobody"], 2, "No worker offers transcription with nobody."),
        (["submit", "--dataset", "none"], 3, "There is no dataset 'none'. List them: holdfast dataset ls"),
        (["submit", "a.wav", "--save", "note.md/out"], 2, "note.md/out cannot be made: Not a directory."),
        (["submit", "s3://b/wrong.wav", *AT, "--wait"], 1, "The bureau speaks no Latin"),
        (["show", "ffff"], 3, "No batch's id begins with 'ffff'"),
        (["resolve", "ffff", "1"], 2, "Say one of --go-on, --adopt EXTERNAL_ID, --resubmit and --give-up."),
        (["ls", "--status", "done"], 2, "Input should be 'PENDING', 'IN_PROGRESS'"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_done_is_refused_with_the_fix(
    typed: Keyboard, arguments: list[str], code: int, says: str
) -> None:
    done = typed("batch", *arguments)
    message = " ".join(done.err.replace("│", " ").split())
    assert (done.code, says in message) == (code, True), done.err


def test_where_there_is_nothing_the_next_step_is_named(
    holdfast: Keyboard, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def teaches(answer: Answer, message: str) -> bool:
        return (answer.code, answer.out) == (0, "") and message in answer.err

    with serving(database) as address:
        monkeypatch.setenv("HOLDFAST_API", address)
        assert teaches(holdfast("batch"), "holdfast batch submit --samples --wait")
        assert teaches(holdfast("batch", "providers"), "hf.providers()")
        assert holdfast("batch", "ls", "--json").json == []
        refused = holdfast("batch", "submit", "--samples")
        assert (refused.code, "try holdfast up --demo" in refused.err) == (2, True)


def test_what_is_meant_follows_from_the_names(folder: Path) -> None:
    found = find_inputs([".", "gs://b/x.flac", "./a.wav"])
    assert [one.name for one in found.documents] == ["a.wav", "b.mp3", "prompts.txt", "gs://b/x.flac"]
    assert found.left_out == [("note.md", "of another kind")]
    assert guess_type(["https://example.org/A.WAV?sig=x.txt", "b"]) == "transcription"
    assert guess_type(["a.jsonl", "b.txt"]) == "completion"
    with pytest.raises(typer.BadParameter, match="Make a batch of each"):
        guess_type(["a.jsonl", "b.wav"])


def test_results_are_read_however_they_are_put_together() -> None:
    one = {"input": "a", "transcript": "x"}
    assert list(outputs_of({"transcriptions": [one]})) == [(None, one)]
    assert list(outputs_of({"m1": {"completions": [one]}, "default": {"completions": [one]}})) == [
        ("m1", one),
        (None, one),
    ]
    assert text_of({"output": {"choices": [{"message": {"content": "hello"}}]}}) == "hello"
    assert text_of({"output": {"odd": 1}}) == '{"odd": 1}'
    known = Known({"object:u/0": "p.txt", "object:v/1": "q.txt", "object:v/0": "r.txt"})
    assert [known.name(name) for name in ("object:v/1", "1:7", "0:7", "s3://b/k")] == [
        "q.txt",
        "q.txt:7",
        "0:7",
        "s3://b/k",
    ]


def test_of_many_inputs_those_that_failed_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"name": f"{number}.wav", "status": "ok", "output": {"text": "hm"}} for number in range(60)]
    items[57] = {"name": "57.wav", "status": "failed", "reason": "It crackles."}
    print_items(items, Known())
    lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines[1:3]] == ["57.wav failed It crackles.", "0.wav ok hm"]
    assert (len(lines), lines[-1]) == (52, "... and 10 more: --save FOLDER has all")
    print_items(items * 40, Known())
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (42, "... and 2,360 more: --save FOLDER has all")
