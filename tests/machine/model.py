"""What must be true of every task, remembered outside the database.

No second engine: the model replays the events of each call, knows from the declarations where a verb leads, and keeps
what only the callers know, namely which leases were handed out and which settlements were accepted. Whatever moves
without one of the few reasons that are written here is a fault.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.task import Cancelled, Done, Failed, Later, Lease, Moved, Outcome, Partial, Settled
from tests.machine.seen import WITH_EFFECTS, Row, Seen, note_value, proof


def leads(machine: Lifecycle, state: str, verb: str) -> str | None:
    """Where a verb leads by the declaration, the engine's own verbs included."""
    here = machine[state]
    if target := here.target(verb):
        return target
    if verb == "limit" and here.limit:
        return here.limit.to or state
    if verb in ("claim", "park", "admit") and here.actor == "worker":
        return state
    if state not in machine.leasable:
        return None
    if verb == "lost":
        return here.target("retry") or state
    return state if verb in ("later", "retry", "ask_cancel") else None


def bump(machine: Lifecycle, state: str, verb: str, to: str) -> int:
    """What a move adds to the attempt: one when a failed or lost attempt runs again, and nothing else."""
    if verb == "due":
        return int(any(other.target("retry") == state for other in machine.states))
    return int(verb in ("retry", "lost") and machine[to].actor == "worker")


def is_final(machine: Lifecycle, state: str | None) -> bool:
    return state is not None and machine[state].actor == "nobody"


@dataclass
class Life:
    """One task, as far as callers could know it."""

    machine: Lifecycle
    state: str
    version: int = 0
    attempt: int = 1
    handed: list[Lease] = field(default_factory=list)
    """Every lease that was ever given out for it, the newest last."""
    lease: Lease | None = None
    """The one that counts."""
    until: datetime | None = None
    asked_to_cancel: bool = False
    crashes: int = 0
    failures: Counter[str | None] = field(default_factory=Counter)
    limited_since: datetime | None = None
    accepted: tuple[Lease, Outcome, Settled] | None = None
    """The settlement that ended it."""
    steps: dict[str, object] = field(default_factory=dict)
    """What was first written for each step."""
    log: list[tuple[str, bool]] = field(default_factory=list)
    """The steps in the order in which they were met, each with whether it was completed then."""

    inherited: frozenset[str] = frozenset()
    """The steps that it did not do itself, since it was retried from a later one."""
    last_step_at: datetime | None = None

    def slowed_down_since(self) -> datetime | None:
        """Whoever got on with a step was not held up all the time."""
        since, step = self.limited_since, self.last_step_at
        return None if since and step and step > since else since

    def write(self, step: str, result: object, at: datetime | None = None) -> object:
        """The result that counts."""
        if step not in self.steps:
            self.steps[step] = result
            self.last_step_at = at or self.last_step_at
            self.log.append((step, True))
        return self.steps[step]

    def inherit(self, steps: Mapping[str, object]) -> None:
        for step, result in steps.items():
            self.write(step, result)

    def completed_before(self, step: str | None) -> dict[str, object]:
        """The steps that need not be done again if it begins anew with this one."""
        names = [name for name, _ in self.log]
        before = set(self.log[: names.index(step)] if step else self.log)
        return {name: result for name, result in self.steps.items() if (name, True) in before}

    def holds(self, lease: Lease) -> bool:
        return self.lease is not None and proof(self.lease) == proof(lease)


@dataclass(frozen=True)
class Call:
    """What a call has done, by its own words."""

    claimed: Sequence[Lease] = ()
    settled: Mapping[UUID, str] = field(default_factory=dict)
    """The verb by which each accepted settlement must have moved its task."""
    kept: Iterable[UUID] = ()
    """The tasks that a checkpoint moved under their lease."""
    swept: bool = False
    lost: Set[UUID] = frozenset()
    """The tasks whose workers were seen to die."""
    acted: UUID | None = None
    inherited: frozenset[str] = frozenset()
    """The steps with which a retry was born."""


class Model:
    """All tasks of one example."""

    def __init__(self, seen: Seen, tally: Counter[str]) -> None:
        self.seen = seen
        self.lives: dict[UUID, Life] = {}
        self.steps_with_effects: Counter[tuple[UUID, str]] = Counter()
        self.tally = tally

    def observe(self, after: Seen, call: Call) -> None:
        """Take a call's events in, and refuse whatever had no reason to happen."""
        before, self.seen = self.seen, after
        leases = {lease.task_id: lease for lease in call.claimed}
        assert len(leases) == len(call.claimed), "one task was handed out twice in one call"
        for event in after.events:
            self._fold(event, before, after, call, leases)
        assert not leases, f"handed out without a claim: {leases}"
        self._compare(before, after)
        self._compare_effects(after)
        assert after.starving <= before.starving, "a place is free, and who waits for it was not let in"
        for key, number in after.admitted.items():
            assert number <= max(after.allowed[key], before.admitted[key]), f"{number} were let in for {key}"

    def wait(self, until: datetime) -> None:
        """Time alone changes nothing: whatever differs at the next look was done by the call in between."""
        self.seen = replace(self.seen, now=until, events=[], effects=[], touched=frozenset())

    def _fold(self, event: Row, before: Seen, after: Seen, call: Call, leases: dict[UUID, Lease]) -> None:
        task, verb = event["task_id"], event["verb"]
        if event["version"] == 0:
            assert task not in self.lives
            self.lives[task] = Life(after.machine(task), event["to_state"], inherited=call.inherited)
            return
        life = self.lives[task]
        step = f"{task}: {event['from_state']} -{verb}-> {event['to_state']}"
        assert (event["version"], event["from_state"]) == (life.version + 1, life.state), step
        assert event["to_state"] == leads(life.machine, life.state, verb), f"{step} is not declared"
        assert event["attempt"] == life.attempt + bump(life.machine, life.state, verb, event["to_state"]), step
        assert not is_final(life.machine, life.state), f"{step} leaves a final state"
        self.tally[f"verb {verb}"] += 1
        self.tally["a limit woke a worker"] += verb == "limit" and event["to_state"] == life.state
        if verb == "claim":
            self._claimed(life, leases.pop(task), event, before)
        elif verb == "ask_cancel":
            assert life.lease, f"{step}: nobody holds it"
            life.asked_to_cancel = True
        elif verb in ("park", "admit"):
            assert life.lease is None, f"{step}: it is held"
        elif verb.startswith("to:") and task in call.kept:
            assert life.lease, f"{step}: a checkpoint without a lease"
        elif life.lease:
            self._released(life, event, before, call, step)
        else:
            self._moved_freely(life, event, before, call, step)
        if verb not in ("claim", "park", "admit", "ask_cancel") and task not in call.kept:
            limited = note_value(event, "category") == "RateLimited"
            life.limited_since = (life.slowed_down_since() or after.now) if limited else None
        life.version, life.attempt, life.state = event["version"], event["attempt"], event["to_state"]

    def _claimed(self, life: Life, lease: Lease, event: Row, before: Seen) -> None:
        was = before.live[lease.task_id]
        if was["version"] == event["version"] - 1:
            assert was["deadline"] is None or self.seen.now < was["deadline"], f"{lease.task_id} is past its limit"
        assert life.lease is None, f"{lease.task_id} is claimed while {life.lease} holds it"
        assert lease.token not in {old.token for old in life.handed}, "a token came back"
        assert (lease.version, lease.attempt) == (event["version"], event["attempt"])
        assert lease.due_at <= self.seen.now < lease.expires_at
        assert lease.queue not in self.seen.paused
        assert not life.asked_to_cancel, f"{lease.task_id} is claimed although it is to be cancelled"
        life.lease, life.until = lease, lease.expires_at
        life.handed.append(lease)

    def _released(self, life: Life, event: Row, before: Seen, call: Call, step: str) -> None:
        """A lease ends by its own settlement, by the limit of the state, or after it ran out; by nothing else."""
        verb, now = event["verb"], self.seen.now
        life.lease = None
        if event["task_id"] in call.settled:
            assert verb == call.settled[event["task_id"]], f"{step}, not {call.settled[event['task_id']]}"
            if life.asked_to_cancel:
                self.tally[f"asked to cancel while held, ended by {'cancel' if verb == 'cancel' else 'itself'}"] += 1
        elif self._is_past_its_limit(life, event, before):
            self.tally["a limit ended a lease"] += 1
        else:
            assert call.swept or event["task_id"] in call.lost, f"{step}: its lease was taken away"
            assert life.until is not None
            assert life.until < now or event["task_id"] in call.lost, f"{step}: its lease lasts until {life.until}"
            budget_left = life.crashes + 1 < life.machine.crash_budget
            assert verb == ("cancel" if life.asked_to_cancel else "lost" if budget_left else "fail"), step
            life.crashes += 1
            self.tally["reaped, the budget used up" if verb == "fail" else "reaped"] += 1

    def _is_past_its_limit(self, life: Life, event: Row, before: Seen) -> bool:
        """Whoever is to be cancelled is not woken by its limit, but cancelled."""
        deadline = before.live[event["task_id"]]["deadline"]
        past = deadline is not None and deadline <= self.seen.now
        limit = life.machine[life.state].limit
        woken = limit is not None and limit.to is None
        assert past or event["verb"] != "limit", f"{event} before its deadline"
        return past and event["verb"] == ("cancel" if woken and life.asked_to_cancel else "limit")

    def _moved_freely(self, life: Life, event: Row, before: Seen, call: Call, step: str) -> None:
        task, verb, now = event["task_id"], event["verb"], self.seen.now
        actor = life.machine[life.state].actor
        was = before.live.get(task)
        if verb == "limit":
            assert was, step
            assert was["deadline"] <= now, f"{step}: before its deadline"
            self.tally[f"limit of {life.machine.name} {life.state}"] += 1
        elif verb == "due":
            assert actor == "clock", step
            assert self.seen.row(task)["due_at"] <= now, f"{step}: before its time"
        elif verb == "cancel":
            self.tally[f"cancelled from {life.state}"] += 1
        elif actor == "tasks":
            self.tally[f"fan-in: {verb}" if life.machine.name == "ingest" else verb] += 1
        else:
            assert actor == "owner", f"{step}: nobody may do that"
            assert task == call.acted, step

    def _compare(self, before: Seen, after: Seen) -> None:
        """The rows say what the events say; what is final stays as it is; the first result of a step stays."""
        assert len(after.live) + len(after.done) == len(self.lives), "there are tasks too many, or some are missing"
        for task in after.touched:
            life, row = self.lives[task], after.row(task)
            assert (task in after.live) != (task in after.done), f"{task} is live and finished, or neither"
            assert (row["state"], row["version"], row["attempt"]) == (life.state, life.version, life.attempt), (
                f"{task} is not where its events lead to"
            )
            token = life.lease and life.lease.token
            assert row["lease_token"] == token, f"{task} is not held as it was handed out"
            assert before.done.get(task, row) == row, f"{task} was final and changed"
        for name, row in after.steps.items():
            was = before.steps.get(name)
            if was is not None and was is not row:
                changed = [column for column in row.keys() if was[column] != row[column]]  # noqa: SIM118
                assert not was["done"] or changed in ([], ["failures"]), f"the step {name} was done; {changed} changed"

    def _compare_effects(self, after: Seen) -> None:
        """Of every move of a lifecycle with effects these were told, once; and of every step that was first done."""
        moves = Counter(
            (event["task_id"], event["verb"], event["from_state"], event["to_state"], event["attempt"])
            for event in after.events
            if self.lives[event["task_id"]].machine.name in WITH_EFFECTS
        )
        effects_seen = Counter(
            (effect["task_id"], effect["verb"], effect["from_state"], effect["to_state"], effect["attempt"])
            for effect in after.effects
            if effect["step"] is None and effect["verb"] != "retried"
        )
        assert effects_seen == moves, "the effects of these moves are missing, or doubled"
        retried = Counter(effect["task_id"] for effect in after.effects if effect["verb"] == "retried")
        born = {event["task_id"] for event in after.events if event["from_state"] == ""}
        assert retried.keys() <= born, "a retry was told of a task that is no new one"
        assert max(retried.values(), default=1) == 1, "a retry was told twice"
        for effect in after.effects:
            if effect["step"]:
                self.steps_with_effects[effect["task_id"], effect["step"]] += 1
        for (task, name), row in after.steps.items():
            if task in after.touched and self.lives[task].machine.name in WITH_EFFECTS:
                first_here = row["done"] and name not in self.lives[task].inherited
                assert self.steps_with_effects[task, name] == first_here, f"the effects of step {name} of {task}"

    def foresee(self, lease: Lease, outcome: Outcome) -> tuple[str, str | None]:
        """The status that a settlement must get, and the verb by which it moves its task."""
        life = self.lives[lease.task_id]
        if not life.holds(lease):
            if life.accepted and proof(life.accepted[0]) == proof(lease) and life.accepted[1] == outcome:
                return "repeat", None
            return "lost", None
        verb = self._reaction(life, self.seen.live[lease.task_id], outcome)
        if verb and leads(life.machine, life.state, verb):
            return "ok", verb
        unknown = isinstance(outcome, Moved) and outcome.to not in {state.name for state in life.machine.states}
        return "unknown_state" if unknown else "undeclared", None

    def _reaction(self, life: Life, row: Row, outcome: Outcome) -> str | None:
        to_go_on = "cancel" if life.asked_to_cancel else None
        match outcome:
            case Done():
                return "done"
            case Partial():
                return "partial"
            case Moved(to):
                ends = is_final(life.machine, leads(life.machine, life.state, f"to:{to}"))
                return (None if ends else to_go_on) or f"to:{to}"
            case Later():
                return to_go_on or "later"
            case Cancelled():
                return to_go_on
            case Failed(category="RateLimited"):
                since = life.slowed_down_since()
                too_long = since is not None and self.seen.now - since > life.machine.rate_wait
                return "fail" if too_long else to_go_on or "later"
            case Failed(category=("SchemaInvalid" | "Fatal")):
                return "fail"
            case Failed(category, step=step):
                most = min(row["max_attempts"], 3) if category is None else row["max_attempts"]
                return "fail" if life.failures[step] + 1 >= most else to_go_on or "retry"

    def accept(self, lease: Lease, outcome: Outcome, verb: str, was: str, answer: Settled) -> None:
        """A settlement was taken: what it cost, when the task goes on, and whether the call can be repeated."""
        life = self.lives[lease.task_id]
        if isinstance(outcome, Failed) and outcome.category in (None, "Transient"):
            life.failures[outcome.step] += 1
        if isinstance(outcome, Failed) and outcome.step and (outcome.category != "RateLimited" or verb != "cancel"):
            life.log.append((outcome.step, False))
        row = self.seen.row(lease.task_id)
        if is_final(life.machine, leads(life.machine, was, verb)):
            life.accepted = (lease, outcome, answer)
        elif row["verb"] == verb and verb in ("later", "retry"):
            self._check_due(life, lease, outcome, row["due_at"])

    def _check_due(self, life: Life, lease: Lease, outcome: Outcome, due_at: datetime) -> None:
        """As asked; else a poll keeps its place in the queue, and a failure waits longer each time."""
        wait = due_at - self.seen.now
        match outcome:
            case Later(delay):
                assert due_at == lease.due_at if delay is None else wait == delay
            case Failed(retry_after=delay) if delay is not None:
                assert wait == delay
            case Failed(category="RateLimited"):
                backoff = life.machine.backoff
                waited = self.seen.now - (life.limited_since or self.seen.now)
                assert max(backoff.first, min(waited, backoff.most / 2)) <= wait
                assert wait <= max(backoff.first, min(waited, backoff.most)) * 1.1
            case Failed(step=step):
                least = min(life.machine.backoff.first * 2 ** (life.failures[step] - 1), life.machine.backoff.most)
                assert least <= wait <= least * 1.1, f"failure {life.failures[step]} waits {wait}"
