"""What Python and the database exchange: one frozen class per shape, nothing decided here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

from holdfast.durations import parse_duration
from holdfast.engine.publication import Output as Output

JSON = "JSON"
Json = Annotated[Any, JSON]
"""What JSON holds. A field of a record that is annotated so is JSON in the database, too."""
Duration = timedelta | str | float
Category = Literal["RateLimited", "Transient", "SchemaInvalid", "Fatal"]
Policy = Literal["cancel", "skip", "ignore"]


@dataclass(frozen=True)
class Submission:
    """A task to be. `after` and `parent` are tasks that exist, or the places of earlier ones in the same call.

    What follows if one of `after` ends badly says `on_failure`; or each for itself, as {task: policy}.
    """

    name: str | None = None
    payload: Json = None
    lifecycle: str = "dispatch"
    queue: str | None = None
    priority: int = 0
    key: str | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    owner: str = ""
    after: Sequence[UUID | int] | Mapping[UUID | int, Policy] = ()
    on_failure: Policy = "cancel"
    parent: UUID | int | None = None
    limit_key: str | None = None
    limit_to: int | None = None
    time_limit: timedelta | None = None
    tags: Sequence[str] = ()
    trace: str | None = None


@dataclass(frozen=True)
class Submitted:
    """The task's id, and whether this call made it or an earlier one with the same key."""

    id: UUID | None
    created: bool


@dataclass(frozen=True)
class Proof:
    """What proves a lease: all that a worker must send to act under it."""

    task_id: UUID
    attempt: int
    token: UUID


@dataclass(frozen=True)
class Lease(Proof):
    """The right to run one attempt of one task, until it expires. Token and attempt prove it.

    `crashes` counts the workers that were lost with it; with `last_chance`, one more ends it. `resumed`: it was held
    before, and may have steps.
    """

    expires_at: datetime
    lifecycle: str
    name: str
    owner: str
    state: str
    queue: str
    priority: int
    due_at: datetime
    deadline: datetime | None
    timed_out: bool
    max_attempts: int
    version: int
    payload: Json = field(repr=False)
    crashes: int = 0
    last_chance: bool = False
    resumed: bool = False
    trace: str | None = None


class Greeting(TypedDict):
    """What a worker says of itself: its queues, its tasks by name (None: any), and what it knows of each of these."""

    label: str
    queues: Sequence[str]
    names: Sequence[str] | None
    slots: int
    tasks: NotRequired[Mapping[str, Mapping[str, Json]] | None]


class FeedFilter(TypedDict, total=False):
    """The moves that are meant; what is left out or None is everything, and everybody's."""

    lifecycles: Sequence[str] | None
    tasks: Sequence[UUID] | None
    owner: str | None


class Claiming(TypedDict):
    """How long the leases last, whose they are, and of which tasks; `since` leaves out what stands before it."""

    lasting: timedelta
    worker: str
    names: NotRequired[Sequence[str] | None]
    since: NotRequired[tuple[datetime, UUID] | None]


@dataclass(frozen=True)
class Beat:
    """The lease lasts on; and whether somebody wants the task cancelled."""

    expires_at: datetime
    cancel_requested: bool


@dataclass(frozen=True)
class Done:
    """All of it is done. Its outputs are published with it, by `deliver`."""

    result: Json = None
    outputs: Sequence[Output] = ()


@dataclass(frozen=True)
class Partial:
    """Some of it is done, and that is the end of it."""

    result: Json = None


@dataclass(frozen=True)
class Moved:
    """It goes on in another state of its lifecycle. The delay: "5m", a number of seconds, or a timedelta."""

    to: str
    body: Json = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        _read_delay(self)


@dataclass(frozen=True)
class Later:
    """It waits where it is, at no cost: for a poll, a budget, or because its worker shuts down. `Later("2m")`."""

    delay: Duration | None = None
    at: datetime | None = None
    kind: str | None = None
    message: str | None = None
    """What it waits for, as a sentence for people."""
    steps: Sequence[str] = ()
    """Steps that others do, such as an answer: if one of them is done already, it does not wait at all."""

    def __post_init__(self) -> None:
        _read_delay(self)


@dataclass(frozen=True)
class Failed:
    """It failed. The category decides what follows; None is a failure that is not in one."""

    category: Category | None
    message: str
    code: str | None = None
    step: str | None = None
    retry_after: timedelta | None = None
    retry_at: datetime | None = None
    budget: str | None = None
    """The budget shared by all who call the same provider: nobody spends of it until this one is tried again."""


@dataclass(frozen=True)
class Cancelled:
    """The handler stopped because it was asked to."""

    reason: str | None = None


def _read_delay(outcome: Moved | Later) -> None:
    """Whatever the delay was written as, it is a timedelta from here on. Raises RequestInvalid."""
    if outcome.delay is not None:
        object.__setattr__(outcome, "delay", parse_duration(outcome.delay))


Outcome = Done | Partial | Moved | Later | Failed | Cancelled
Settlement = tuple[Proof, Outcome]


@dataclass(frozen=True)
class Settled:
    """What became of a settlement. `repeat` is the answer to the very same one, given again."""

    task_id: UUID
    status: Literal["ok", "repeat", "lost", "stale", "undeclared", "unknown_state", "refused"]
    state: str | None
    version: int | None
    attempt: int | None
    due_at: datetime | None


@dataclass(frozen=True)
class Completion:
    """A settlement with the events (kind, step, data) of the attempt that it ends."""

    proof: Proof
    outcome: Outcome
    events: Sequence[tuple[str, str | None, Json]] = ()


@dataclass(frozen=True)
class Ended:
    """How a task ended: its final state and outcome, its result, or the error or reason that was noted."""

    task_id: UUID
    state: str
    outcome: Literal["done", "partial", "failed", "cancelled"]
    result: Json
    note: Json


@dataclass(frozen=True)
class Checkpoint:
    """A step that is done, a move to another state under the same lease, or both."""

    lease: Proof
    step: str | None = None
    result: Json = None
    to: str | None = None
    usage: Json = None


@dataclass(frozen=True)
class Checkpointed:
    """What became of it; `result` is what the first to write this step has written."""

    task_id: UUID
    step: str | None
    status: Literal["ok", "stored", "lost", "undeclared", "settle_only", "unknown_state"]
    result: Json
    cancel_requested: bool


@dataclass(frozen=True)
class Upstream:
    """A task that another one waited for: how it ended (None: it has not), and what it returned."""

    name: str
    task_id: UUID
    policy: str
    outcome: Literal["done", "partial", "failed", "cancelled"] | None
    result: Json


@dataclass(frozen=True)
class Asked:
    """What became of a question. `secret` is what its link ends in, while it is open."""

    status: Literal["open", "answered", "late", "lost"]
    id: UUID | None
    secret: str | None
    until: datetime | None
    answer: Json


@dataclass(frozen=True)
class Explanation:
    """Who acts next, since when, what the task waits for, and what can be done about it."""

    reason: str
    actor: str
    state: str
    since: datetime
    until: datetime | None
    sentence: str
    fix: str


@dataclass(frozen=True)
class Event:
    """One move of a task."""

    version: int
    at: datetime
    verb: str
    from_state: str
    to_state: str
    attempt: int
    worker_id: str | None
    data: Json


@dataclass(frozen=True)
class Move(Event):
    """One move of a task as the live feed reports it. A reader that goes on from `cursor` gets what comes after it."""

    cursor: str
    task_id: UUID
    lifecycle: str | None
    name: str | None
    owner: str | None


@dataclass(frozen=True)
class Moves:
    """What one read of the feed has brought, where to read next, and whether there is more already."""

    moves: list[Move]
    cursor: str
    more: bool


@dataclass(frozen=True)
class Step:
    """A step of a task: done with its result, or failed so many times until now."""

    name: str
    done: bool
    failures: int
    attempt: int
    at: datetime
    result: Json


@dataclass(frozen=True)
class StepEvent:
    """Something that happened within a task: a step began, ended, failed, or waits to be tried again."""

    number: int
    at: datetime
    step: str
    kind: str
    attempt: int
    data: Json


@dataclass(frozen=True)
class Swept:
    """What a sweep moved."""

    reaped: int
    expired: int
    due: int
    admitted: int


@dataclass(frozen=True)
class Grant:
    """A share of a budget, or the time to ask again."""

    granted: bool
    retry_at: datetime | None
