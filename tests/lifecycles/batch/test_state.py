"""What clients of each provider know: the same JSON over HTTP and as a view."""

import json
from typing import Any

import pytest

from holdfast.lifecycles.batch.store import Batches
from holdfast.testing import Database
from tests.lifecycles.batch.conftest import TWO, Office

URL = "https://example.org/a.wav"
FIELDS = {
    "AZURE": {"external_job_id", "status", "result", "error"},
    "SARVAM": {"external_job_id", "status", "result", "error", "transient_failures"},
    "AWS": {"external_job_id", "gcs_uri", "filename", "status", "result", "error", "transient_failures"},
    "GOOGLE": {"model", "external_job_id", "status", "result", "error", "transient_failures"},
    "LOCAL": {"external_job_id", "status", "result", "error", "transient_failures"},
}
HEAD = {"task_type", "provider", "dataset_ids", "invalid_urls", "jobs"}


@pytest.mark.parametrize("provider", FIELDS)
def test_the_state_of_a_transcription_is_as_its_clients_know_it(open_office: Any, provider: str) -> None:
    office: Office = open_office(name=provider, inputs_per_job=1)
    handle = office.start([URL, "https://example.org/no.exe"], models=["long"])
    office.engine.drain(moving=False)
    before = office.batch(handle.id).provider_state
    assert set(before) == HEAD | ({"gcs_map"} if provider == "SARVAM" else set())
    assert (before["task_type"], before["provider"], before["dataset_ids"]) == ("transcription", provider, [])
    assert before["invalid_urls"] == ["https://example.org/no.exe"]
    (job,) = before["jobs"]
    assert set(job) == FIELDS[provider]
    assert (job["external_job_id"], job["status"], job["result"], job["error"]) == ("B1", "SUBMITTED", None, None)
    if provider == "SARVAM":
        assert before["gcs_map"] == {"B1": URL}
    if provider == "AWS":
        assert (job["gcs_uri"], job["filename"]) == (URL, "a.wav")
    office.engine.clock.advance(seconds=130)
    office.engine.drain(moving=False)
    assert office.batch(handle.id).provider_state["jobs"][0]["status"] == "working", "the provider's own word"
    office.engine.run(handle)
    (job,) = office.batch(handle.id).provider_state["jobs"]
    assert (job["status"], job["result"][0]["output"]) == ("COMPLETED", {"transcript": f"words of {URL}"})


def test_the_state_of_a_completion_has_a_job_for_each_model(office: Office) -> None:
    path = office.hf.settings.home / "prompts.txt"
    path.write_text("Why is the sea salt?\n")
    handle = office.engine.start(office.complete, urls=[path.as_uri()], models=["large", "small"])
    ran = office.engine.run(handle)
    state = office.batch(handle.id).provider_state
    assert (ran.state, set(state)) == ("COMPLETED", {"task_type", "input_dataset_ids", "jobs"})
    assert [job["model"] for job in state["jobs"]] == ["large", "small"]
    for job in state["jobs"]:
        assert set(job) == {"model", "status", "external_job_id", "output_uri", "error", "transient_failures"}
        assert job["output_uri"].startswith(f"object:batches/{handle.id}/")
    merged = office.read(office.batch(handle.id).result_uri)
    assert {model: len(part["completions"]) for model, part in merged.items()} == {"large": 1, "small": 1}


def test_google_merges_by_model_and_the_others_into_one_list(open_office: Any) -> None:
    office: Office = open_office(name="GOOGLE")
    office.bureau.merges = "model"
    ran = office.run(TWO, models=["long", "telephony"])
    merged = office.read(office.batch(ran.handle.id).result_uri)
    assert {model: len(part["transcriptions"]) for model, part in merged.items()} == {"long": 2, "telephony": 2}


def test_the_view_says_what_the_answer_says(office: Office, holdfast: Any) -> None:
    ran = office.run()
    database: Database = holdfast.database
    seen = database.ask_owner("select provider_state from holdfast.batch_state where task_id = $1", ran.handle.id)
    assert json.loads(seen) == office.batch(ran.handle.id).provider_state


@pytest.mark.deep
def test_a_batch_of_many_jobs_is_one_answer(open_office: Any) -> None:
    office: Office = open_office(inputs_per_job=1, polls=1)
    handle = office.start([f"https://example.org/{n}.wav" for n in range(60)])
    office.engine.run(handle)
    (found,) = office.engine.call(Batches.over(office.store).read([handle.id]))
    assert (found.manifest.ok, len(found.jobs)) == (60, 60)
