"""Amazon Transcribe: one recording in S3 is one job, whose transcript is written beside it in the same bucket.

A job bears its token as its name, and Amazon takes a name once: to begin a job again is refused. So a lost
answer never makes a second one. What Amazon cannot do is stop a job; it runs on, and is charged.
"""

import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from holdfast.apps.providers.answers import is_new, unknown_job
from holdfast.distribution import install_hint
from holdfast.engine.task import Category, Json
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import CannotCancel, Ended, Input, Job, Provider, Result, Running, Usage
from holdfast.remote.http_errors import failure_for
from holdfast.settings import vendor_variable

T = TypeVar("T")

MODEL = "aws-transcribe"
FORMATS = ("amr", "flac", "m4a", "mp3", "mp4", "ogg", "wav", "webm")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
longest_uri = 2000

NAME_TAKEN = "ConflictException"
NO_SUCH_JOB = ("NotFoundException", "BadRequestException")
EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
SLOW_DOWN = (
    "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "RequestThrottled",
    "SlowDown",
)  # fmt: skip
TRY_LATER = ("InternalFailureException", "RequestTimeout", "RequestTimeoutException")
NO_ACCESS = re.compile(
    r"AccessDenied|UnrecognizedClient|InvalidClientTokenId|InvalidAccessKeyId|Signature|MissingAuthentication|NotAuthorized"
    r"|OptInRequired|SubscriptionRequired|AuthFailure|ExpiredToken|RequestExpired|NoSuchBucket"
)
SAYS_TOO_MANY = re.compile(r"too many|rate exceeded|again later|concurrent", re.I)
SAYS_WRONG_FILE = re.compile(
    r"unsupported media|does not match the detected|invalid (sample rate|file size|number of channels)"
    r"|exceeds the maximum|smaller file|too (long|short|large)|long enough|language identification",
    re.I,
)
SAYS_NO_ACCESS = re.compile(r"access|permission|not authorized|denied|bucket|\bS3\b", re.I)

KEYS_OF_A_PROFILE = (
    "aws_access_key_id", "credential_process", "login_session", "role_arn", "sso_account_id", "sso_session",
    "web_identity_token_file",
)  # fmt: skip
ROLE_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE",
)  # fmt: skip
MACHINE = Path("/sys/devices/virtual/dmi/id/sys_vendor")


class AWS(Provider):
    """Recordings become text at Amazon. Keys and region come from where all tools of Amazon take them."""

    name = "AWS"
    inputs_per_job = 1
    requests_per_minute = 600  # Amazon's own quotas are 25 begun and 30 asked for in a second, and others use them too
    repeats_submit = True
    connect_most = timedelta(seconds=5)
    answer_most = timedelta(seconds=30)

    def __init__(self) -> None:
        self.region = find_region()
        self.account = f"{self.region or 'nowhere'}/{key_name()}"
        self._opening = threading.Lock()
        self._clients: dict[tuple[str, str | None], Any] = {}

    def missing(self, task_type: str) -> str | None:
        """No server is asked: whether the keys are right, only `check` can tell."""
        if find_spec("boto3") is None:
            return f"Amazon Transcribe is called with boto3: {install_hint('aws')}."
        if self.region is None:
            return "Amazon wants to know the region: set AWS_REGION, such as us-east-1."
        if bool(vendor_variable("AWS_ACCESS_KEY_ID")) != bool(vendor_variable("AWS_SECRET_ACCESS_KEY")):
            return "A key of Amazon's has two parts: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        if not has_keys():
            return "There are no keys for Amazon: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        return None

    def refuse(self, task_type: str, one: Input) -> str | None:
        bucket, key = bucket_and_key(one.uri)
        if not BUCKET.fullmatch(bucket) or not key:
            return "Amazon Transcribe reads recordings from S3 only: give s3://bucket/key."
        if key.rpartition(".")[2].lower() not in FORMATS:
            return f"Amazon Transcribe reads {', '.join(FORMATS)}: the name must end in one of these."
        if len(one.uri) > longest_uri:
            return f"Amazon Transcribe takes addresses of {longest_uri} characters at most."
        return None

    async def check(self) -> None:
        await self._ask(None, lambda aws: aws.list_transcription_jobs(MaxResults=1))

    async def close(self) -> None:
        self._forget()

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        [one] = inputs
        asked = {
            "TranscriptionJobName": job.token,
            "Media": {"MediaFileUri": one.uri},
            "IdentifyLanguage": True,
            "OutputBucketName": bucket_and_key(one.uri)[0],
            "OutputKey": output_key(job),
        }
        try:
            answer = await self._ask(job, lambda aws: aws.start_transcription_job(**asked))
        except Failure as refusal:
            if refusal.code != NAME_TAKEN:
                raise
            begun = await self._look(job)
        else:
            begun = job_in(job, answer)
        if begun is None:
            raise Transient(f"Amazon Transcribe says that {job.token} is begun, and that it is not.")
        theirs = begun.get("Media", {}).get("MediaFileUri")
        if theirs is not None and theirs != one.uri:  # of a job that had the name already
            raise Fatal(f"Amazon Transcribe has a job {job.token} already, on another recording.", code=NAME_TAKEN)
        return job.token

    async def find(self, job: Job) -> str | None:
        return job.token if await self._look(job) is not None else None

    async def poll(self, job: Job) -> Running | Ended:
        found = await self._look(job)
        if found is None:
            why = "it was deleted, or is older than 90 days, or the keys are of another account"
            return unknown_job(job, f"Amazon Transcribe knows no job {job.token} in {job.account}: {why}.")
        status = found.get("TranscriptionJobStatus") or "unknown status"
        if status == "COMPLETED":
            return Ended(status, "succeeded", memo={"language_code": found.get("LanguageCode")})
        if status == "FAILED":
            reason = found.get("FailureReason") or "Amazon Transcribe does not say why."
            return Ended(status, "failed", error=reason, category=category_of(reason), has_results=False)
        return Running(status)

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        for one in inputs:
            bucket, key = bucket_and_key(one.uri)[0], output_key(job)
            body = await self._read(job, bucket, key)
            language = job.memo.get("language_code") if isinstance(job.memo, dict) else None
            try:
                output = transcript_of(body, language)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                message = f"s3://{bucket}/{key} is not a transcript of Amazon's: {type(error).__name__}."
                yield Result(one.key, error=message, category="SchemaInvalid", usage=Usage(MODEL))
            else:
                yield Result(one.key, output, usage=Usage(MODEL))

    async def cancel(self, job: Job) -> None:
        found = await self._look(job)
        if found is None:
            if is_new(job):
                raise Transient(f"Amazon Transcribe knows no job {job.token} in {job.account} yet.")
        elif found.get("TranscriptionJobStatus") not in ("COMPLETED", "FAILED"):
            raise CannotCancel(f"Amazon Transcribe cannot stop a job: {job.token} runs on to its end, and is charged.")

    async def _look(self, job: Job) -> dict[str, Any] | None:
        """The job as Amazon knows it; None if it says that it knows none."""
        try:
            answer = await self._ask(job, lambda aws: aws.get_transcription_job(TranscriptionJobName=job.token))
        except Failure as refusal:
            if refusal.code in NO_SUCH_JOB and not isinstance(refusal, RateLimited):
                return None
            raise
        return job_in(job, answer)

    async def _read(self, job: Job, bucket: str, key: str) -> bytes:
        try:
            body: bytes = await self._ask(job, lambda s3: s3.get_object(Bucket=bucket, Key=key)["Body"].read(), "s3")
            return body
        except Failure as refusal:
            if refusal.code == "NoSuchKey":
                raise Transient(f"The transcript is not at s3://{bucket}/{key} yet.", code=refusal.code) from refusal
            if refusal.code == "AccessDenied":
                fix = "allow s3:GetObject there, and s3:ListBucket, or what is not there yet is denied too"
                raise Fatal(f"s3://{bucket}/{key} may not be read: {fix}.", code=refusal.code) from refusal
            raise

    async def _ask(self, job: Job | None, call: Callable[[Any], T], service: str = "transcribe") -> T:
        """Where a job was submitted, it is asked for, whatever region is named now."""
        region, slash, _ = job.account.partition("/") if job else ("", "", "")
        return await in_thread(self._ask_here, region if slash else self.region, service, call)

    def _ask_here(self, region: str | None, service: str, call: Callable[[Any], T]) -> T:
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        try:
            try:
                return call(self._client(service, region))
            except ClientError as error:
                if code_of(error) not in EXPIRED:
                    raise
                self._forget()  # nothing was done; a new session sees keys that were renewed meanwhile
                return call(self._client(service, region))
        except (BotoCoreError, ClientError) as error:
            raise failure_of(error) from error

    def _client(self, service: str, region: str | None) -> Any:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]

        with self._opening:
            if client := self._clients.get((service, region)):
                return client
            named = vendor_variable("AWS_ENDPOINT_URL", f"AWS_ENDPOINT_URL_{service.upper()}")
            config = Config(
                retries={"total_max_attempts": 1},  # the engine tries again; here it would begin jobs behind its back
                connect_timeout=self.connect_most.total_seconds(),
                read_timeout=self.answer_most.total_seconds(),
                max_pool_connections=self.calls_at_once,
                s3={"addressing_style": "path" if named else "auto"},
            )
            client = boto3.Session().client(service, region_name=region, config=config)
            self._clients[service, region] = client
            return client

    def _forget(self) -> None:
        with self._opening:
            for client in self._clients.values():
                client.close()
            self._clients.clear()


def bucket_and_key(uri: str) -> tuple[str, str]:
    """The bucket and the key of s3://bucket/key, taken as they are written; empty if it is none."""
    bucket, _, key = uri.removeprefix("s3://").partition("/") if uri.startswith("s3://") else ("", "", "")
    return bucket, key


def output_key(job: Job) -> str:
    """Where in the recording's bucket the transcript will be: known before the job is begun."""
    return f"holdfast/{job.token}.json"


def job_in(job: Job, answer: dict[str, Any]) -> dict[str, Any]:
    """The job in an answer. Raises Transient if it is not there: then its status is unknown."""
    found: dict[str, Any] = answer.get("TranscriptionJob") or {}
    if found.get("TranscriptionJobName") != job.token:
        raise Transient(f"Amazon Transcribe was asked for {job.token} and does not mention it.")
    return found


def transcript_of(body: bytes, language: str | None) -> Json:
    """What is kept of a transcript: the text, and what Amazon tells of its parts. Raises whatever is wrong with it."""
    results = json.loads(body)["results"]
    text = "\n".join(part["transcript"] for part in results["transcripts"])
    output: dict[str, Any] = {"transcript": text, "language_code": results.get("language_code") or language}
    if segments := results.get("audio_segments"):
        output["segments"] = [
            {"start": float(part["start_time"]), "end": float(part["end_time"]), "text": part["transcript"]}
            for part in segments
        ]
    if items := results.get("items"):
        output["items"] = items
    return output


def category_of(reason: str) -> Category:
    """What a job failed of, as Amazon words it."""
    if SAYS_WRONG_FILE.search(reason):
        return "SchemaInvalid"
    return "Fatal" if SAYS_NO_ACCESS.search(reason) else "Transient"


def failure_of(error: Exception) -> Failure:
    """What an error of botocore means for the engine. Its `code` is Amazon's own."""
    from botocore import exceptions  # type: ignore[import-untyped]

    if isinstance(error, exceptions.ClientError):
        return refusal_of(error)
    if isinstance(error, exceptions.ParamValidationError):
        return SchemaInvalid(f"Amazon would not take this: {error}")
    of_no_use = (
        exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.NoRegionError,
        exceptions.ProfileNotFound, exceptions.ConfigParseError, exceptions.InvalidRegionError, exceptions.SSOError,
        exceptions.LoginError,
    )  # fmt: skip
    if isinstance(error, of_no_use):
        return Fatal(f"There are no keys to ask Amazon with: {error}", code=type(error).__name__)
    return Transient(f"Amazon does not answer: {type(error).__name__}.", code=type(error).__name__)


def refusal_of(error: Any) -> Failure:
    details, answer = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
    code, reason, status = code_of(error), details.get("Message") or "", answer.get("HTTPStatusCode") or 0
    message, headers = f"Amazon answers {code}: {reason}", answer.get("HTTPHeaders") or {}
    if code in SLOW_DOWN or status == 429:
        return failure_for(429, message, headers, code=code)
    if code in ("BadRequestException", "LimitExceededException"):
        return limit_or_fault(code, reason)
    if NO_ACCESS.search(code):
        return Fatal(message, code=code)
    return failure_for(408 if code in TRY_LATER else status, message, headers, code=code)


def limit_or_fault(code: str, reason: str) -> Failure:
    """Both codes are used for too much work at once as well as for a file that is wrong: only the text tells."""
    message = f"Amazon answers {code}: {reason}"
    if SAYS_TOO_MANY.search(reason):
        return RateLimited(message, code=code)
    if code == "LimitExceededException":
        return SchemaInvalid(message, code=code) if SAYS_WRONG_FILE.search(reason) else RateLimited(message, code=code)
    no_access = SAYS_NO_ACCESS.search(reason) and not SAYS_WRONG_FILE.search(reason)
    return Fatal(message, code=code) if no_access else SchemaInvalid(message, code=code)


def code_of(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code") or "Unknown")


def find_region() -> str | None:
    """The region of the environment, or of the profile in use."""
    return vendor_variable("AWS_REGION", "AWS_DEFAULT_REGION") or profile_in_use().get("region")


def key_name() -> str:
    """Which key is used: the end of its public part. Those that are lent for a while are all one."""
    key = vendor_variable("AWS_ACCESS_KEY_ID")
    return key[-4:] if key and not vendor_variable("AWS_SESSION_TOKEN") else "chain"


def has_keys() -> bool:
    """Whether there is something to get keys from. Their source is not asked: it may be another machine."""
    if vendor_variable("AWS_ACCESS_KEY_ID", *ROLE_VARIABLES):
        return True
    if any(name in profile_in_use() for name in KEYS_OF_A_PROFILE):
        return True
    try:
        return "amazon" in MACHINE.read_text().lower()  # the machine's own role
    except OSError:
        return False


def profile_in_use() -> dict[str, Any]:
    """What the files of Amazon's tools say of the profile in use; nothing if there are none, or they are broken."""
    if find_spec("boto3") is None:
        return {}
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session  # type: ignore[import-untyped]

    session = Session()
    try:
        profiles: dict[str, dict[str, Any]] = session.full_config.get("profiles", {})
        return profiles.get(session.get_config_variable("profile") or "default", {})
    except BotoCoreError:
        return {}
