"""Never submitted twice: what was begun is found again, what nobody can know waits for a person."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast.errors import Fatal, MoveRefused, RateLimited, RequestInvalid, SchemaInvalid, Transient
from tests.lifecycles.batch.conftest import TWO, Office
from tests.lifecycles.batch.crashes import Watched, crash, watch_reports

LOST = Transient("The answer was lost.")
Open = Callable[..., Office]


def count_calls(office: Office, call: str) -> int:
    return sum(one == call for one, _ in office.bureau.asked)


def test_a_lost_answer_is_one_job_which_is_found_and_adopted(office: Office) -> None:
    office.bureau.after["submit"] = [LOST]
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger), count_calls(office, "find")) == ("COMPLETED", 1, 1)


def test_a_job_that_a_listing_shows_late_is_not_begun_again(office: Office) -> None:
    office.bureau.after["submit"] = [LOST]
    began = office.engine.clock.now()
    office.bureau.shows = lambda _: office.engine.clock.now() - began > timedelta(seconds=50)
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger), count_calls(office, "find")) == ("COMPLETED", 1, 2)


def test_what_the_provider_never_got_is_submitted_again_once_it_would_be_listed(office: Office) -> None:
    office.bureau.before["submit"] = [LOST]
    handle = office.start()
    office.engine.drain(moving=False)
    assert count_calls(office, "submit") == 1
    ran = office.engine.run(handle)
    assert (ran.state, len(office.bureau.ledger), count_calls(office, "submit")) == ("COMPLETED", 1, 2)


def test_after_three_tries_that_never_arrived_the_job_has_failed_and_nothing_runs(office: Office) -> None:
    office.bureau.before["submit"] = [LOST] * 3
    ran = office.run()
    assert (ran.state, office.bureau.ledger, office.jobs(ran.handle.id)) == ("FAILED", [], ["FAILED"])
    assert office.batch(ran.handle.id).stopped_by is None


def test_where_the_same_token_is_the_same_job_it_is_just_submitted_again(open_office: Open) -> None:
    office = open_office(repeats_submit=True)
    office.bureau.after["submit"] = [LOST, None]
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger), count_calls(office, "find")) == ("COMPLETED", 1, 0)


def test_a_provider_that_cannot_tell_leaves_the_job_to_a_person(open_office: Open) -> None:
    office = open_office(can_tell=False)
    office.bureau.after["submit"] = [LOST]
    handle = office.start()
    office.engine.call(until_parked(office, handle.id))
    assert (len(office.bureau.ledger), count_calls(office, "submit")) == (1, 1)
    (entry,) = office.engine.call(office.store.inbox.newest())
    assert entry["task_id"] == handle.id
    assert f"holdfast batch resolve {handle.id} 1" in entry["error"]["message"]
    office.engine.call(office.batches.resolve(handle.id, 1, "adopt", office.bureau.ledger[0].id, by="ada"))
    assert office.engine.call(office.store.inbox.newest()) == []
    ran = office.engine.run(handle)
    assert (ran.state, len(office.bureau.ledger)) == ("COMPLETED", 1)


async def until_parked(office: Office, task: object) -> None:
    for _ in range(10):
        await office.engine._work(None, moving=False)
        (batch,) = await office.batches.read([task])  # type: ignore[list-item]
        if batch.jobs and batch.jobs[0].status == "PARKED":
            return
        office.engine.clock.advance(seconds=30)
    raise AssertionError(f"It is not parked: {batch.jobs}")


@pytest.mark.parametrize(("action", "begun", "state"), [("resubmit", 2, "COMPLETED"), ("give_up", 1, "FAILED")])
def test_a_person_says_what_becomes_of_a_job_in_doubt(open_office: Open, action: str, begun: int, state: str) -> None:
    office = open_office(can_tell=False)
    office.bureau.after["submit"] = [LOST]
    handle = office.start()
    office.engine.call(until_parked(office, handle.id))
    office.engine.call(office.batches.resolve(handle.id, 1, action, by="ada"))
    ran = office.engine.run(handle)
    assert (ran.state, len(office.bureau.ledger)) == (state, begun)


def test_only_what_waits_for_a_person_is_resolved(office: Office) -> None:
    handle = office.start()
    office.engine.drain(moving=False)
    with pytest.raises(MoveRefused, match="waits for no decision"):
        office.engine.call(office.batches.resolve(handle.id, 1, "give_up", by="ada"))
    with pytest.raises(RequestInvalid, match="no job 7"):
        office.engine.call(office.batches.resolve(handle.id, 7, "give_up", by="ada"))


def test_asked_to_slow_down_it_waits_and_was_certainly_not_begun(office: Office) -> None:
    office.bureau.before["submit"] = [RateLimited("Slow down.", retry_after=7)]
    handle = office.start()
    began = office.engine.clock.now()
    office.engine.drain(moving=False)
    (job,) = office.batch(handle.id).jobs
    assert (job.status, job.may_be_running, office.batch(handle.id).status) == ("PLANNED", False, "PENDING")
    assert office.engine.call(office.store.explain(handle.id)).until == began + timedelta(seconds=7)
    ran = office.engine.run(handle)
    assert (ran.state, count_calls(office, "submit"), count_calls(office, "find")) == ("COMPLETED", 2, 0)


@pytest.mark.parametrize("error", [SchemaInvalid("No such language."), Fatal("No money.")])
def test_a_refusal_fails_the_job_at_once_and_the_others_go_on(office: Office, error: Exception) -> None:
    office.bureau.before["submit"] = [error]
    ran = office.run([*TWO, "https://example.org/c.wav"])
    assert (ran.state, office.jobs(ran.handle.id)) == ("PARTIAL_COMPLETE", ["FAILED", "COMPLETED"])


def test_an_exception_that_nobody_foresaw_may_have_begun_the_job(office: Office) -> None:
    office.bureau.after["submit"] = [ValueError("what is this?")]
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger)) == ("COMPLETED", 1)


def test_a_batch_is_in_progress_from_the_first_job_that_was_taken(office: Office) -> None:
    office.bureau.before["submit"] = [None, RateLimited("Slow down.", retry_after=3600)]
    handle = office.start([*TWO, "https://example.org/c.wav"])
    office.engine.drain(moving=False)
    assert (office.batch(handle.id).status, office.jobs(handle.id)) == ("IN_PROGRESS", ["SUBMITTED", "PLANNED"])


class Nth:
    """Crashes at the nth point, once."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.passed: list[str] = []

    def __call__(self, where: str) -> None:
        self.passed.append(where)
        if len(self.passed) == self.n:
            crash()


@pytest.mark.deep
@pytest.mark.parametrize("repeats_submit", [False, True])
def test_a_crash_at_any_line_begins_no_job_twice(
    open_office: Open, monkeypatch: pytest.MonkeyPatch, repeats_submit: bool
) -> None:
    office = open_office(repeats_submit=repeats_submit, polls=1)
    here: list[Nth] = []
    watched = Watched(office.bureau, lambda where: here[-1](where))
    office.transcribe.provider = watched
    watch_reports(monkeypatch, lambda where: here[-1](where))
    met: set[str] = set()
    for n in range(1, 60):
        here.append(Nth(n))
        ran = office.run(TWO, models=["m"])
        assert ran.state == "COMPLETED", (n, here[-1].passed, ran.error)
        assert set(office.bureau.begun_per_token.values()) == {1}, (n, here[-1].passed)
        assert len(office.bureau.ledger) == n
        if len(here[-1].passed) < n:
            break
        met.add(here[-1].passed[n - 1])
    assert {"after intend", "before submit", "after submit", "before accept", "after accept", "after plan"} <= met
    assert {"after poll", "before end", "after end", "after fetch", "after finish", "after merged"} <= met


def test_a_create_that_took_long_is_looked_for_as_long_after_it_as_a_listing_may_lag(office: Office) -> None:
    clock = office.engine.clock
    office.bureau.before["submit"] = [lambda: clock.advance(seconds=100)]
    office.bureau.after["submit"] = [LOST]
    listed_at = clock.now() + timedelta(seconds=100 + 50)
    office.bureau.shows = lambda _: clock.now() > listed_at
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger)) == ("COMPLETED", 1)


@pytest.mark.parametrize("refusal", [Fatal("No."), SchemaInvalid("No."), RateLimited("Slow down.", retry_after=5)])
def test_a_refused_repeat_says_nothing_of_what_was_begun_before(open_office: Open, refusal: Exception) -> None:
    office = open_office(repeats_submit=True)
    office.bureau.after["submit"] = [LOST]
    office.bureau.before["submit"] = [None, refusal]
    ran = office.run()
    assert (ran.state, len(office.bureau.ledger), office.bureau.running) == ("COMPLETED", 1, [])


def test_a_job_in_doubt_of_another_account_waits_for_a_person(office: Office) -> None:
    office.bureau.after["submit"] = [LOST]
    handle = office.start()
    office.engine.drain(moving=False)
    office.bureau.account = "other"
    office.engine.clock.advance(seconds=15)
    office.engine.drain(moving=False)
    assert (office.jobs(handle.id), len(office.bureau.ledger)) == (["PARKED"], 1)


def test_who_is_refused_for_a_day_gives_up_and_nothing_runs(office: Office) -> None:
    office.bureau.before["submit"] = [RateLimited("Slow down.", retry_after=3600)] * 100
    ran = office.run()
    assert (ran.state, office.bureau.ledger) == ("FAILED", [])
    assert 24 <= len(office.bureau.asked) <= 27


def test_a_server_that_says_at_once_is_not_asked_without_pause(office: Office) -> None:
    office.bureau.before["submit"] = [RateLimited("Slow down.", retry_after=0)] * 5
    began = office.engine.clock.now()
    ran = office.run()
    assert ran.state == "COMPLETED"
    assert ran.events[-1].at - began > timedelta(seconds=5)
