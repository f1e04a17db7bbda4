"""The interface of a provider: submit, find, poll, fetch, cancel. A class with these five is a provider.

The engine decides when each is called, and keeps what comes of it; a provider keeps nothing between two calls. It
raises what went wrong in one of the four categories (`holdfast.errors`), and never tries anything again by itself:

RateLimited    refused for now; certainly not done. The engine waits until the provider accepts calls again
Transient      it may work later. Raised by `submit` it means that the job may have been begun
SchemaInvalid  refused for good, because of what was asked
Fatal          refused for good, for another reason: no access, no money, no such job
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from holdfast.engine.task import Category, Json
from holdfast.objects import Objects


@dataclass(frozen=True)
class Input:
    """One of the things that a job is to do. The key tells it from all others of its task: letters, digits and -."""

    key: str
    uri: str = ""
    """Of a recording: where it is, as `https://`, `s3://`, `gs://`, `object:` or `file://`."""
    body: Json = None
    """Of a prompt: the request as a chat API takes it, without the model: `{"messages": [...], "max_tokens": 100}`."""
    name: str = ""
    """Its name for people."""


@dataclass(frozen=True)
class Job:
    """A job as the engine knows it."""

    token: str
    """Its name for the provider, made before anything was asked: [0-9a-z-], 64 characters at most, never used again."""
    task_type: str
    model: str | None
    account: str
    """Where it was, or is to be submitted: what `Provider.account` was then."""
    external_id: str | None
    """The provider's name for it, once that is known."""
    intended_at: datetime | None
    """When the first try to submit it was about to be made; by the database's clock."""
    memo: Json
    """What the provider asked to be remembered of it."""
    remember: Callable[[Json], Awaitable[None]] = field(repr=False)
    """Keep a memo, and wait until it is safe: for a provider that needs two calls to begin a job."""
    objects: Objects = field(repr=False)
    place: str
    """Where files of this job may be kept among the objects, under names that begin with this."""


@dataclass(frozen=True)
class Running:
    """It is not over yet. An unknown status counts as running too."""

    status: str
    """In the provider's own words."""
    again_in: timedelta | None = None
    """When to ask again, if the provider names a time."""
    done: int | None = None
    """How many of its inputs are done, if the provider counts them."""


@dataclass(frozen=True)
class Ended:
    """It is over. What became of each input is fetched, unless there is nothing to fetch."""

    status: str
    outcome: Literal["succeeded", "failed", "cancelled", "expired"]
    error: str | None = None
    category: Category | None = None
    has_results: bool = True
    memo: Json = None
    """What `fetch` needs to know, such as the names of files; kept as the job's memo if it is given."""


@dataclass(frozen=True)
class Usage:
    """What was spent. Without `cost_cents` the engine's table of prices says what the tokens cost."""

    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost_cents: Decimal | None = None


@dataclass(frozen=True)
class Result:
    """What became of one input: its output, or why there is none."""

    key: str
    output: Json = None
    error: str | None = None
    category: Category | None = None
    usage: Usage | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


class CannotTell(Exception):
    """Raised by `find`: the provider cannot say whether it has this job. A person must look."""


class CannotCancel(Exception):
    """Raised by `cancel`: what was begun cannot be stopped there."""


class Provider(ABC):
    """A provider: five methods, and attributes that the engine goes by."""

    name: str
    """In capitals: "AWS"."""
    task_types: Sequence[str] = ("transcription",)
    account: str = "default"
    """Which account is used, for people and for the budget that its requests share; no secret."""
    inputs_per_job: int = 100
    poll_every: timedelta = timedelta(seconds=120)
    limit: timedelta = timedelta(hours=26)
    """How long a task may be in progress."""
    requests_per_minute: int | None = None
    """What the account may ask in a minute, all workers together; None if that is not counted."""
    calls_at_once: int = 8
    """How many calls one worker makes at the same time."""
    repeats_submit: bool = False
    """Whether a job that is submitted twice under the same token is one job. Otherwise `find` is asked first."""
    listed_within: timedelta = timedelta(seconds=120)
    """How long after it was begun a job may still be missing from what `find` looks through."""
    merges: Literal["list", "model"] = "list"
    """How results are put together: one list, or one for each model."""

    def missing(self, task_type: str) -> str | None:
        """What must be set or installed before it can be used for that, as a sentence; None if nothing."""
        return None

    def models(self, task_type: str) -> Sequence[str]:
        """The models to use where a task names none. None at all: there is no choice of models here."""
        return ()

    def refuse(self, task_type: str, one: Input) -> str | None:
        """Why an input can never be done here; None if it can be tried. No server is asked."""
        return None

    async def check(self) -> None:  # noqa: B027
        """Ask something that costs nothing. Raises a Failure if the provider does not answer as it should."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections and processes."""

    @abstractmethod
    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        """Begin the job; the provider's name for it."""

    @abstractmethod
    async def find(self, job: Job) -> str | None:
        """The provider's name for the job of this token, if it has one. Raises CannotTell."""

    @abstractmethod
    async def poll(self, job: Job) -> Running | Ended:
        """Its status. A job that is gone has ended: as expired, with nothing to fetch."""

    @abstractmethod
    def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        """What became of the inputs, in any order; one that is missing has failed. Each call begins from the start."""

    @abstractmethod
    async def cancel(self, job: Job) -> Ended | None:
        """Stop it; harmless if it has ended. Raises CannotCancel.

        None: it is asked to stop, and polls show when it has. A provider that works only while it is polled returns
        here what has become of the job, and is not polled again.
        """
