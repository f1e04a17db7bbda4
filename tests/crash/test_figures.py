"""Recovery is measured from the death of a worker to the next claim, and only where the database was up."""

import pytest

from tests.crash.figures import figures
from tests.crash.test_checker import HistoryBuilder


def make_history(*, killed: str, lost: float, again: float) -> HistoryBuilder:
    """A task that was claimed at 1, whose worker was killed at 2, and that somebody else has claimed again."""
    history = HistoryBuilder()
    history.task("a", ("submit", 0), ("claim", 1), ("lost", lost), ("claim", again), ("done", again + 1))
    history.run(1.1, "a", 1, "start", who="handler-7-1")
    history.run(again + 0.1, "a", 3, "start", "end", attempt=2, who="handler-8-1")
    history.say(2, "nemesis-1-1", "fault", killed, began=2.0, ended=2.0, pids=[7, 6])
    return history


@pytest.mark.parametrize("killed", ["worker killed", "runner killed"])
def test_recovery_ends_with_the_next_claim(killed: str) -> None:
    found = figures(make_history(killed=killed, lost=3.5, again=4.0).world)
    measured = found.worker_killed if killed == "worker killed" else found.runner_killed
    assert (measured.deaths, measured.tasks) == (1, 1)
    assert measured.p99 == pytest.approx(2.01)
    assert found.reaped == 1
    assert found.executions == 2


@pytest.mark.parametrize(("began", "ended", "counts"), [(2.5, 2.6, 0), (0.5, 0.6, 1), (0.5, 1.5, 0), (4.1, 4.2, 1)])
def test_an_outage_in_between_is_not_held_against_recovery(began: float, ended: float, counts: int) -> None:
    history = make_history(killed="worker killed", lost=3.5, again=4.0)
    history.say(3, "nemesis-1-1", "fault", "fast restart", began=began, ended=ended)
    assert figures(history.world).worker_killed.tasks == counts


def test_what_was_settled_before_the_kill_needs_no_recovery() -> None:
    history = HistoryBuilder()
    history.task("a", ("submit", 0), ("claim", 1), ("done", 1.5))
    history.run(1.1, "a", 1, "start", "end", who="handler-7-1")
    history.say(2, "nemesis-1-1", "fault", "worker killed", began=2.0, ended=2.0, pids=[7])
    assert figures(history.world).worker_killed.tasks == 0
