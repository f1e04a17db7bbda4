"""`holdfast bulk`: many tasks cancelled or retried from a keyboard or a script, never by accident."""

import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Clock
from tests.cli.conftest import Keyboard, Stage
from tests.promises.test_bulk import fail_all, let_pass, make


@pytest.fixture(autouse=True)
def tasks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three failures and two tasks that wait."""
    monkeypatch.setenv("LOGNAME", "ada")

    async def play(store: Store) -> None:
        await make(store, 3)
        await fail_all(store)
        await make(store, 2, tags=["slow"])

    stage(play)


def test_nothing_is_done_without_a_filter_or_a_yes(holdfast: Keyboard, stage: Stage) -> None:
    unsaid = holdfast("bulk", "cancel", "--yes")
    assert (unsaid.code, "--all" in unsaid.err) == (2, True)
    unasked = holdfast("bulk", "cancel", "--name", "work")
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    piped = holdfast("bulk", "cancel", "--name", "work", stdin="y\n")
    assert (piped.code, "--yes" in piped.err) == (2, True)
    assert stage(lambda store: store.list_tasks(live=True)).approx_count == 2


def test_a_dry_run_tells_what_would_happen(holdfast: Keyboard, stage: Stage) -> None:
    answered = holdfast("bulk", "retry", "--all", "--dry-run")
    assert (answered.code, answered.out) == (0, "")
    assert answered.err.splitlines() == ["      3  dispatch  Dead", "3 would be retried."]
    answer = holdfast("bulk", "retry", "--all", "--dry-run", "--json").json
    assert (answer["number"], answer["groups"], answer["done"]) == (
        3, [{"lifecycle": "dispatch", "state": "Dead", "number": 3}], 0,
    )  # fmt: skip
    assert stage(lambda store: store.list_tasks(live=True)).approx_count == 2


def test_what_fits_is_done_and_reported(holdfast: Keyboard, stage: Stage) -> None:
    done = holdfast("bulk", "cancel", "--tag", "slow", "--reason", "mend first", "--yes")
    assert (done.code, done.out) == (0, "2 cancelled.\n")
    answer = holdfast("bulk", "retry", "--outcome", "failed", "--yes", "--json").json
    assert (answer["done"], answer["refused"]) == (3, [])
    again = holdfast("bulk", "retry", "--outcome", "failed", "--yes")
    assert (again.code, again.out, "No task fits" in again.err) == (0, "", True)
    (cancelled, _) = stage(lambda store: store.list_tasks(outcome="cancelled")).items
    assert stage(lambda store: store.events(cancelled["id"]))[-1].data["by"] == "ada"


def test_some_that_are_refused_are_listed_and_the_exit_code_says_so(
    holdfast: Keyboard, stage: Stage, clock: Clock
) -> None:
    stage(lambda store: let_pass(store, clock))
    done = holdfast("bulk", "cancel", "--name", "work", "--yes")
    assert (done.code, done.out, "time limit had passed" in done.err) == (6, "2 cancelled.\n", True)
    wrong = holdfast("bulk", "retry", "--outcome", "done", "--yes")
    assert (wrong.code, "failed or was cancelled" in wrong.err) == (2, True)
