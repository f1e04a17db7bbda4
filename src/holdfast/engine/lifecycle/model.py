"""A lifecycle is a table: states, who acts next in each, limits, and the moves between them.

Here it is only written down and checked (`soundness`); nothing in this module touches a database. Postgres enforces it
once it is declared there (`Store.declare`), for every task that was submitted under it, whichever program moves it.

    REVIEW = Lifecycle("review", start="DRAFT", cancel="WITHDRAWN", fail="BROKEN", states=[
        owner("DRAFT", acts={"hand_in": "CHECKING"}, limit=after(days=7, to="WITHDRAWN")),
        work("CHECKING", done="PUBLISHED"),
        final("PUBLISHED", "done"), final("BROKEN", "failed"), final("WITHDRAWN", "cancelled"),
    ])

A task keeps the version it was submitted under. A change of a lifecycle that is in use raises `version`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack

from holdfast.engine.lifecycle import validate
from holdfast.errors import DeclarationInvalid

Actor = Literal["owner", "tasks", "worker", "clock", "nobody"]
Outcome = Literal["done", "partial", "failed", "cancelled"]


@dataclass(frozen=True)
class Move:
    """From its state, this verb leads there."""

    verb: str
    to: str


@dataclass(frozen=True)
class Limit:
    """How long a task may stay in a state, counted from its entry, and where it goes then."""

    after: timedelta
    to: str | None = None
    """The state it moves to; None wakes a worker in the same state, which finds the task marked as timed out."""
    renewed_up_to: timedelta | None = None
    """Each act of the owner in this state starts the limit again, until this much has passed in all."""
    per_task: bool = False
    """A task may bring its own limit with it, instead of this one."""
    message: str | None = None
    """What is said of a task whose time has passed, instead of just that."""


@dataclass(frozen=True)
class Display:
    """How a state is shown to people."""

    label: str
    colour: str = ""
    icon: str = ""
    message: str = ""


@dataclass(frozen=True)
class State:
    """One state. Its actor is who acts next."""

    name: str
    actor: Actor
    moves: tuple[Move, ...] = ()
    limit: Limit | None = None
    progress: int | tuple[int, int] | None = None
    """In percent; a pair is where it starts and where it is once all steps are done; None leaves it where it was."""
    display: Display | None = None
    outcome: Outcome | None = None
    """Of a final state: how the task ended."""

    def target(self, verb: str) -> str | None:
        """Where `verb` leads from here."""
        return next((move.to for move in self.moves if move.verb == verb), None)


@dataclass(frozen=True)
class Backoff:
    """How long a failed attempt waits: doubled each time, never longer than `most`, plus up to a tenth at random."""

    first: timedelta = timedelta(seconds=1)
    most: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Lifecycle:
    """A checked lifecycle. Raises DeclarationInvalid, which says what is wrong and how to mend it."""

    name: str
    start: str
    states: Sequence[State]
    cancel: str | None = field(default=None, compare=False)
    """Where cancelling leads from every state that is not final and does not say otherwise."""
    fail: str | None = field(default=None, compare=False)
    """Where failing for good leads from every state in which a worker may hold the task."""
    blocked: str | None = None
    """Where a task starts that must wait for other tasks."""
    version: int = 1
    queue: str | None = None
    """The queue of tasks that name none; by default it is called like the lifecycle."""
    max_attempts: int = 3
    crash_budget: int = 3
    """So many lost workers end a task as failed: it probably kills them."""
    backoff: Backoff = Backoff()
    rate_wait: timedelta = timedelta(days=1)
    """A task that is asked to slow down for longer than this in all fails."""
    effects: str | None = None
    """A function in the schema holdfast that is called with every move, in its transaction."""

    def __post_init__(self) -> None:
        validate.check(self, validate.find_wrong_names)
        object.__setattr__(self, "queue", self.queue or self.name)
        object.__setattr__(self, "states", tuple(self._complete(state) for state in self.states))
        validate.check(self, validate.find_problems)

    def _complete(self, state: State) -> State:
        """The state with the moves that the lifecycle gives to all."""
        moves = list(state.moves)
        if self.cancel and state.actor != "nobody" and not state.target("cancel"):
            moves.append(Move("cancel", self.cancel))
            if state.target("unblock") and not state.target("skip"):
                moves.append(Move("skip", self.cancel))
        if self.fail and state.actor == "worker" and state.name in self.leasable and not state.target("fail"):
            moves.append(Move("fail", self.fail))
        return replace(state, moves=tuple(moves))

    def __getitem__(self, name: str) -> State:
        return next(state for state in self.states if state.name == name)

    @property
    def leasable(self) -> frozenset[str]:
        """The states in which a worker may hold a task: claimed in place, or entered by a claim."""
        working = {state.name: state.target("claim") or state.name for state in self.states if state.actor == "worker"}
        return frozenset(working.values())

    def definition(self) -> dict[str, Any]:
        """The whole declaration as JSON, as the database keeps it."""
        return {
            **{name: getattr(self, name) for name in WRITTEN_AS_THEY_ARE},
            "backoff_seconds": self.backoff.first.total_seconds(),
            "backoff_most_seconds": self.backoff.most.total_seconds(),
            "rate_wait_seconds": self.rate_wait.total_seconds(),
            "states": [_state_definition(state) for state in self.states],
        }

    @classmethod
    def from_definition(cls, given: Mapping[str, Any]) -> "Lifecycle":
        """The lifecycle that `definition` wrote down."""
        first, most, wait = (
            timedelta(seconds=given[f"{name}_seconds"]) for name in ("backoff", "backoff_most", "rate_wait")
        )
        same: dict[str, Any] = {name: given.get(name) for name in WRITTEN_AS_THEY_ARE}
        states = [_state_from(state) for state in given["states"]]
        return cls(**same, states=states, backoff=Backoff(first, most), rate_wait=wait)


WRITTEN_AS_THEY_ARE = ("name", "version", "start", "blocked", "queue", "max_attempts", "crash_budget", "effects")


class Common(TypedDict, total=False):
    """What any state may say that is not final: its limit, where cancelling leads, and how it is shown."""

    limit: Limit | None
    cancel: str | None
    progress: int | None
    display: Display | None


def owner(name: str, *, acts: Mapping[str, str] | Iterable[tuple[str, str]], **more: Unpack[Common]) -> State:
    """A person or client acts next, with one of these verbs."""
    validate.check_list(name, "acts", acts)
    pairs = acts.items() if isinstance(acts, Mapping) else acts
    return _state(name, "owner", (Move(verb, to) for verb, to in pairs), **more)


def work(
    name: str,
    *,
    claim: str | None = None,
    done: str | None = None,
    partial: str | None = None,
    to: Iterable[str] = (),
    retry: str | None = None,
    fail: str | None = None,
    limit: Limit | None = None,
    cancel: str | None = None,
    progress: int | tuple[int, int] | None = None,
    display: Display | None = None,
) -> State:
    """A worker acts next. It holds the task where it is, or in the state that `claim` leads to.

    `to` are the states a worker may move on to by itself. A failed attempt waits here, or in `retry`.
    """
    validate.check_list(name, "to", to)
    own = _moves(claim=claim, done=done, partial=partial, retry=retry, fail=fail, cancel=cancel)
    return State(name, "worker", (*own, *(Move(f"to:{target}", target) for target in to)), limit, progress, display)


def blocked(name: str, *, unblock: str, skip: str | None = None, **more: Unpack[Common]) -> State:
    """The tasks that it depends on act next. `skip` is taken when one that may be skipped for ended badly."""
    return _state(name, "tasks", _moves(unblock=unblock, skip=skip or more.get("cancel")), **more)


def gather(name: str, *, done: str, partial: str, fail: str, **more: Unpack[Common]) -> State:
    """Its children act next. Once all have ended: all well is `done`, none is `fail`, anything between `partial`."""
    return _state(name, "tasks", _moves(done=done, partial=partial, fail=fail), **more)


def clock(name: str, *, due: str, **more: Unpack[Common]) -> State:
    """Time alone moves it on, at its due time."""
    return _state(name, "clock", _moves(due=due), **more)


def final(name: str, outcome: Outcome, *, progress: int | None = None, display: Display | None = None) -> State:
    """Nobody acts any more; this is how it ended."""
    return State(name, "nobody", progress=progress, display=display, outcome=outcome)


def after(
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    to: str | None = None,
    wake: bool = False,
    renewed_up_to: timedelta | None = None,
    per_task: bool = False,
    message: str | None = None,
) -> Limit:
    """A limit that moves the task `to` another state, or wakes a worker. Raises DeclarationInvalid unless it is one."""
    if wake == bool(to):
        raise DeclarationInvalid(
            "A limit needs one place to lead to.", fix="Write after(..., to='STATE'), or after(..., wake=True)."
        )
    lasting = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return Limit(lasting, to, renewed_up_to, per_task, message)


def _moves(**targets: str | None) -> tuple[Move, ...]:
    return tuple(Move(verb, to) for verb, to in targets.items() if to)


def _state(name: str, actor: Actor, moves: Iterable[Move], *, cancel: str | None = None, **look: Any) -> State:
    return State(name, actor, (*moves, *_moves(cancel=cancel)), **look)


def _state_definition(state: State) -> dict[str, Any]:
    limit = state.limit
    return {
        "name": state.name,
        "actor": state.actor,
        "outcome": state.outcome,
        "moves": {move.verb: move.to for move in state.moves},
        "limit": limit
        and {
            "seconds": limit.after.total_seconds(),
            "to": limit.to,
            "renewed_up_to_seconds": limit.renewed_up_to and limit.renewed_up_to.total_seconds(),
            "per_task": limit.per_task,
            **({"message": limit.message} if limit.message else {}),
        },
        "progress": list(state.progress) if isinstance(state.progress, tuple) else state.progress,
        "display": state.display and asdict(state.display),
    }


def _state_from(given: Mapping[str, Any]) -> State:
    limit, progress, display = given.get("limit"), given.get("progress"), given.get("display")
    total = limit and limit.get("renewed_up_to_seconds")
    return State(
        given["name"],
        given["actor"],
        tuple(Move(verb, to) for verb, to in given["moves"].items()),
        limit
        and Limit(
            timedelta(seconds=limit["seconds"]),
            limit.get("to"),
            timedelta(seconds=total) if total else None,
            limit.get("per_task", False),
            limit.get("message"),
        ),
        (progress[0], progress[1]) if isinstance(progress, list) else progress,
        display and Display(**display),
        given.get("outcome"),
    )
