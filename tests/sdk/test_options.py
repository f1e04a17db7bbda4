"""What `opts` asks for arrives."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import KeyConflict, QueueUnknown, RequestInvalid
from holdfast.testing import Engine

hf = Holdfast()


@hf.task(queue="mail", priority=3)
def send(n: int) -> int:
    return n


@hf.task(retries=0)
def broken(n: int) -> int:
    raise RuntimeError


def test_the_same_key_gives_the_same_task(holdfast: Engine) -> None:
    first = send.opts(key="inv-42").start(42)
    assert send.opts(key="inv-42").start(42) == first
    with pytest.raises(KeyConflict):
        send.opts(key="inv-42").start(43)
    assert holdfast.run(first).result == 42
    assert send.opts(key="inv-42").start(42).result(timeout=0) == 42


def test_a_delay_can_be_written_in_many_ways(holdfast: Engine) -> None:
    ways: list[Any] = ["5m", timedelta(minutes=5), 300, 300.0, "300"]
    for delay in ways:
        due = send.opts(delay=delay).start(1).read()["due_at"]
        assert datetime.fromisoformat(due) - holdfast.clock.now() == timedelta(minutes=5)


def test_options_arrive(holdfast: Engine) -> None:
    at = datetime(2031, 1, 1, tzinfo=UTC)
    first = send.start(0)
    task = send.opts(
        run_at=at, priority=9, tags=["a", "b"], after=[first, first.id], owner="ada", limit_key="k", limit_to=2
    )  # fmt: skip
    read = task.start(1).read()
    found = {name: read[name] for name in ("priority", "tags", "owner", "limit_key", "queue", "state")}
    assert found == {
        "priority": 9, "tags": ["a", "b"], "owner": "ada", "limit_key": "k", "queue": "mail", "state": "Blocked",
    }  # fmt: skip
    assert datetime.fromisoformat(read["due_at"]) == at
    assert send.start(1).read()["priority"] == 3
    assert holdfast.run(task, 2).result == 2


def test_what_follows_a_failure_is_as_asked(holdfast: Engine) -> None:
    policies: list[tuple[Any, str]] = [("cancel", "Canceled"), ("skip", "Canceled"), ("ignore", "Completed")]
    for policy, state in policies:
        assert holdfast.run(send.opts(after=[broken.start(1)], on_failure=policy), 1).state == state


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"delay": "soon"}, "is not a duration"),
    ({"delay": -1}, "is not a duration"),
    ({"run_at": datetime(2031, 1, 1)}, "names no time zone"),
    ({"priority": 10}, "not among 0 to 9"),
    ({"priority": "high"}, "is not a whole number"),
    ({"tags": "urgent"}, "is not a list"),
    ({"tags": [7]}, "string of 1 to 100"),
    ({"after": "abc"}, "is not a list"),
    ({"after": ["abc"]}, "is not the id of a task"),
    ({"key": ""}, "1 to 200 characters"),
    ({"limit_to": 2}, "without a limit_key"),
    ({"time_limit": 0}, "time limit is more than nothing"),
]


def test_what_cannot_be_meant_is_refused_with_the_remedy(holdfast: Engine) -> None:
    for options, message in REFUSED:
        with pytest.raises(RequestInvalid, match=message):
            send.opts(**options).start(1)
    assert holdfast.call(holdfast.store.list_tasks()).items == []


def test_queues_of_tasks_are_made_and_others_are_not(holdfast: Engine) -> None:
    assert send.start(1).read()["queue"] == "mail"
    with pytest.raises(QueueUnknown, match="'nowhere' does not exist"):
        send.opts(queue="nowhere").start(1)


def test_many_are_made_in_one_statement_or_none(holdfast: Engine) -> None:
    handles = hf.submit(send.submission(n) for n in range(100))
    assert len({handle.id for handle in handles}) == 100
    with pytest.raises(RequestInvalid):
        hf.submit([send.submission(1), send.opts(priority=11).submission(2)])
    assert holdfast.call(holdfast.store.list_tasks()).approx_count == 100
