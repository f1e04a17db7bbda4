"""What runs is asked about until it ends: failures in a row count, a request to slow down does not."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from holdfast.batch import Ended, Input, Job, Result, Running
from holdfast.errors import Fatal, RateLimited, Transient
from tests.lifecycles.batch.conftest import TWO, Office

Open = Callable[..., Office]
DOWN = Transient("The server is down.")
THREE = [f"https://example.org/{name}.wav" for name in "abcdef"]


def submitted(office: Office, urls: list[str] | None = None) -> object:
    handle = office.start(urls)
    office.engine.drain(moving=False)
    return handle


def test_failures_that_are_not_in_a_row_fail_nothing(open_office: Open) -> None:
    office = open_office(polls=4)
    office.bureau.before["poll"] = [DOWN, DOWN, None, DOWN, DOWN, None, DOWN, DOWN]
    assert office.run().state == "COMPLETED"


def test_the_third_failure_in_a_row_fails_the_job_and_what_runs_is_stopped(office: Office) -> None:
    office.bureau.before["poll"] = [DOWN] * 3
    ran = office.run()
    assert (ran.state, office.jobs(ran.handle.id)) == ("FAILED", ["FAILED"])
    office.engine.drain()
    assert office.bureau.running == []
    assert office.engine.call(office.store.read(office.batch(ran.handle.id).stopped_by))["state"] == "STOPPED"


def test_a_request_to_slow_down_is_no_failure_and_all_wait_for_its_time(open_office: Open) -> None:
    office = open_office(inputs_per_job=1, requests_per_minute=60, calls_at_once=1)
    handle = office.start(THREE)
    office.engine.drain(moving=False)
    office.engine.clock.advance(seconds=130)
    now = office.engine.clock.now()
    office.bureau.before["poll"] = [RateLimited("Slow down.", retry_after=300)]
    office.engine.drain(moving=False)
    jobs = office.batch(handle.id).jobs
    assert {job.transient_failures for job in jobs} == {0}
    assert sum(call == "poll" for call, _ in office.bureau.asked) == 1
    assert office.engine.call(office.store.explain(handle.id)).until == now + timedelta(seconds=300)
    assert office.engine.run(handle).state == "COMPLETED"


def test_two_batches_share_the_budget_of_an_account(open_office: Open) -> None:
    office = open_office(inputs_per_job=1, requests_per_minute=6, polls=1)
    handles = [office.start(THREE) for _ in range(2)]
    office.engine.drain(moving=False)
    assert len(office.bureau.asked) == 6, "as many requests as a minute has"
    office.engine.clock.advance(seconds=10)
    office.engine.drain(moving=False)
    assert len(office.bureau.asked) == 7
    assert {office.engine.run(handle).state for handle in handles} == {"COMPLETED"}


def test_a_status_that_nobody_knows_is_running(office: Office) -> None:
    office.bureau.statuses = ["hibernating", "", "Zzz"]
    ran = office.run()
    assert (ran.state, sum(call == "poll" for call, _ in office.bureau.asked)) == ("COMPLETED", 4)


def test_it_is_asked_again_when_the_provider_says(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def poll(job: object) -> Running:
        return Running("busy", again_in=timedelta(seconds=17))

    handle = office.start()
    office.engine.drain(moving=False)
    office.engine.clock.advance(seconds=130)
    monkeypatch.setattr(office.bureau, "poll", poll)
    now = office.engine.clock.now()
    office.engine.drain(moving=False)
    why = office.engine.call(office.store.explain(handle.id))
    assert (why.reason, why.until) == ("provider_poll", now + timedelta(seconds=17))


def test_a_key_that_is_refused_in_between_costs_no_work(office: Office) -> None:
    office.bureau.before["poll"] = [Fatal("This key is not valid any more.", code="401")]
    handle = office.start()
    office.engine.drain(moving=False)
    office.engine.clock.advance(seconds=130)
    office.engine.drain(moving=False)
    assert (office.jobs(handle.id), office.batch(handle.id).status) == (["PARKED"], "IN_PROGRESS")
    (entry,) = office.engine.call(office.store.inbox.newest())
    assert "This key is not valid any more." in entry["error"]["message"]
    office.engine.call(office.batches.resolve(handle.id, 1, "go_on", by="ada"))
    assert office.engine.run(handle).state == "COMPLETED"


def test_results_that_cannot_be_fetched_are_tried_for_until_the_batch_is_over(office: Office) -> None:
    office.bureau.before["fetch"] = [DOWN] * 12
    ran = office.run()
    assert (ran.state, sum(call == "fetch" for call, _ in office.bureau.asked)) == ("COMPLETED", 13)


def test_what_the_provider_says_of_each_input_decides(office: Office) -> None:
    office.bureau.bad = {"b.wav": "Too noisy.", "c.wav": "missing"}
    ran = office.run([*TWO, "https://example.org/c.wav", "https://example.org/d.wav"])
    assert (ran.state, office.jobs(ran.handle.id)) == ("PARTIAL_COMPLETE", ["PARTIAL_COMPLETE"] * 2)
    found = office.batch(ran.handle.id)
    manifest = office.read(found.manifest.uri)
    items = [(one["input"][-5:], one["status"], one.get("reason")) for one in manifest["items"]]
    assert items == [
        ("a.wav", "ok", None), ("b.wav", "failed", "Too noisy."),
        ("c.wav", "failed", "The provider said nothing of it."), ("d.wav", "ok", None),
    ]  # fmt: skip
    assert (manifest["ok"], manifest["failed"], found.cost_cents) == (2, 2, 1.0)


def test_a_job_that_failed_as_a_whole_says_why(office: Office) -> None:
    office.bureau.wrong = "The file is no recording."
    ran = office.run()
    assert ran.state == "FAILED"
    assert "The file is no recording." in str(ran.error)
    assert office.read(office.batch(ran.handle.id).manifest.uri)["items"][0]["reason"] == "The file is no recording."


def test_a_cost_is_counted_once(office: Office) -> None:
    ran = office.run()
    assert office.batch(ran.handle.id).cost_cents == 1.0
    (line,) = office.engine.call(office.store.costs.totals(by="total"))
    assert float(line.cost_cents) == 1.0


@pytest.mark.parametrize("answer", [None, "busy", Ended("x", "banana")])  # type: ignore[arg-type]
def test_what_is_no_answer_counts_as_a_failure_of_that_job_alone(
    open_office: Open, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    office = open_office(inputs_per_job=1, polls=1)
    poll = office.bureau.poll

    async def odd(job: Job) -> object:
        return answer if job.token.endswith("-1") else await poll(job)

    monkeypatch.setattr(office.bureau, "poll", odd)
    ran = office.run()
    assert (ran.state, office.jobs(ran.handle.id)) == ("PARTIAL_COMPLETE", ["FAILED", "COMPLETED"])


def test_an_output_that_is_no_json_is_kept_as_well_as_it_can_be(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(job: Job, inputs: list[Input]) -> AsyncIterator[Result]:
        for one in inputs:
            yield Result(one.key, {"nan": float("nan"), "set": {1}, "nul": "a\0b", "half": "\ud800"})

    monkeypatch.setattr(office.bureau, "fetch", fetch)
    ran = office.run()
    assert ran.state == "COMPLETED"
    first = office.read(office.batch(ran.handle.id).result_uri)["transcriptions"][0]
    assert (first["nan"], first["set"], first["half"]) == (None, "{1}", "?")


def test_why_says_that_a_job_waits_for_a_person(office: Office) -> None:
    office.bureau.before["poll"] = [Fatal("This key is not valid any more.")]
    handle = office.start()
    office.engine.drain(moving=False)
    office.engine.clock.advance(seconds=130)
    office.engine.drain(moving=False)
    why = office.engine.call(office.store.explain(handle.id))
    assert (why.reason, f"holdfast batch show {handle.id}" in why.sentence) == ("owner", True)
