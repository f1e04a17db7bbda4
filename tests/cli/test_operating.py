"""`holdfast workers`, `queues` and `keys`: who works, what waits, who may call."""

import re

import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Clock
from tests.cli.conftest import Keyboard, Stage
from tests.promises.stage import submit, take


async def at_work(store: Store) -> None:
    """A worker with two of three slots taken, and a task that waits."""
    await store.hello("w1", label="laptop", queues=["default", "batch"], names=["send"], slots=3)
    for _ in range(3):
        await submit(store, "send")
    await take(store, n=2, worker="w1")


def test_without_workers_it_says_how_to_start_one(holdfast: Keyboard) -> None:
    none = holdfast("workers")
    assert (none.code, none.out, none.err) == (0, "", "No workers. Start one: holdfast worker --app MODULE:NAME\n")
    assert holdfast("workers", "--json").json == []


def test_workers_are_listed_with_what_they_hold(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    stage(at_work)
    assert [re.split("  +", line) for line in holdfast("workers").lines[1:]] == [
        ["w1", "laptop", "default, batch", "2/3", "2 send", "now", "live"]
    ]
    (worker,) = holdfast("workers", "--json").json
    assert "Worker laptop works on it" in holdfast("why", worker["held"][0]["task_id"]).out
    assert (worker["id"], worker["live"], worker["slots"], worker["names"]) == ("w1", True, 3, ["send"])
    assert [(one["name"], one["attempt"]) for one in worker["held"]] == [("send", 1), ("send", 1)]
    clock.advance(minutes=5)
    assert holdfast("workers").lines[1].endswith("5 min ago  gone")


def test_queues_show_what_is_ready_what_is_held_and_who_paused_them(
    holdfast: Keyboard, stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    stage(at_work)
    clock.advance(seconds=90)
    assert holdfast("queues", "pause", "default").out == "default is paused.\n"
    clock.advance(seconds=5)
    line = next(line for line in holdfast("queues").lines if line.startswith("default"))
    assert line.split() == ["default", "1", "2", "1", "min", "5", "s", "ago", "by", "ada"]
    queue = next(one for one in holdfast("queues", "--json").json if one["name"] == "default")
    assert (queue["ready"], queue["leased"], queue["paused_by"]) == (1, 2, "ada")
    assert holdfast("queues", "ls").out == holdfast("queues").out
    assert holdfast("queues", "resume", "default", "--json").json["paused_at"] is None


def test_a_queue_is_made_once(holdfast: Keyboard) -> None:
    for state in ("is made", "is there already"):
        assert holdfast("queues", "make", "mail").out == f"mail {state}.\n"
    assert [one["name"] for one in holdfast("queues", "--json").json].count("mail") == 1


@pytest.mark.parametrize("arguments", [("pause", "nope"), ("resume", "nope"), ("make", "no pe")])
def test_a_queue_that_cannot_be_is_refused(holdfast: Keyboard, arguments: tuple[str, ...]) -> None:
    refused = holdfast("queues", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert "Traceback" not in refused.err


def test_a_key_is_printed_once_and_alone(holdfast: Keyboard) -> None:
    made = holdfast("keys", "create", "ci", "--role", "worker", "--owner", "team")
    assert made.out.startswith("hf_")
    assert "not shown again" in made.err
    assert "Authorization: Bearer" in made.err
    (kept,) = holdfast("keys", "ls", "--json").json
    assert (kept["name"], kept["roles"], kept["owner"], kept["revoked_at"]) == ("ci", ["worker"], "team", None)
    assert made.out.strip() not in holdfast("keys", "ls", "--json").out
    answered = holdfast("keys", "create", "other", "--json").json
    assert (answered["roles"], answered["key"][:3], list(answered)) == (["user"], "hf_", ["id", "name", "roles", "key"])


def test_without_keys_it_says_how_to_make_one(holdfast: Keyboard) -> None:
    assert "holdfast keys create" in holdfast("keys", "ls").err
    assert holdfast("keys", "ls", "--json").json == []


def test_a_key_is_revoked_by_name_or_by_the_beginning_of_its_id(holdfast: Keyboard, clock: Clock) -> None:
    for name in ("ci", "ci", "laptop"):
        holdfast("keys", "create", name)
        clock.advance(minutes=10)
    both = holdfast("keys", "revoke", "ci")
    assert (both.code, "begins more than one id" in both.err) == (2, True)
    first = holdfast("keys", "ls").lines[1].split()[0]
    assert "ci (" in holdfast("keys", "revoke", first).out
    assert holdfast("keys", "revoke", "laptop", "--json").json["revoked_at"] == "2030-01-01T00:30:00Z"
    assert holdfast("keys", "revoke", "nope").code == 3
    assert holdfast("keys", "create", "x", "--role", "king").code == 2
