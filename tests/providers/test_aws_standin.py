"""Amazon's stand-in is one for Amazon's own client too: boto3 drives it from the recording to the transcript."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import httpx2
import pytest

from holdfast.testing.providers import aws as standin
from holdfast.testing.providers import lost_answer
from holdfast.testing.providers.aws import START, Amazon


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amazon]:
    with Amazon(tmp_path_factory.mktemp("amazon")) as amazon:
        yield amazon


@pytest.fixture
def amazon(running: Amazon) -> Iterator[Amazon]:
    yield running
    running.faults.clear()
    running.pace(gets=1)


def client(service: str, amazon: Amazon) -> Any:
    variables = amazon.variables
    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def transcribe(amazon: Amazon) -> Iterator[Any]:
    with closing(client("transcribe", amazon)) as transcribe:
        yield transcribe


def begin(transcribe: Any, name: str, uri: str) -> dict[str, Any]:
    place = {"OutputBucketName": "calls", "OutputKey": f"out/{name}.json"}
    asked = {"TranscriptionJobName": name, "Media": {"MediaFileUri": uri}, "IdentifyLanguage": True, **place}
    job: dict[str, Any] = transcribe.start_transcription_job(**asked)["TranscriptionJob"]
    return job


def look(transcribe: Any, name: str) -> dict[str, Any]:
    job: dict[str, Any] = transcribe.get_transcription_job(TranscriptionJobName=name)["TranscriptionJob"]
    return job


def test_a_job_passes_through_its_states_and_leaves_a_transcript(amazon: Amazon, transcribe: Any) -> None:
    uri = amazon.record("s3://calls/good-morning.wav")
    begin(transcribe, "morning", uri)
    statuses = [look(transcribe, "morning").get("TranscriptionJobStatus") for _ in range(4)]
    assert statuses == ["QUEUED", "IN_PROGRESS", "COMPLETED", "COMPLETED"]
    with closing(client("s3", amazon)) as s3:
        transcript = json.loads(s3.get_object(Bucket="calls", Key="out/morning.json")["Body"].read())
        assert s3.get_object(Bucket="calls", Key="good-morning.wav")["Body"].read() == b"RIFF"
    assert transcript["jobName"] == "morning"
    assert transcript["results"]["transcripts"] == [{"transcript": "good morning"}]
    assert [item["alternatives"][0]["content"] for item in transcript["results"]["items"]] == ["good", "morning"]


def test_a_job_fails_where_a_test_says_so(amazon: Amazon, transcribe: Any) -> None:
    uri = amazon.record("s3://calls/broken.wav")
    amazon.fail(uri, "Unsupported media format")
    begin(transcribe, "broken", uri)
    job = [look(transcribe, "broken") for _ in range(3)][-1]
    assert (job["TranscriptionJobStatus"], job["FailureReason"]) == ("FAILED", "Unsupported media format")
    assert "Transcript" not in job
    with closing(client("s3", amazon)) as s3, pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket="calls", Key="out/broken.json")


def test_the_pace_can_be_set(amazon: Amazon, transcribe: Any) -> None:
    amazon.pace(gets=2)
    begin(transcribe, "slow", amazon.record("s3://calls/slow.wav"))
    statuses = [look(transcribe, "slow").get("TranscriptionJobStatus") for _ in range(6)]
    assert statuses == [None, "QUEUED", "QUEUED", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"]
    amazon.pace(seconds=3600)
    begin(transcribe, "slower", amazon.record("s3://calls/slower.wav"))
    assert {look(transcribe, "slower").get("TranscriptionJobStatus") for _ in range(4)} == {None}


def test_a_name_is_taken_once(amazon: Amazon, transcribe: Any) -> None:
    uri = amazon.record("s3://calls/once.wav")
    begin(transcribe, "once", uri)
    with pytest.raises(transcribe.exceptions.ConflictException):
        begin(transcribe, "once", uri)
    assert amazon.begun(uri) == ["once"]


def test_retries_of_the_client_are_seen(amazon: Amazon, transcribe: Any) -> None:
    """As boto3 is by default: it sends a lost call again, and learns only then that the name is taken."""
    uri = amazon.record("s3://calls/lost.wav")
    before = len(amazon.faults.requests("POST"))
    amazon.faults.add("POST", "^/$", lost_answer(), headers=START)
    with pytest.raises(transcribe.exceptions.ConflictException):
        begin(transcribe, "lost", uri)
    assert len(amazon.faults.requests("POST")) == before + 2
    assert amazon.begun(uri) == ["lost"]


@pytest.mark.deep
def test_the_jobs_ever_begun_outlive_a_restart_and_moto_does_not(amazon: Amazon, transcribe: Any) -> None:
    uri = amazon.record("s3://calls/kept.wav")
    begin(transcribe, "kept", uri)
    amazon.server.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(amazon.url, trust_env=False)
    amazon.server.start()
    assert look(transcribe, "kept")["TranscriptionJobStatus"] == "QUEUED"
    amazon.stop()
    amazon.start()
    with pytest.raises(transcribe.exceptions.BadRequestException, match="couldn't be found"):
        look(transcribe, "kept")
    assert amazon.begun(uri) == Amazon(amazon.folder).begun(uri) == ["kept"]


def test_without_moto_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"Install moto\[s3,transcribe\]"):
        Amazon(tmp_path).start()
