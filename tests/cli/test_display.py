"""What runs is drawn in one way, whatever it is: a row for each part; without a terminal a line for each change."""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli import watcher
from holdfast.cli.watcher import Display, exit_code, part, poll, rows_of
from holdfast.errors import ServerUnreachable


def drawn(parts: list[watcher.Part], width: int = 80) -> list[str]:
    """The rows as a terminal has them, without the bars."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(rows_of(parts))
    lines = console.export_text().splitlines()
    assert max(len(line) for line in lines) <= width
    return [" ".join(line.replace("\u2501", "").replace("\u257a", "").replace("\u2578", "").split()) for line in lines]


def test_every_status_of_a_part_has_a_mark_and_says_what_there_is_to_say() -> None:
    assert drawn(
        [
            part("INGEST", "completed"),
            part("CLASSIFY", "partial", error="one was lost (and 1 more)"),
            part("NEUTRALIZE", "failed", error="no \x1b[31m model"),
            part("BRIEF", "skipped", note="It needs NEUTRALIZE, which failed."),
            part("SUMMARY", "running", note="3 of 9 feeds"),
            part("LETTER", "cancelled"),
            part("EVALUATION", "waiting"),
        ]
    ) == [
        "✓ INGEST completed",
        "◐ CLASSIFY partial: one was lost (and 1 more)",
        "✗ NEUTRALIZE failed: no \\x1b[31m model",
        "\u2013 BRIEF skipped, It needs NEUTRALIZE, which failed.",
        "● SUMMARY running, 3 of 9 feeds",
        "⊘ LETTER cancelled",
        "· EVALUATION waiting",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_part_that_counts_has_a_bar_and_numbers(width: int) -> None:
    parts = [
        part("FETCHED", "completed", done=1200, total=1200),
        part("EMBEDDED", "running", done=40, total=1200),
        part("INDEXED", "waiting", done=0, total=1200),
        part("ready", "running"),
    ]
    assert drawn(parts, width)[:3] == [
        "✓ FETCHED 1,200/1,200 completed", "● EMBEDDED 40/1,200 running", "· INDEXED 0/1,200 waiting",
    ]  # fmt: skip


def test_a_part_that_runs_says_for_how_long() -> None:
    began = (datetime.now(UTC) - timedelta(minutes=3, seconds=1)).isoformat()
    running = part("SUMMARY", "running", note="3 of 9 feeds", started_at=began)
    assert "running, 3 of 9 feeds, 3 min" in drawn([running])[0]
    assert "min" not in drawn([part("SUMMARY", "completed", started_at=began)])[0]


def test_of_many_parts_those_that_run_or_failed_are_drawn_and_the_rest_is_one_line() -> None:
    parts = [part(f"job {number}", "completed") for number in range(1, 18)]
    parts += [part("job 18", "running", note="half way"), part("job 19", "waiting", error="who knows")]
    lines = drawn(parts)
    assert lines[-3:] == ["● job 18 running, half way", "· job 19 waiting: who knows", "and 4 more: 4 completed"]
    assert len(lines) == watcher.parts_drawn + 1


def test_without_a_terminal_each_change_of_a_part_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Display() as display:
        for status in ("waiting", "running", "running", "completed"):
            display.show("nightly", "Running", "1", [part("load", status), part("check", "waiting")])
            display.note("check waits" if status == "running" else "")
    assert capsys.readouterr().err.splitlines() == ["load: running", "check waits", "load: completed"]


def test_of_very_many_parts_a_line_now_and_then_counts_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Display() as display:
        for done in range(3):
            parts = [part(f"job {number}", "completed" if number < done else "running") for number in range(1000)]
            display.show("batch", "IN_PROGRESS", "1", parts)
    assert capsys.readouterr().err.splitlines() == ["1,000 parts: 1,000 running"]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(quiet=True) as display:
        display.show("nightly", "Running", "1", [part("load", "completed")])
        display.note("It waits.")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("COMPLETED", 0), ("FAILED", 1), ("EXPIRED", 1), ("UPLOAD_FAILED", 4), ("PARTIAL", 6), ("PARTIAL_COMPLETE", 6),
        ("CANCELLED", 7), ("RUNNING", 124),
    ],
)  # fmt: skip
def test_the_status_decides_the_exit_code(status: str, code: int) -> None:
    assert exit_code({"status": status}) == exit_code({"state": status.capitalize()}) == code


async def test_a_server_that_is_away_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "soonest_seconds", 0.0)
    answers: list[Any] = ["begun", ServerUnreachable("away"), "ended"]
    notes: list[str] = []
    assert [now async for now in poll(next_of(answers), None, lambda now: now == "ended", notes.append)] == [
        "begun", "ended",
    ]  # fmt: skip
    assert ["does not answer" in note for note in notes] == [True]


async def test_a_server_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "soonest_seconds", 0.0)
    with pytest.raises(ServerUnreachable):
        async for _ in poll(next_of([ServerUnreachable("away")] * 9), timedelta(0), lambda now: False):
            pass


def next_of(answers: list[Any]) -> Callable[[], Any]:
    async def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look
