"""Nothing left running: a cancel, a limit and a failure reach the provider, or a person hears of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import Fatal, Transient
from tests.lifecycles.batch.conftest import TWO, Office
from tests.lifecycles.batch.crashes import crash

HOUR = timedelta(hours=1)
Open = Callable[..., Office]
FOUR = [*TWO, "https://example.org/c.wav", "https://example.org/d.wav"]


def begun(office: Office, urls: list[str] | None = None) -> Any:
    handle = office.start(urls)
    office.engine.drain(moving=False)
    return handle


def stop_of(office: Office, handle: Any) -> str:
    return str(office.engine.call(office.store.read(office.batch(handle.id).stopped_by))["state"])


@pytest.mark.over_http
def test_a_cancelled_batch_leaves_nothing_running(office: Office) -> None:
    handle = begun(office, FOUR)
    assert office.engine.call(office.store.cancel(handle.id)) == "cancelled"
    office.engine.drain()
    assert office.bureau.running == []
    assert (stop_of(office, handle), office.jobs(handle.id)) == ("STOPPED", ["CANCELLED", "CANCELLED"])
    assert office.engine.call(office.store.inbox.newest()) == []


def test_what_cannot_be_stopped_is_reported_to_a_person(open_office: Open) -> None:
    office = open_office(can_cancel=False, polls=100)
    handle = begun(office)
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    assert stop_of(office, handle) == "LEFT_RUNNING"
    (entry,) = office.engine.call(office.store.inbox.newest())
    assert "BUREAU cannot stop it" in entry["error"]["message"]
    assert "B1" in entry["error"]["message"]
    (job,) = office.batch(handle.id).jobs
    assert (job.may_be_running, job.error) == (True, "BUREAU cannot stop it.")


def test_what_ended_before_it_could_be_stopped_is_no_matter_for_a_person(open_office: Open) -> None:
    office = open_office(can_cancel=False, polls=1)
    handle = begun(office)
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    assert (stop_of(office, handle), office.engine.call(office.store.inbox.newest())) == ("STOPPED", [])


@pytest.mark.parametrize("troubles", [0, 2])
def test_what_a_cancelled_batch_has_cost_is_counted_once(open_office: Open, troubles: int) -> None:
    office = open_office(can_cancel=False, polls=1)
    handle = begun(office, FOUR)
    office.bureau.before["fetch"] = [Transient("down")] * troubles
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    batch = office.batch(handle.id)
    assert (stop_of(office, handle), batch.status, batch.cost_cents) == ("STOPPED", "CANCELLED", 2)
    assert [job.cost_cents for job in batch.jobs] == [1, 1]
    (total,) = office.engine.call(office.store.costs.totals(by="total"))
    assert total.cost_cents == 2


def test_a_cost_that_nobody_tells_keeps_nothing_from_being_stopped(open_office: Open) -> None:
    office = open_office(can_cancel=False, polls=1)
    handle = begun(office)
    office.bureau.before["fetch"] = [Transient("down")] * 10
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    assert (stop_of(office, handle), office.bureau.running) == ("STOPPED", [])
    stop = office.engine.call(office.store.read(office.batch(handle.id).stopped_by))
    assert stop["result"]["cost_unknown"] == ["Job 1: down"]


def test_a_job_in_doubt_is_looked_for_and_stopped_too(office: Office) -> None:
    office.bureau.after["submit"] = [Transient("lost")]
    handle = begun(office)
    assert office.jobs(handle.id) == ["INTENDED"]
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    assert (len(office.bureau.ledger), office.bureau.running, stop_of(office, handle)) == (1, [], "STOPPED")


def test_a_stop_that_stumbles_is_tried_again(office: Office) -> None:
    handle = begun(office)
    office.bureau.before["cancel"] = [Transient("down")] * 3
    office.engine.call(office.store.cancel(handle.id))
    office.engine.drain()
    assert (office.bureau.running, stop_of(office, handle)) == ([], "STOPPED")


def test_what_was_never_sent_needs_nobody_to_stop_it(office: Office) -> None:
    handle = office.start()
    assert office.engine.call(office.store.cancel(handle.id)) == "cancelled"
    office.engine.drain()
    assert (office.bureau.ledger, office.batch(handle.id).stopped_by) == ([], None)


def test_at_the_limit_what_runs_is_stopped_and_what_succeeded_is_kept(open_office: Open) -> None:
    office = open_office(inputs_per_job=1, polls=1, poll_every=HOUR)
    handle = begun(office, TWO)
    office.engine.clock.advance(seconds=4000)
    second = office.bureau.ledger[1]
    polls, office.bureau.polls = office.bureau.polls, 10_000
    office.bureau.ledger[0].polls = 10_000
    office.engine.drain(moving=False)
    office.bureau.polls = 10_000_000
    ran = office.engine.run(handle)
    assert polls == 1
    assert (ran.state, office.jobs(handle.id)) == ("PARTIAL_COMPLETE", ["COMPLETED", "CANCELLED"])
    assert (second.cancelled, office.bureau.running) == (True, [])
    assert (ran.events[-1].at - ran.events[0].at).total_seconds() < 26.2 * 3600


def test_at_the_limit_with_nothing_done_it_has_failed(open_office: Open) -> None:
    office = open_office(polls=10_000_000, poll_every=HOUR)
    ran = office.run()
    assert (ran.state, office.bureau.running) == ("FAILED", [])
    assert ran.events[-1].at > ran.events[0].at


def test_at_the_limit_what_cannot_be_stopped_is_given_up_and_reported(open_office: Open) -> None:
    office = open_office(polls=10_000_000, poll_every=HOUR, can_cancel=False)
    ran = office.run()
    office.engine.drain()
    assert (ran.state, stop_of(office, ran.handle)) == ("FAILED", "LEFT_RUNNING")


def test_a_provider_may_take_longer_than_a_day(open_office: Open) -> None:
    office = open_office(limit=timedelta(hours=96), polls=4, poll_every=timedelta(hours=20))
    assert office.run().state == "COMPLETED"


@pytest.mark.parametrize("crashes", [10])
def test_a_batch_that_kills_its_workers_fails_and_what_it_began_is_stopped(office: Office, crashes: int) -> None:
    office.bureau.before["poll"] = [crash] * crashes
    ran = office.run()
    assert ran.state == "FAILED"
    office.engine.drain()
    assert office.bureau.running == []


def test_one_job_that_cannot_be_asked_about_does_not_keep_the_others_running(open_office: Open) -> None:
    office = open_office(inputs_per_job=1, polls=100)
    handle = begun(office, TWO)
    office.engine.call(office.store.cancel(handle.id))
    office.bureau.before["cancel"] = [Transient("down")]
    office.engine.drain(moving=False)
    assert office.bureau.ledger[1].cancelled
    office.engine.drain()
    assert (office.bureau.running, stop_of(office, handle)) == ([], "STOPPED")


def test_a_stop_that_gave_up_can_be_retried(office: Office) -> None:
    handle = begun(office)
    office.engine.call(office.store.cancel(handle.id))
    office.bureau.before["cancel"] = [Fatal("This key is refused.")] * 20
    office.engine.drain()
    assert stop_of(office, handle) == "LEFT_RUNNING"
    (job,) = office.batch(handle.id).jobs
    assert job.may_be_running
    first = office.batch(handle.id).stopped_by
    office.engine.call(office.store.retry(first))
    office.engine.drain()
    assert (office.bureau.running, stop_of(office, handle)) == ([], "STOPPED")


def test_a_cancelled_stop_is_reported_to_a_person(office: Office) -> None:
    handle = begun(office)
    office.engine.call(office.store.cancel(handle.id))
    office.engine.call(office.store.cancel(office.batch(handle.id).stopped_by))
    (entry,) = office.engine.call(office.store.inbox.newest())
    assert "job 1 (B1)" in entry["error"]["message"]


def test_a_stop_that_nobody_but_a_user_made_stops_nothing(office: Office) -> None:
    handle = begun(office)
    stop = office.hf.tasks["stop.bureau"]
    ran = office.engine.run(stop.opts(owner="mallory"), batch=str(handle.id))
    assert ran.outcome == "failed"
    assert not office.bureau.ledger[0].cancelled


@pytest.mark.deep
def test_at_the_limit_results_that_cannot_be_fetched_are_given_up(open_office: Open) -> None:
    office = open_office(polls=1)
    office.bureau.before["fetch"] = [Transient("down")] * 10_000
    ran = office.run()
    assert ran.state == "FAILED"
    assert (ran.events[-1].at - ran.events[0].at).total_seconds() < 28 * 3600


def test_a_text_that_cannot_be_kept_does_not_fail_what_is_done(office: Office) -> None:
    office.bureau.bad = {"a.wav": "Bad \0 bytes \ud800."}
    office.bureau.before["poll"] = [Transient("odd \0 answer")]
    ran = office.run()
    assert ran.state == "PARTIAL_COMPLETE"
    assert office.read(office.batch(ran.handle.id).manifest.uri)["items"][0]["reason"].startswith("Bad")


def test_a_decision_of_an_operator_counts_while_a_worker_is_at_it(office: Office) -> None:
    office.bureau.before["poll"] = [Fatal("This key is not valid any more.")]
    handle = begun(office)
    office.engine.clock.advance(seconds=130)
    office.engine.drain(moving=False)
    office.engine.call(office.batches.resolve(handle.id, 1, "go_on", by="ada"))
    before = office.engine.clock.now()
    ran = office.engine.run(handle)
    assert (ran.state, (ran.events[-1].at - before).total_seconds() < 600) == ("COMPLETED", True)


def test_a_budget_below_what_is_due_only_slows(open_office: Open) -> None:
    office = open_office(inputs_per_job=1, polls=1)
    office.engine.call(office.store.set_budget("BUREAU main", 2, timedelta(seconds=1)))
    ran = office.run([f"https://example.org/{n}.wav" for n in range(8)])
    assert ran.state == "COMPLETED"
