"""`holdfast cron`: what the clock starts, seen and steered from a keyboard or a script."""

from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick
from holdfast.testing import Clock
from tests.cli.conftest import Keyboard, Stage
from tests.promises.test_schedules import declare, made


@pytest.fixture(autouse=True)
def nightly(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    stage(lambda store: declare(Schedules.over(store), timezone="Europe/Berlin", at="at"))


def test_they_are_listed_with_their_next_time(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    stage(lambda store: declare(Schedules.over(store), "broken", "0 1 * * *", target={"queue": "gone"}))
    heads, broken, nightly = holdfast("cron").lines
    assert heads.split() == ["name", "cron", "starts", "next", "last", "note"]
    assert nightly.split("  ")[:3] == ["nightly", "0 2 * * * Europe/Berlin", "work"]
    assert "in 1 h" in nightly
    clock.advance(hours=3)
    stage(lambda store: tick(Schedules.over(store)))
    _, broken, nightly = holdfast("cron", "ls").lines
    assert "refused: Queue 'gone' does not exist." in broken
    assert ("2 h ago" in nightly, "no live application declares it" in nightly) == (True, True)
    assert [one["name"] for one in holdfast("cron", "ls", "--json").json] == ["broken", "nightly"]


def test_show_prints_what_comes_and_what_was(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    clock.advance(hours=1)
    stage(lambda store: tick(Schedules.over(store)))
    answered = holdfast("cron", "show", "nightly").out
    for part in ("0 2 * * *  Europe/Berlin", "2030-01-02T01:00:00.000Z, in 1 d", '{"n": 1}', "due"):
        assert part in answered
    answer = holdfast("cron", "show", "nightly", "--json").json
    assert (answer["upcoming"][0], answer["runs"][0]["kind"]) == ("2030-01-02T01:00:00Z", "due")
    missing = holdfast("cron", "show", "nigthly")
    assert (missing.code, "cron ls" in missing.err) == (3, True)


def test_one_is_run_paused_resumed_and_forgotten(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    task = UUID(holdfast("cron", "run", "nightly").out.strip())
    assert [one["id"] for one in stage(made)] == [str(task)]
    assert holdfast("cron", "pause", "nightly").out == "nightly is paused.\n"
    assert "paused now by ada" in holdfast("cron", "ls").out
    clock.advance(days=2)
    assert holdfast("cron", "resume", "nightly").out == "nightly goes on: next 2030-01-03T01:00:00.000Z, in 1 h.\n"
    gone = holdfast("cron", "rm", "nightly")
    assert (gone.code, gone.out) == (0, "nightly is forgotten.\n")
    assert (holdfast("cron", "rm", "nightly").code, holdfast("cron").out) == (3, "")


def test_a_backfill_is_tried_asked_for_and_done_once(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    clock.advance(days=3)
    arguments = ("cron", "backfill", "nightly", "--from", "2030-01-01", "--to", "2030-01-02T12:00")
    dry = holdfast(*arguments, "--dry-run")
    assert (dry.err, len(dry.lines)) == ("2 would be started.\n", 3)
    unasked = holdfast(*arguments)
    assert (unasked.code, "--yes" in unasked.err) == (2, True)

    async def none(store: Store) -> bool:
        return await made(store) == []

    assert stage(none)
    done = holdfast(*arguments, "--yes", "--json").json
    assert [one["due_at"] for one in done["items"]] == ["2030-01-01T01:00:00Z", "2030-01-02T01:00:00Z"]
    assert "has its run" in holdfast(*arguments, "--yes").err
    assert holdfast("cron", "backfill", "nightly", "--from", "yesterday").code == 2
