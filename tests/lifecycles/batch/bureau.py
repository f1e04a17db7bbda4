"""A provider that a test holds in its hand: what it is asked, what it has begun, and what goes wrong with it.

It keeps a ledger of every job that it ever began, by token, without looking whether it had one: the witness.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from holdfast.batch import CannotCancel, CannotTell, Ended, Input, Job, Provider, Result, Running, Usage

Trouble = Exception | Callable[[], Any] | None


@dataclass
class Begun:
    """A job at the bureau."""

    id: str
    token: str
    inputs: list[str]
    polls: int = 0
    cancelled: bool = False
    over: bool = False


@dataclass
class Bureau(Provider):
    """Does every job after `polls` polls. What is in `before` or `after` a call is raised or called, one each time."""

    name: str = "BUREAU"
    task_types: Sequence[str] = ("transcription", "completion")
    polls: int = 2
    inputs_per_job: int = 2
    repeats_submit: bool = False
    can_cancel: bool = True
    can_tell: bool = True
    shows: Callable[[Begun], bool] = lambda begun: True
    """Whether a listing shows a job already."""
    bad: dict[str, str] = field(default_factory=dict)
    """Inputs that fail, and why; by a part of their name."""
    wrong: str | None = None
    """How the job as a whole ends badly."""
    ledger: list[Begun] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: dict[str, list[Trouble]] = field(default_factory=lambda: defaultdict(list))
    after: dict[str, list[Trouble]] = field(default_factory=lambda: defaultdict(list))
    statuses: list[str] = field(default_factory=list)
    listed_within: timedelta = timedelta(seconds=60)
    poll_every: timedelta = timedelta(seconds=120)
    limit: timedelta = timedelta(hours=26)
    account: str = "main"
    requests_per_minute: int | None = None
    calls_at_once: int = 8

    def __hash__(self) -> int:
        return id(self)

    def hit(self, when: dict[str, list[Trouble]], call: str) -> None:
        trouble = when[call].pop(0) if when[call] else None
        if isinstance(trouble, BaseException):
            raise trouble
        if trouble:
            trouble()

    def known(self, job: Job) -> Begun:
        return next(one for one in self.ledger if one.id == job.external_id)

    def refuse(self, task_type: str, one: Input) -> str | None:
        return "The bureau does not read that." if one.uri.endswith(".exe") else None

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        self.asked.append(("submit", job.token))
        self.hit(self.before, "submit")
        if self.repeats_submit and (found := next((one for one in self.ledger if one.token == job.token), None)):
            return found.id
        self.ledger.append(Begun(f"B{len(self.ledger) + 1}", job.token, [one.key for one in inputs]))
        self.hit(self.after, "submit")
        return self.ledger[-1].id

    async def find(self, job: Job) -> str | None:
        self.asked.append(("find", job.token))
        self.hit(self.before, "find")
        if not self.can_tell:
            raise CannotTell("Its list has no names.")
        return next((one.id for one in self.ledger if one.token == job.token and self.shows(one)), None)

    async def poll(self, job: Job) -> Running | Ended:
        self.asked.append(("poll", job.token))
        self.hit(self.before, "poll")
        begun = self.known(job)
        begun.polls += 1
        if begun.cancelled:
            begun.over = True
            return Ended("cancelled", "cancelled", "It was cancelled.", has_results=False)
        if self.statuses:
            return Running(self.statuses.pop(0))
        if begun.polls < self.polls:
            return Running("working", done=0)
        begun.over = True
        if self.wrong:
            return Ended("failed", "failed", self.wrong, "SchemaInvalid", has_results=False)
        return Ended("ready", "succeeded")

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        self.asked.append(("fetch", job.token))
        self.hit(self.before, "fetch")
        for one in reversed(inputs):
            name = one.uri or one.name
            reason = next((why for part, why in self.bad.items() if part in name), None)
            if reason == "missing":
                continue
            usage = Usage(job.model or "ear", tokens_in=10, tokens_out=1, cost_cents=Decimal("0.5"))
            if reason:
                yield Result(one.key, error=reason, category="SchemaInvalid")
            else:
                yield Result(one.key, {"transcript": f"words of {name}"}, usage=usage)

    async def cancel(self, job: Job) -> None:
        self.asked.append(("cancel", job.token))
        self.hit(self.before, "cancel")
        if not self.can_cancel:
            raise CannotCancel
        self.known(job).cancelled = True

    @property
    def begun_per_token(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for one in self.ledger:
            counts[one.token] += 1
        return dict(counts)

    @property
    def running(self) -> list[str]:
        """What nobody has stopped, and has not ended."""
        return [one.id for one in self.ledger if not (one.over or one.cancelled)]
