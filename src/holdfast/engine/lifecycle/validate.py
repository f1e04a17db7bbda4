"""What makes a lifecycle valid: every task can end, every state can be reached, every verb leads to one place.

Each check is one sentence about the whole table, and says how to mend what breaks it. What the database must rely on
is checked there a second time when a lifecycle is declared (`sql/declare.sql`), for those who declare without Python.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.errors import DeclarationInvalid

if TYPE_CHECKING:
    from holdfast.engine.lifecycle.model import Lifecycle, State

Problems = Iterator[tuple[str, str]]
"""What is wrong, and how to mend it. The first one ends the checks: those behind it rely on it."""

ACTORS = ("owner", "tasks", "worker", "clock", "nobody")
OUTCOMES = ("done", "partial", "failed", "cancelled")

# The engine's own verbs. `to:` followed by a state is a worker's move.
ENGINE_VERBS = frozenset(
    {"submit", "submit_blocked", "claim", "later", "retry", "lost", "done", "partial", "fail", "cancel", "ask_cancel"}
    | {"limit", "due", "unblock", "skip", "park", "admit"}
)


def check(lifecycle: "Lifecycle", look: Callable[["Lifecycle"], Problems]) -> None:
    """Raises DeclarationInvalid for the first thing that is wrong."""
    for what, fix in look(lifecycle):
        raise DeclarationInvalid(f"{lifecycle.name}: {what}", fix=fix)


def find_wrong_names(lifecycle: "Lifecycle") -> Problems:
    """What must hold before anything else is looked at."""
    if not _is_name(r"[a-z][a-z0-9_]{0,62}", lifecycle.name):
        yield f"{lifecycle.name!r} cannot be its name.", "Take small letters, digits and _, starting with a letter."
    seen: set[str] = set()
    for state in lifecycle.states:
        if not _is_name(r"[A-Za-z][A-Za-z0-9_]{0,62}", state.name):
            yield f"{state.name!r} cannot be a state.", "Take letters, digits and _, a letter first."
        if state.actor not in ACTORS or state.outcome not in (None, *OUTCOMES):
            yield (
                f"{state.name}: {state.actor!r} with outcome {state.outcome!r} cannot be.",
                f"Acting are {', '.join(ACTORS)}; outcomes are {', '.join(OUTCOMES)}.",
            )
        if state.name in seen:
            yield f"The state {state.name} is declared twice.", "Give one of them another name."
        seen.add(state.name)


def check_list(state: str, what: str, given: object) -> None:
    """One name where a list of them belongs would be read letter by letter."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DeclarationInvalid(
            f"{state}: {what} is {given!r}.", fix=f"Write {what} with brackets, as in the examples."
        )


def find_problems(lifecycle: "Lifecycle") -> Problems:
    """What is wrong with the whole table."""
    yield from _check_figures(lifecycle)
    names = {state.name for state in lifecycle.states}
    if lifecycle.start not in names:
        yield f"It starts in {lifecycle.start!r}, which is not one of its states.", _one_of(names)
    if lifecycle[lifecycle.start].actor == "nobody":
        yield f"It starts in {lifecycle.start}, which is final.", "Start where somebody acts."
    if not any(state.actor == "nobody" for state in lifecycle.states):
        yield "No state of it is final, so no task could ever end.", "Add final('DONE', 'done')."
    for state in lifecycle.states:
        yield from _check_targets(lifecycle, state, names)
        yield from _check_limit(lifecycle, state, names)
        yield from _check_progress(state)
        yield from _check_actor(lifecycle, state)
    yield from _check_blocked(lifecycle, names)
    yield from _check_waiting(lifecycle)
    yield from _check_reachable(lifecycle)


def _check_figures(lifecycle: "Lifecycle") -> Problems:
    if not hasattr(lifecycle.backoff, "first") or not isinstance(lifecycle.rate_wait, timedelta):
        yield (
            f"backoff is {lifecycle.backoff!r} and rate_wait {lifecycle.rate_wait!r}.",
            "Write backoff=Backoff(timedelta(seconds=1), timedelta(hours=1)), rate_wait=timedelta(days=1).",
        )
    for name in ("version", "max_attempts", "crash_budget"):
        value = getattr(lifecycle, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 32_767:
            yield f"{name} is {value!r}.", "It must be a whole number from 1 to 32767."
    first, most = lifecycle.backoff.first.total_seconds(), lifecycle.backoff.most.total_seconds()
    if not 0 < first <= most:
        yield (
            f"The backoff starts with {first:g} s and ends with {most:g} s.",
            "It must start above zero and not above its end.",
        )
    if lifecycle.rate_wait.total_seconds() <= 0:
        yield "rate_wait must be more than nothing.", "Write rate_wait=timedelta(days=1)."
    if lifecycle.effects and not _is_name(r"[a-z][a-z0-9_]{0,62}", lifecycle.effects):
        yield (
            f"effects={lifecycle.effects!r} names no function.",
            "Name one of the schema holdfast, without the schema.",
        )


def _check_targets(lifecycle: "Lifecycle", state: "State", names: set[str]) -> Problems:
    seen: dict[str, str] = {}
    for move in state.moves:
        if move.verb in seen:
            yield (
                f"From {state.name}, {move.verb!r} leads to both {seen[move.verb]} and {move.to}.",
                "A verb leads to one place: give one of the two moves another verb.",
            )
        seen[move.verb] = move.to
        if move.to not in names:
            yield (
                f"From {state.name}, {move.verb!r} leads to {move.to!r}, which is not one of its states.",
                _one_of(names),
            )
    if state.actor == "nobody" and state.moves:
        yield f"{state.name} is final, yet moves on.", "Nothing leaves a final state."
    if (state.actor == "nobody") != (state.outcome is not None):
        yield f"{state.name}: a state has an outcome if and only if it is final.", "Use final(name, outcome)."
    if state.actor != "nobody" and "cancel" not in seen:
        yield (
            f"{state.name} cannot be cancelled.",
            "Write Lifecycle(..., cancel='CANCELLED') once, or cancel= in that state.",
        )
    for verb, outcomes in (("cancel", {"cancelled"}), ("skip", {"cancelled"}), ("fail", {"failed"})):
        if verb in seen and lifecycle[seen[verb]].outcome not in outcomes:
            yield (
                f"From {state.name}, {verb!r} leads to {seen[verb]}, which does not end a task that way.",
                f"Lead it to a final state declared as final(name, '{min(outcomes)}').",
            )
    for verb in ("done", "partial"):
        if verb in seen and lifecycle[seen[verb]].outcome in {"failed", "cancelled"}:
            yield (
                f"From {state.name}, {verb!r} leads to {seen[verb]}, which is a bad end.",
                "Lead it to a state that is not final, or that ended well.",
            )


def _check_limit(lifecycle: "Lifecycle", state: "State", names: set[str]) -> Problems:
    limit = state.limit
    if limit is None:
        return
    if not hasattr(limit, "renewed_up_to"):
        yield f"The limit of {state.name} is {limit!r}.", "Write limit=after(minutes=15, to='STATE')."
    if state.actor == "nobody":
        yield f"{state.name} is final and has a limit.", "Take the limit away; nothing leaves a final state."
    if not 0 < limit.after.total_seconds() <= 36_500 * 86_400:
        yield (
            f"The limit of {state.name} is not above zero and within a hundred years.",
            "Write after(minutes=15, ...).",
        )
    if limit.to is not None and limit.to not in names:
        yield f"The limit of {state.name} leads to {limit.to!r}, which is not one of its states.", _one_of(names)
    if limit.to == state.name:
        yield f"The limit of {state.name} leads back to itself.", "To wake a worker there, write wake=True."
    if limit.to is None and state.actor != "worker":
        yield f"The limit of {state.name} wakes a worker, but no worker acts there.", "Write after(..., to='STATE')."
    if limit.renewed_up_to is not None and (state.actor != "owner" or limit.renewed_up_to < limit.after):
        yield (
            f"The limit of {state.name} cannot be renewed like that.",
            "renewed_up_to belongs to a state in which the owner acts, and is not shorter than the limit.",
        )


def _check_progress(state: "State") -> Problems:
    if state.progress is None:
        return
    marks = state.progress if isinstance(state.progress, tuple) else (state.progress, state.progress)
    if len(marks) != 2 or not all(type(mark) is int for mark in marks) or not 0 <= marks[0] <= marks[1] <= 100:
        yield f"The progress of {state.name} is {state.progress}.", "It goes from 0 to 100, and never back."


def _check_actor(lifecycle: "Lifecycle", state: "State") -> Problems:
    """Each actor has verbs without which it could not act."""
    verbs = {move.verb for move in state.moves}
    match state.actor:
        case "owner":
            own = verbs - {"cancel"}
            taken = {verb for verb in own if verb in ENGINE_VERBS or not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", verb)}
            if taken:
                yield (
                    f"In {state.name} the owner's verb {min(taken)!r} cannot be used.",
                    "Take small letters, digits and _; the engine's own are: " + ", ".join(sorted(ENGINE_VERBS)) + ".",
                )
            if not own:
                yield f"In {state.name} the owner can do nothing.", "Name verbs: acts={'approve': 'APPROVED'}."
        case "worker":
            leased = state.name in lifecycle.leasable
            if leased and "fail" not in verbs:
                yield (
                    f"A worker holds a task in {state.name}, and may fail.",
                    "Write Lifecycle(..., fail='FAILED') once, or fail= in that state.",
                )
            if leased and not verbs & {"done", "partial"} and not any(verb.startswith("to:") for verb in verbs):
                yield f"From {state.name} a worker has nowhere to go.", "Give it done=, partial= or to=[...]."
            for verb in verbs & {"claim", "retry"}:
                there = lifecycle[state.target(verb) or ""]
                if there.actor not in ({"worker"} if verb == "claim" else {"worker", "clock"}):
                    yield (
                        f"From {state.name}, {verb!r} leads to {there.name}, where no worker acts.",
                        "Claim into a work(...) state; retry from a work(...) or clock(...) state.",
                    )
        case "clock" if "due" not in verbs:
            yield f"Time moves {state.name}, but nowhere.", "Write clock(name, due='STATE')."
        case "tasks" if ("unblock" in verbs) == ("done" in verbs):
            yield (
                f"{state.name} waits for other tasks, but it is not clear for which.",
                "Use blocked(name, unblock=...) for dependencies, gather(name, done=...) for children.",
            )


def _check_blocked(lifecycle: "Lifecycle", names: set[str]) -> Problems:
    blocked = lifecycle.blocked
    if blocked is not None and (blocked not in names or lifecycle[blocked].target("unblock") is None):
        yield (
            f"Tasks with dependencies would start in {blocked!r}, which does not wait for them.",
            "Name a state made with blocked(name, unblock=...).",
        )


def _check_reachable(lifecycle: "Lifecycle") -> Problems:
    """Everything can be reached from a start, and an end other than cancelling can be reached from everything."""
    onward = {state.name: {there for there, cancels in _exits(state) if not cancels} for state in lifecycle.states}
    everywhere = {state.name: {there for there, _ in _exits(state)} for state in lifecycle.states}
    starts = {start for start in (lifecycle.start, lifecycle.blocked) if start}
    reached = _closure(starts, everywhere)
    for state in lifecycle.states:
        if state.name not in reached:
            yield f"No move leads to {state.name}.", "Lead a move to it, or take it away."
        ends = [name for name in _closure({state.name}, onward) if lifecycle[name].actor == "nobody"]
        if not ends:
            yield f"From {state.name} a task can only be cancelled.", "Lead a move on from there."


def _check_waiting(lifecycle: "Lifecycle") -> Problems:
    """Of states that wait for other tasks, none leads back to itself through others of the kind: nobody would act."""
    waiting = {state.name for state in lifecycle.states if state.actor == "tasks"}
    onward = {name: {move.to for move in lifecycle[name].moves} & waiting for name in waiting}
    for name in waiting:
        if name in _closure(onward[name], onward):
            yield (
                f"{name} leads back to itself, and nobody acts on the way.",
                "Lead one of its moves to a state where somebody acts.",
            )


def _exits(state: "State") -> Iterator[tuple[str, bool]]:
    for move in state.moves:
        yield move.to, move.verb in {"cancel", "skip"}
    if state.limit and state.limit.to:
        yield state.limit.to, False


def _closure(start: set[str], onward: dict[str, set[str]]) -> set[str]:
    reached, fresh = set(start), set(start)
    while fresh:
        fresh = {there for name in fresh for there in onward[name]} - reached
        reached |= fresh
    return reached


def _is_name(pattern: str, given: object) -> bool:
    return isinstance(given, str) and re.fullmatch(pattern, given) is not None


def _one_of(names: set[str]) -> str:
    return f"Its states are {', '.join(sorted(names))}."
