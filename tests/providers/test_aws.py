"""What Amazon's provider promises, over real HTTP: moto answers, and the line goes wrong where a test says so."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pytest

from holdfast.apps.providers.aws import AWS
from holdfast.engine.task import Json
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.lifecycles.batch.provider import CannotCancel, Ended, Input, Job, Result, Running
from holdfast.objects.local import Folder
from holdfast.testing.providers import Fault, delay, dropped, html, lost_answer, rewrite, status, truncated
from holdfast.testing.providers.aws import GET, START, Amazon

OLD = timedelta(minutes=6)
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amazon]:
    """A stand-in, and an environment that leads there and nowhere else."""
    folder = tmp_path_factory.mktemp("amazon")
    with Amazon(folder) as amazon, pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
            environment.delenv(name, raising=False)
        for name, value in amazon.variables.items():
            environment.setenv(name, value)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            environment.setenv(name, str(folder / "none"))
        yield amazon


@pytest.fixture
def amazon(running: Amazon) -> Iterator[Amazon]:
    """It does all well, until a test says otherwise."""
    yield running
    running.faults.clear()


@pytest.fixture(scope="module")
def aws(running: Amazon) -> Iterator[AWS]:
    """One for all tests: it keeps nothing but its connections, and those are dear."""
    provider = AWS()
    yield provider
    asyncio.run(provider.close())


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """A job that is to be begun now."""

    async def remember(memo: Json) -> None:
        raise AssertionError("Amazon's jobs are begun with one call: there is nothing to remember.")

    def make(**given: Any) -> Job:
        known: dict[str, Any] = {
            "token": f"hf-{uuid4().hex}",
            "task_type": "transcription",
            "model": None,
            "account": "us-east-1/NDIN",
            "external_id": None,
            "intended_at": datetime.now(UTC),
            "memo": None,
            "remember": remember,
            "objects": Folder(tmp_path / "objects").open(),
            "place": "jobs/1",
        }
        return Job(**{**known, **given})

    return make


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    return make_job()


@pytest.fixture
def one(amazon: Amazon) -> Input:
    """A recording that no other test has."""
    return Input("a", amazon.record(f"s3://calls/{uuid4().hex}/good-morning.wav"))


def answer_with(code: str, message: str = "", status_code: int = 400, **headers: str) -> Fault:
    """An answer as Transcribe refuses."""
    return status(status_code, headers, {"__type": code, "message": message})


def starts(amazon: Amazon) -> int:
    """How many requests to begin a job were sent so far."""
    return sum(
        seen.noted.get("x-amz-target", "").endswith(".StartTranscriptionJob") for seen in amazon.faults.requests()
    )


async def ended(aws: AWS, job: Job) -> Ended:
    while isinstance(how := await aws.poll(job), Running):
        pass
    return how


async def fetched(aws: AWS, job: Job, one: Input) -> Result:
    [result] = [result async for result in aws.fetch(job, [one])]
    return result


async def test_a_recording_becomes_text(aws: AWS, amazon: Amazon, job: Job) -> None:
    one = Input("a", amazon.record(f"s3://calls/{uuid4().hex}/Émile & co #1?.MP3", "hello there"))
    assert await aws.submit(job, [one]) == job.token
    end = await ended(aws, job)
    assert (end.status, end.outcome, end.has_results) == ("COMPLETED", "succeeded", True)
    result = await fetched(aws, replace(job, memo=end.memo), one)
    assert result.ok
    assert isinstance(result.output, dict)
    items = result.output.pop("items")
    assert result.output == {
        "transcript": "hello there",
        "language_code": "en-US",
        "segments": [{"start": 0.0, "end": 1.0, "text": "hello there"}],
    }
    assert [item["alternatives"][0]["content"] for item in items] == ["hello", "there"]
    assert (result.usage and result.usage.cost_cents) is None


async def test_a_lost_answer_is_one_job(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    before = starts(amazon)
    amazon.faults.add("POST", "^/$", lost_answer(), headers=START)
    with pytest.raises(Transient):
        await aws.submit(job, [one])
    assert starts(amazon) == before + 1
    assert await aws.find(job) == job.token
    assert await aws.submit(job, [one]) == job.token
    assert amazon.begun(one.uri) == [job.token]


REFUSALS: dict[str, tuple[Fault, type[Failure]]] = {
    "throttled": (answer_with("ThrottlingException", "Rate exceeded"), RateLimited),
    "too many requests": (answer_with("TooManyRequestsException", status_code=429), RateLimited),
    "gateway's 429": (html(429), RateLimited),
    "one limit or the other": (
        answer_with(
            "LimitExceededException", "You sent too many requests, or your file is too long. Use a smaller file."
        ),
        RateLimited,
    ),
    "limit without words": (answer_with("LimitExceededException"), RateLimited),
    "limit of the file": (answer_with("LimitExceededException", "Your input file is too long."), SchemaInvalid),
    "too many jobs": (
        answer_with(
            "BadRequestException", "You have too many jobs running at the same time. Try your request again later."
        ),
        RateLimited,
    ),
    "too large": (
        answer_with("BadRequestException", "The input file that you specified exceeds the maximum size of 2048.00 Mb."),
        SchemaInvalid,
    ),
    "recording not readable": (
        answer_with(
            "BadRequestException", "The S3 URI that you provided can't be accessed. Make sure you have permission."
        ),
        Fatal,
    ),
    "not valid": (answer_with("BadRequestException", "1 validation error detected"), SchemaInvalid),
    "not allowed": (answer_with("AccessDeniedException", "User is not authorized to perform"), Fatal),
    "unknown key": (answer_with("UnrecognizedClientException", "The security token is invalid."), Fatal),
    "wrong signature": (answer_with("InvalidSignatureException", "The signature does not match."), Fatal),
    "internal": (answer_with("InternalFailureException", status_code=500), Transient),
    "unavailable": (answer_with("ServiceUnavailable", status_code=503), Transient),
    "bad gateway": (html(502), Transient),
    "a page instead": (html(200), Transient),
    "empty": (status(200, {}, {}), Transient),
    "dropped": (dropped(), Transient),
    "unheard of": (answer_with("SomethingNewException", status_code=418), Fatal),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_has_its_category_and_is_not_repeated(
    aws: AWS, amazon: Amazon, job: Job, one: Input, name: str
) -> None:
    fault, category = REFUSALS[name]
    before = starts(amazon)
    amazon.faults.add("POST", "^/$", fault, headers=START, times=None)
    with pytest.raises(category) as refused:
        await aws.submit(job, [one])
    assert type(refused.value) is category
    assert starts(amazon) == before + 1
    assert amazon.begun(one.uri) == []
    amazon.faults.clear()
    assert await aws.submit(job, [one]) == job.token


async def test_an_answer_cut_off_is_an_unknown_end(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    amazon.faults.add("POST", "^/$", truncated(), headers=START)
    with pytest.raises(Transient):
        await aws.submit(job, [one])
    assert amazon.begun(one.uri) == [job.token]


async def test_an_answer_that_never_comes_is_not_awaited_for_ever(amazon: Amazon, job: Job, one: Input) -> None:
    aws = AWS()
    aws.answer_most = timedelta(seconds=0.2)
    amazon.faults.add("POST", "^/$", delay(30), headers=START)
    with pytest.raises(Transient, match="ReadTimeout"):
        await aws.submit(job, [one])
    await aws.close()


async def test_a_server_that_is_away_is_transient(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    amazon.server.stop()
    try:
        with pytest.raises(Transient):
            await aws.submit(job, [one])
    finally:
        amazon.server.start()
    assert await aws.submit(job, [one]) == job.token


async def test_a_wait_that_is_asked_for_is_passed_on(aws: AWS, amazon: Amazon, job: Job) -> None:
    amazon.faults.add("POST", "^/$", answer_with("ThrottlingException", "Rate exceeded", 429, **{"Retry-After": "7"}))
    with pytest.raises(RateLimited) as refused:
        await aws.poll(job)
    assert refused.value.retry_after == timedelta(seconds=7)
    assert refused.value.code == "ThrottlingException"


async def test_submitting_again_adopts_the_job(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    assert [await aws.submit(job, [one]) for _ in range(3)] == [job.token] * 3
    assert amazon.begun(one.uri) == [job.token]


async def test_many_who_submit_at_once_begin_one_job(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    assert set(await asyncio.gather(*(aws.submit(job, [one]) for _ in range(8)))) == {job.token}
    assert amazon.begun(one.uri) == [job.token]


async def test_a_stranger_under_the_same_name_is_not_adopted(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    theirs = {"TranscriptionJobName": job.token, "Media": {"MediaFileUri": "s3://theirs/other.wav"}}
    with closing(boto3.client("transcribe", region_name="us-east-1")) as client:
        client.start_transcription_job(**theirs, LanguageCode="en-US")
    with pytest.raises(Fatal, match="another recording"):
        await aws.submit(job, [one])
    assert amazon.begun(one.uri) == []


async def test_a_name_taken_by_nobody_is_asked_for_again(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    amazon.faults.add(
        "POST", "^/$", answer_with("ConflictException", "The requested job name already exists."), headers=START
    )
    with pytest.raises(Transient):
        await aws.submit(job, [one])
    assert await aws.submit(job, [one]) == job.token


async def test_what_is_not_there_is_not_found(aws: AWS, amazon: Amazon, job: Job) -> None:
    amazon.faults.add("POST", "^/$", status(200, {}, {}), headers=GET)
    with pytest.raises(Transient):
        await aws.find(job)
    assert await aws.find(job) is None


@pytest.mark.parametrize("status", [None, "RENDERING", ""])
async def test_a_status_nobody_knows_is_running(
    aws: AWS, amazon: Amazon, job: Job, one: Input, status: str | None
) -> None:
    def changed(answer: Any) -> Any:
        answer["TranscriptionJob"].pop("TranscriptionJobStatus", None)
        if status is not None:
            answer["TranscriptionJob"]["TranscriptionJobStatus"] = status
        return answer

    await aws.submit(job, [one])
    amazon.faults.add("POST", "^/$", rewrite(changed), headers=GET)
    assert await aws.poll(job) == Running(status or "unknown status")
    assert (await ended(aws, job)).outcome == "succeeded"


REASONS = {
    "Unsupported media format": "SchemaInvalid",
    "The media format provided does not match the detected media format": "SchemaInvalid",
    "The sample rate provided does not match the detected sample rate": "SchemaInvalid",
    "Invalid sample rate for audio file": "SchemaInvalid",
    "Invalid file size: file size too large": "SchemaInvalid",
    "Invalid number of channels: number of channels too large": "SchemaInvalid",
    "Your audio must have speech that is long enough for automatic language identification": "SchemaInvalid",
    "The bucket may not be accessed: access denied": "Fatal",
    "Internal error. Please try again": "Transient",
    "": "Transient",
}


@pytest.mark.parametrize("reason", REASONS)
async def test_a_failed_job_says_of_what(aws: AWS, amazon: Amazon, job: Job, one: Input, reason: str) -> None:
    amazon.fail(one.uri, reason)
    await aws.submit(job, [one])
    end = await ended(aws, job)
    assert (end.status, end.outcome, end.has_results) == ("FAILED", "failed", False)
    assert end.error == (reason or "Amazon Transcribe does not say why.")
    assert end.category == REASONS[reason]


@pytest.mark.parametrize("code", ["BadRequestException", "NotFoundException"])
async def test_a_job_that_is_gone_has_expired_but_a_new_one_may_still_show(
    aws: AWS, amazon: Amazon, make_job: MakeJob, code: str
) -> None:
    amazon.faults.add("POST", "^/$", answer_with(code, "The requested job couldn't be found."), headers=GET, times=None)
    assert await aws.poll(make_job()) == Running("not shown yet")
    gone = await aws.poll(make_job(intended_at=datetime.now(UTC) - OLD))
    assert isinstance(gone, Ended)
    assert (gone.outcome, gone.has_results) == ("expired", False)


async def test_a_throttled_question_does_not_mean_that_the_job_is_gone(
    aws: AWS, amazon: Amazon, make_job: MakeJob
) -> None:
    old = make_job(intended_at=datetime.now(UTC) - OLD)
    for code in ("ThrottlingException", "LimitExceededException", "BadRequestException"):
        amazon.faults.add("POST", "^/$", answer_with(code, "You sent too many requests."), headers=GET)
        with pytest.raises(RateLimited):
            await aws.poll(old)
        amazon.faults.clear()


async def test_renewed_keys_are_read_when_the_old_ones_expire(
    amazon: Amazon, job: Job, one: Input, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write(key: str) -> None:
        (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=x\n")

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    write("AKIAOLD")
    aws = AWS()
    assert aws.missing("transcription") is None
    assert aws.account == "us-east-1/chain"
    await aws.submit(job, [one])
    expired = answer_with("ExpiredTokenException", "The security token included in the request is expired")
    amazon.faults.add("POST", "^/$", expired, headers={"authorization": "Credential=AKIAOLD"}, times=None)
    with pytest.raises(Fatal, match="expired"):
        await aws.poll(job)
    write("AKIANEW")
    assert isinstance(await aws.poll(job), Running)
    await aws.close()


@pytest.mark.parametrize(
    ("fault", "category"),
    [
        (status(503, {"content-type": "application/xml"}, "<Error><Code>SlowDown</Code></Error>"), RateLimited),
        (status(500, {"content-type": "application/xml"}, "<Error><Code>InternalError</Code></Error>"), Transient),
        (status(403, {"content-type": "application/xml"}, "<Error><Code>AccessDenied</Code></Error>"), Fatal),
        (truncated(), Transient),
        (dropped(), Transient),
    ],
)
async def test_a_transcript_that_cannot_be_read_now_is_not_lost(
    aws: AWS, amazon: Amazon, job: Job, one: Input, fault: Fault, category: type[Failure]
) -> None:
    await aws.submit(job, [one])
    await ended(aws, job)
    amazon.faults.add("GET", "^/calls/holdfast/", fault)
    with pytest.raises(category) as refused:
        await fetched(aws, job, one)
    assert type(refused.value) is category
    assert (await fetched(aws, job, one)).ok


async def test_a_transcript_that_is_not_there_yet_is_waited_for(aws: AWS, amazon: Amazon, job: Job, one: Input) -> None:
    await aws.submit(job, [one])
    with pytest.raises(Transient, match="yet"):
        await fetched(aws, job, one)
    await ended(aws, job)
    assert (await fetched(aws, job, one)).ok


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"results": {}}', b'{"results": {"transcripts": [{}]}}'])
async def test_what_is_not_a_transcript_is_a_result_with_an_error(
    aws: AWS, amazon: Amazon, job: Job, one: Input, body: bytes
) -> None:
    amazon.put(f"s3://calls/holdfast/{job.token}.json", body)
    result = await fetched(aws, job, one)
    assert (result.key, result.ok, result.category) == ("a", False, "SchemaInvalid")


async def test_a_running_job_cannot_be_stopped_and_an_ended_one_need_not(aws: AWS, job: Job, one: Input) -> None:
    await aws.submit(job, [one])
    with pytest.raises(CannotCancel, match=job.token):
        await aws.cancel(job)
    await ended(aws, job)
    await aws.cancel(job)


async def test_what_was_never_begun_need_not_be_stopped(aws: AWS, make_job: MakeJob) -> None:
    await aws.cancel(make_job(intended_at=datetime.now(UTC) - OLD))
    with pytest.raises(Transient):
        await aws.cancel(make_job())


async def test_a_job_is_looked_for_in_the_region_where_it_was_begun(
    aws: AWS, amazon: Amazon, job: Job, one: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    await aws.submit(job, [one])
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    moved = AWS()
    assert moved.account == "eu-central-1/NDIN"
    assert await moved.find(job) == job.token
    assert await moved.find(replace(job, account=moved.account)) is None
    await moved.close()


async def test_a_check_asks_whether_the_keys_are_good(aws: AWS, amazon: Amazon) -> None:
    await aws.check()
    amazon.faults.add("POST", "^/$", answer_with("UnrecognizedClientException", "The security token is invalid."))
    with pytest.raises(Fatal) as refused:
        await aws.check()
    assert amazon.variables["AWS_SECRET_ACCESS_KEY"] not in f"{refused.value!r} {aws.account} {aws!r}"


def test_what_is_missing_is_named_and_nobody_is_asked(amazon: Amazon, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(amazon.faults.requests())
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", amazon.url)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setattr("holdfast.apps.providers.aws.MACHINE", Path("/nowhere"))
    assert AWS().missing("transcription") is None
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in (AWS().missing("transcription") or "")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "no keys for Amazon" in (AWS().missing("transcription") or "")
    monkeypatch.delenv("AWS_REGION")
    assert "AWS_REGION" in (AWS().missing("transcription") or "")
    assert len(amazon.faults.requests()) == before


async def test_without_keys_nothing_is_sent(
    amazon: Amazon, job: Job, one: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    before = starts(amazon)
    for profile in ("", "nobody"):
        monkeypatch.setenv("AWS_PROFILE", profile)
        aws = AWS()
        with pytest.raises(Fatal, match="no keys"):
            await aws.submit(job, [one])
        await aws.close()
    assert starts(amazon) == before


@pytest.mark.parametrize(
    "profile",
    ["role_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata", "credential_process = false"],
)
def test_a_profile_counts_without_being_used(
    amazon: Amazon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str
) -> None:
    (tmp_path / "config").write_text(f"[profile calls]\nregion = eu-west-1\n{profile}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "calls")
    before = len(amazon.faults.requests())
    assert AWS().missing("transcription") is None
    assert AWS().account == "eu-west-1/chain"
    assert len(amazon.faults.requests()) == before


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("https://example.com/a.wav", "S3 only"),
        ("gs://calls/a.wav", "S3 only"),
        ("s3://calls", "S3 only"),
        ("s3:///a.wav", "S3 only"),
        ("s3://Not_A_Bucket/a.wav", "S3 only"),
        ("s3://calls/a.docx", "must end in"),
        ("s3://calls/no-extension", "must end in"),
        (f"s3://calls/{'a' * 2000}.wav", "2000 characters"),
    ],
)
def test_what_can_never_be_done_is_refused(aws: AWS, uri: str, why: str) -> None:
    assert why in (aws.refuse("transcription", Input("a", uri)) or "")


@pytest.mark.parametrize("uri", ["s3://calls/a.wav", "s3://calls/deep/er/A.MP3", "s3://calls/is it? #1.webm"])
def test_what_may_be_done_is_not_refused(aws: AWS, uri: str) -> None:
    assert aws.refuse("transcription", Input("a", uri)) is None
