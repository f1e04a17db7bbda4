"""`holdfast inbox`: what waits for a person, seen in groups and handled once, from a keyboard or a script."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.store.inbox import WholeEntry
from holdfast.testing import Clock, Database
from tests.cli.conftest import Keyboard, Stage
from tests.promises.test_inbox import MISSING, fail
from tests.promises.test_waiting import ask, refuse_schedule


@pytest.fixture
def failed(stage: Stage, clock: Clock) -> list[UUID]:
    """Three failures that are alike, and after them another; the entries."""

    async def play(store: Store) -> list[UUID]:
        alike = [
            await fail(store, clock, "ingest", f"Page {n} of /tmp/{n}.pdf", payload={"doc": f"{n}.pdf"})
            for n in range(3)
        ]
        return [*alike, await fail(store, clock, "mail", "bounced", category="SchemaInvalid", owner="ada")]

    return stage(play)


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")


def entry(number: UUID) -> Callable[[Store], Awaitable[WholeEntry]]:
    return lambda store: store.inbox.entry(number)


def editor(path: Path, change: str) -> str:
    """An editor that makes one change to the text."""
    path.write_text(
        f"import pathlib, sys\nfile = pathlib.Path(sys.argv[-1])\ntext = file.read_text()\nfile.write_text({change})\n"
    )
    return f"{sys.executable} {path}"


def test_an_empty_inbox_says_so(holdfast: Keyboard, failed: list[UUID], stage: Stage) -> None:
    assert "No entry fits." in holdfast("inbox", "ls", "--name", "nope").err
    stage(lambda store: store.inbox.bulk("discard", "ada", ids=failed))
    empty = holdfast("inbox")
    assert (empty.code, empty.out, empty.err) == (0, "", "Nothing waits for a person.\n")
    assert holdfast("inbox", "ls", "--json").json == []
    assert len(holdfast("inbox", "ls", "--all").lines) == 5


def test_what_else_waits_for_a_person_is_listed_below_the_failures(
    holdfast: Keyboard, stage: Stage, clock: Clock
) -> None:
    task = stage(ask)
    stage(lambda store: refuse_schedule(store, clock))
    alone = holdfast("inbox").lines
    assert [line.split()[:2] for line in alone] == [["waits", "name"], ["question", "prices"], ["schedule", "nightly"]]
    command = alone[1].partition("  holdfast ")[2]
    assert (command.split()[0], str(task).startswith(command.split()[1])) == ("answer", True)
    assert holdfast(*command.split()).out == "publish is answered.\n"
    stage(lambda store: fail(store, clock))
    both = holdfast("inbox", "ls").lines
    assert [line.split()[:1] for line in both] == [["newest"], both[1].split()[:1], [], ["waits"], ["schedule"]]
    answered = holdfast("inbox", "ls", "--items", "--json").json
    assert [(one["kind"], one["name"]) for one in answered] == [("failure", "work"), ("schedule", "nightly")]
    assert answered[1]["command"] == "holdfast cron show nightly"
    assert len(holdfast("inbox", "ls", "--name", "work").lines) == 2
    assert "No entry fits." in holdfast("inbox", "ls", "--owner", "bob").err


def test_groups_are_listed_and_items_too(holdfast: Keyboard, failed: list[UUID], clock: Clock) -> None:
    clock.advance(minutes=2)
    lines = holdfast("inbox", "ls").lines
    assert lines == holdfast("inbox").lines
    assert [line.split()[1:5] for line in lines[1:]] == [
        ["1", "mail", "extracted", "SchemaInvalid"], ["3", "ingest", "extracted", "Fatal"],
    ]  # fmt: skip
    assert lines[2].endswith("2 min ago  2 min ago  Page 2 of /tmp/2.pdf")
    items = holdfast("inbox", "ls", "--items", "--category", "Fatal", "-n", "2")
    assert [line.split("  ")[-1].strip() for line in items.lines[1:]] == [
        "Page 2 of /tmp/2.pdf",
        "Page 1 of /tmp/1.pdf",
    ]
    assert "There are more" in items.err
    newest = items.lines[1].split()[0]
    assert str(failed[2]).startswith(newest)
    (group,) = holdfast("inbox", "ls", "--signature", newest, "--json").json
    assert (group["number"], group["newest"]) == (3, str(failed[2]))
    assert [one["id"] for one in holdfast("inbox", "ls", "--items", "--owner", "ada", "--json").json] == [
        str(failed[3])
    ]


def test_an_entry_is_printed_with_all_that_a_person_needs(holdfast: Keyboard, failed: list[UUID]) -> None:
    printed = holdfast("inbox", "show", str(failed[0])).out
    for part in ("Page 0 of /tmp/0.pdf", "fetched", "extracted", '{"doc": "0.pdf"}', "Running", "dispatch",
                  f"holdfast inbox retry {failed[0]}"):  # fmt: skip
        assert part in printed
    answered = holdfast("inbox", "show", str(failed[0]), "--json").json
    assert (answered["payload"], answered["task"]["state"]) == ({"doc": "0.pdf"}, "Dead")
    assert holdfast("inbox", "show", answered["task_id"]).out == printed
    assert holdfast("inbox", "show", str(MISSING)).code == 3
    assert holdfast("inbox", "show", "mail").code == 3
    many = holdfast("inbox", "show", "0")
    assert (many.code, many.err.count("of task")) == (2, 4)


def test_a_retry_gives_a_script_the_new_id(holdfast: Keyboard, stage: Stage, failed: list[UUID]) -> None:
    started = holdfast("inbox", "retry", str(failed[0]), "--note", "mended", "--from-step", "extracted")
    assert (started.code, started.err) == (0, "")
    seen = stage(entry(failed[0]))
    assert (str(seen.retried_as), seen.resolved_by, seen.note) == (started.out.strip(), "ada", "mended")
    again = holdfast("inbox", "retry", str(failed[0]))
    assert (again.code, again.out) == (4, "")
    assert "was retried by ada at 2030-01-01" in again.err
    assert f"holdfast why {seen.retried_as}" in again.err
    assert holdfast("inbox", "retry", str(failed[1]), "--from-step", "nope").code == 2
    answered = holdfast("inbox", "retry", str(failed[1]), "--json").json
    assert (answered["id"], UUID(answered["task_id"]).version) == (str(failed[1]), 7)


def test_a_payload_is_changed_by_an_option_or_in_an_editor(
    holdfast: Keyboard, stage: Stage, failed: list[UUID], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = holdfast("inbox", "retry", str(failed[0]), "--payload", '{"doc": "x.pdf"}').out.strip()
    assert stage(lambda store: store.read(new))["payload"] == {"doc": "x.pdf"}
    assert '/doc: "0.pdf" -> "x.pdf"' in holdfast("inbox", "show", str(failed[0])).out
    monkeypatch.setenv("EDITOR", editor(tmp_path / "change.py", "text.replace('1.pdf', 'y.pdf')"))
    new = holdfast("inbox", "retry", str(failed[1]), "--edit").out.strip()
    assert stage(lambda store: store.read(new))["payload"] == {"doc": "y.pdf"}
    unchanged = holdfast("inbox", "retry", str(failed[2]), "--edit")
    assert (unchanged.code, "left as it was" in unchanged.err) == (2, True)
    monkeypatch.setenv("EDITOR", editor(tmp_path / "break.py", "text.replace('}', '')"))
    broken = holdfast("inbox", "retry", str(failed[2]), "--edit", stdin="n\n")
    assert (broken.code, "line" in broken.err) == (130, True)
    monkeypatch.setenv("EDITOR", str(tmp_path / "none"))
    assert holdfast("inbox", "retry", str(failed[2]), "--edit").code == 2
    assert holdfast("inbox", "retry", *map(str, failed[2:]), "--payload", "{}").code == 2
    assert len(holdfast("inbox", "ls", "--items", "--json").json) == 2


def test_entries_are_resolved_with_a_note_and_discarded(holdfast: Keyboard, stage: Stage, failed: list[UUID]) -> None:
    assert holdfast("inbox", "resolve", str(failed[0])).code == 2
    assert holdfast("inbox", "resolve", str(failed[0]), "--note", "sent by hand").out == f"{failed[0]} is resolved.\n"
    assert holdfast("inbox", "discard", str(failed[1]), "--json").json == {
        "id": str(failed[1]),
        "resolution": "discarded",
    }
    resolved, discarded = (stage(entry(one)) for one in failed[:2])
    assert (resolved.resolution, resolved.resolved_by, resolved.note) == ("resolved", "ada", "sent by hand")
    assert (discarded.resolution, discarded.note) == ("discarded", None)
    assert "resolved by ada" in holdfast("inbox", "ls", "--all").out
    assert holdfast("inbox", "discard", str(failed[0])).code == 4


def test_a_whole_group_is_handled_after_a_question(holdfast: Keyboard, failed: list[UUID]) -> None:
    alike = ("inbox", "retry", "--signature", str(failed[0]))
    dry = holdfast(*alike, "--dry-run")
    assert (dry.code, len(dry.lines), dry.out.count("would be retried")) == (0, 4, 3)
    silent = holdfast(*alike)
    assert (silent.code, "Retry 3 entries?" in silent.err, "--yes" in silent.err) == (2, True, True)
    assert holdfast(*alike, stdin="n\n").code == 130
    assert len(holdfast("inbox", "ls", "--items").lines) == 5
    done = holdfast(*alike, stdin="y\n")
    assert (done.code, len(done.lines)) == (0, 4)
    assert {line.split()[0] for line in done.lines[1:]} == {str(one) for one in failed[:3]}
    none = holdfast(*alike, "--yes")
    assert (none.code, none.out, none.err) == (0, "", "No open entry fits.\n")


def test_what_is_refused_does_not_stop_the_others(
    holdfast: Keyboard, stage: Stage, failed: list[UUID], database: Database
) -> None:
    stage(lambda store: store.inbox.resolve(failed[0], "bob"))
    partly = holdfast("inbox", "discard", *map(str, failed), "--yes", "--json")
    assert (partly.code, len(partly.json["handled"])) == (6, 3)
    assert [one["code"] for one in partly.json["refused"]] == ["move-refused"]
    refused = holdfast("inbox", "discard", *map(str, failed), "--yes")
    assert (refused.code, refused.out, refused.err.count("stays: ")) == (4, "", 4)


def test_a_group_is_chosen_by_age_too(holdfast: Keyboard, failed: list[UUID], clock: Clock) -> None:
    clock.advance(hours=1)
    done = holdfast("inbox", "discard", "--older-than", "3602s", "--yes", "--json").json
    assert [one["id"] for one in done["handled"]] == [str(failed[0]), str(failed[1])]


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_nothing_is_handled_that_nobody_named(holdfast: Keyboard, failed: list[UUID], verb: str) -> None:
    assert holdfast("inbox", verb, "--yes").code == 2
    assert holdfast("inbox", verb, str(failed[0]), "--name", "mail").code == 2
    assert len(holdfast("inbox", "ls", "--items").lines) == 5


def test_why_leads_to_the_inbox_and_on_from_there(holdfast: Keyboard, stage: Stage, failed: list[UUID]) -> None:
    task = str(stage(entry(failed[0])).task_id)
    assert f"waits in the inbox as {failed[0]}" in holdfast("why", task).out
    command = holdfast("why", task).out.split("holdfast ")[1].split()
    new = holdfast(*command).out.strip()
    assert f"It was retried as {new}" in holdfast("why", task).out
    assert "holdfast inbox retry" in holdfast("show", str(stage(entry(failed[1])).task_id)).out
    stage(lambda store: store.inbox.resolve(failed[2], "ada"))
    assert "holdfast retry" in holdfast("why", str(stage(entry(failed[2])).task_id)).out
