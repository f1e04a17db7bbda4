"""A lifecycle is sound before it is used, and says what its table says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.engine.lifecycle.model import (
    Backoff,
    Display,
    Lifecycle,
    Limit,
    Move,
    State,
    after,
    blocked,
    clock,
    final,
    gather,
    owner,
    work,
)
from holdfast.errors import DeclarationInvalid
from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Database


def cases(given: Mapping[str, Any]) -> list[Any]:
    """Parameters with their names."""
    return [pytest.param(value, id=name) for name, value in given.items()]


DRAFT = owner("DRAFT", acts={"hand_in": "CHECKING"}, limit=after(days=7, to="DROPPED"))
CHECKING = work("CHECKING", done="DONE", to=["SECOND"], progress=(0, 50))
SECOND = work("SECOND", done="DONE")
DONE, BROKEN, DROPPED = final("DONE", "done"), final("BROKEN", "failed"), final("DROPPED", "cancelled")
ENDS = [DONE, BROKEN, DROPPED]


def review(*states: State, **changed: Any) -> Lifecycle:
    """A sound lifecycle, with other states or other figures."""
    given: dict[str, Any] = {"start": "DRAFT", "cancel": "DROPPED", "fail": "BROKEN"} | changed
    return Lifecycle("review", states=[*(states or (DRAFT, CHECKING, SECOND)), *given.pop("ends", ENDS)], **given)


def drafting(**changed: Any) -> Lifecycle:
    """The same, with another first state."""
    return review(replace(DRAFT, **changed), CHECKING, SECOND)


def leading(**verbs: str) -> tuple[Move, ...]:
    return tuple(Move(verb, to) for verb, to in verbs.items())


BACK = owner("DRAFT", acts={"hand_in": "CHECKING", "ask": "ASKED"})
SECONDS = timedelta(seconds=1)

# What is wrong with it, and what the message must name.
UNSOUND: dict[str, tuple[Callable[[], Lifecycle], str]] = {
    "a lifecycle's name": (lambda: Lifecycle("Review!", "DRAFT", [DRAFT, *ENDS]), "Review!"),
    "a lifecycle without a name": (lambda: Lifecycle("", "DRAFT", [DRAFT, *ENDS]), "''"),
    "a lifecycle's long name": (lambda: Lifecycle("a" * 64, "DRAFT", [DRAFT, *ENDS]), "aaaa"),
    "a state's name": (lambda: review(DRAFT, CHECKING, replace(SECOND, name="SE COND")), "SE COND"),
    "a state's line break": (lambda: review(DRAFT, CHECKING, replace(SECOND, name="SECOND\n")), "SECOND"),
    "a state twice": (lambda: review(DRAFT, CHECKING, SECOND, SECOND), "SECOND"),
    "an unknown start": (lambda: review(start="NOWHERE"), "NOWHERE"),
    "a final start": (lambda: review(start="DONE"), "DONE"),
    "no state at all": (lambda: Lifecycle("review", "DRAFT", []), "DRAFT"),
    "no final state": (lambda: Lifecycle("review", "DRAFT", [owner("DRAFT", acts={"save": "DRAFT"})]), "final"),
    "an unreachable state": (lambda: review(DRAFT, CHECKING, SECOND, work("LOST", done="DONE")), "LOST"),
    "an unreachable end": (lambda: review(ends=[*ENDS, final("GONE", "done")]), "GONE"),
    "a trap": (lambda: review(BACK, CHECKING, SECOND, owner("ASKED", acts={"ask": "ASKED"})), "ASKED"),
    "an owner without verbs": (lambda: review(replace(DRAFT, moves=()), start="DRAFT"), "DRAFT"),
    "an owner's odd verb": (lambda: drafting(moves=leading(hand_in="CHECKING", Save="DRAFT")), "Save"),
    "an owner's empty verb": (lambda: drafting(moves=leading(**{"": "CHECKING"})), "''"),
    "a verb to two places": (
        lambda: drafting(moves=(Move("hand_in", "CHECKING"), Move("hand_in", "SECOND"))), "both CHECKING and SECOND",
    ),
    "a move to nowhere": (lambda: drafting(moves=leading(hand_in="NOWHERE")), "NOWHERE"),
    "a final state that moves on": (
        lambda: review(ends=[replace(DONE, moves=leading(on="BROKEN")), *ENDS[1:]]), "DONE",
    ),
    "an end that is none": (lambda: drafting(outcome="done"), "DRAFT"),
    "a final state without an outcome": (lambda: review(ends=[replace(DONE, outcome=None), *ENDS[1:]]), "DONE"),
    "no way to cancel": (lambda: review(cancel=None), "DRAFT cannot be cancelled"),
    "cancel to a good end": (lambda: review(cancel="DONE"), "'cancel' leads to DONE"),
    "cancel to no end": (lambda: drafting(moves=leading(hand_in="CHECKING", cancel="CHECKING")), "CHECKING"),
    "fail to a good end": (lambda: review(fail="DONE"), "'fail' leads to DONE"),
    "fail to a cancelled end": (lambda: review(fail="DROPPED"), "'fail' leads to DROPPED"),
    "skip to a good end": (
        lambda: review(blocked("HELD", unblock="SECOND", skip="DONE"), SECOND, start="HELD"), "'skip' leads to DONE",
    ),
    "done to a failed end": (lambda: review(DRAFT, work("CHECKING", done="BROKEN")), "'done' leads to BROKEN"),
    "done to a cancelled end": (lambda: review(DRAFT, work("CHECKING", done="DROPPED")), "'done' leads to DROPPED"),
    "partial to a failed end": (lambda: review(DRAFT, work("CHECKING", partial="BROKEN")), "'partial' leads to BROKEN"),
    "a worker that may not fail": (lambda: review(fail=None), "CHECKING"),
    "a worker with nowhere to go": (lambda: review(DRAFT, work("CHECKING")), "CHECKING"),
    "a claim where no worker acts": (lambda: review(DRAFT, work("CHECKING", claim="DRAFT")), "'claim' leads to DRAFT"),
    "a retry where no worker acts": (
        lambda: review(DRAFT, work("CHECKING", done="DONE", retry="DRAFT")), "'retry' leads to DRAFT",
    ),
    "a clock that leads nowhere": (lambda: review(State("REST", "clock"), start="REST"), "REST"),
    "tasks waited for in no way": (lambda: review(State("HELD", "tasks"), start="HELD"), "HELD"),
    "tasks waited for in two ways": (
        lambda: review(State("HELD", "tasks", leading(unblock="SECOND", done="DONE")), SECOND, start="HELD"), "HELD",
    ),
    "a birth that does not wait": (lambda: review(blocked="CHECKING"), "CHECKING"),
    "a birth in a gathering": (
        lambda: review(gather("HELD", done="DONE", partial="DONE", fail="BROKEN"), start="HELD", blocked="HELD"),
        "HELD",
    ),
    "a birth nowhere": (lambda: review(blocked="NOWHERE"), "NOWHERE"),
    "a limit to nowhere": (lambda: drafting(limit=after(days=7, to="NOWHERE")), "NOWHERE"),
    "a limit to itself": (lambda: drafting(limit=after(days=7, to="DRAFT")), "DRAFT"),
    "a limit of nothing": (lambda: drafting(limit=after(to="DROPPED")), "DRAFT"),
    "a limit below nothing": (lambda: drafting(limit=after(seconds=-1, to="DROPPED")), "DRAFT"),
    "a limit of a final state": (lambda: review(ends=[replace(DONE, limit=DRAFT.limit), *ENDS[1:]]), "DONE"),
    "a limit that wakes an owner": (lambda: drafting(limit=after(days=7, wake=True)), "DRAFT"),
    "a limit with no place": (lambda: drafting(limit=after(days=7)), "one place"),
    "a limit with two places": (lambda: drafting(limit=after(days=7, to="DROPPED", wake=True)), "one place"),
    "a limit renewed by a worker": (
        lambda: review(DRAFT, replace(SECOND, name="CHECKING", limit=Limit(SECONDS, "BROKEN", 2 * SECONDS))),
        "CHECKING",
    ),
    "a limit renewed to less": (lambda: drafting(limit=Limit(2 * SECONDS, "DROPPED", SECONDS)), "DRAFT"),
    "progress below 0": (lambda: drafting(progress=-1), "-1"),
    "progress above 100": (lambda: drafting(progress=101), "101"),
    "progress that falls": (lambda: review(DRAFT, replace(CHECKING, progress=(50, 10)), SECOND), "(50, 10)"),
    "progress beyond its end": (lambda: review(DRAFT, replace(CHECKING, progress=(50, 101)), SECOND), "(50, 101)"),
    "a backoff of nothing": (lambda: review(backoff=Backoff(timedelta(0))), "backoff"),
    "a backoff that shrinks": (lambda: review(backoff=Backoff(2 * SECONDS, SECONDS)), "backoff"),
    "a rate_wait of nothing": (lambda: review(rate_wait=timedelta(0)), "rate_wait"),
    "a rate_wait below nothing": (lambda: review(rate_wait=-SECONDS), "rate_wait"),
    "effects that name no function": (lambda: review(effects="holdfast.told()"), "holdfast.told()"),
}  # fmt: skip


def drafting_by(verb: str) -> Callable[[], Lifecycle]:
    return lambda: drafting(moves=leading(**{verb: "CHECKING"}))


def reviewing(figure: str, value: object) -> Callable[[], Lifecycle]:
    return lambda: review(**{figure: value})


for verb in ("claim", "limit", "submit", "done", "fail", "due", "skip", "retry", "lost", "later", "park", "admit"):
    UNSOUND[f"the engine's verb {verb}"] = drafting_by(verb), verb
for figure in ("version", "max_attempts", "crash_budget"):
    for value in (0, -1, 32_768, 1.5, True, "3", None):
        UNSOUND[f"{figure}={value!r}"] = reviewing(figure, value), figure
UNTYPED: dict[str, tuple[Callable[[], Lifecycle], str]] = {
    "a number as the name": (lambda: Lifecycle(5, "DRAFT", [DRAFT, *ENDS]), "5"),  # type: ignore[arg-type]
    "a number as a state": (lambda: drafting(name=5), "5"),
    "words as progress": (lambda: drafting(progress=("a", "b")), "DRAFT"),
    "half a percent": (lambda: drafting(progress=0.5), "0.5"),
    "an actor unheard of": (lambda: drafting(actor="robot"), "robot"),
    "an outcome unheard of": (lambda: review(ends=[final("DONE", "great"), *ENDS[1:]]), "great"),  # type: ignore[arg-type]
}


MISTYPED: list[Callable[[], object]] = [
    lambda: work("A", to="DONE"),
    lambda: owner("A", acts="go"),  # type: ignore[arg-type]
    lambda: owner("A", acts=5),  # type: ignore[arg-type]
    lambda: review(work("LAST", done="DONE", limit=timedelta(hours=1)), start="LAST"),  # type: ignore[arg-type]
    lambda: review(backoff=5),
    lambda: review(rate_wait=5),
]


@pytest.mark.parametrize("make", MISTYPED)
def test_what_is_of_another_kind_is_refused_with_how_to_write_it(make: Callable[[], object]) -> None:
    with pytest.raises(DeclarationInvalid, match="Write"):
        make()


@pytest.mark.parametrize("make_and_culprit", cases(UNSOUND | UNTYPED))
def test_what_is_not_sound_is_refused_with_its_name_and_a_remedy(
    make_and_culprit: tuple[Callable[[], Lifecycle], str],
) -> None:
    make, culprit = make_and_culprit
    with pytest.raises(DeclarationInvalid) as caught:
        make()
    assert culprit in caught.value.detail
    assert caught.value.fix
    assert review().start == "DRAFT"


# What each must say: who acts, where it may go, the limit (where it leads, after how many minutes, renewed up
# to), the progress, and how it ends.
Row = tuple[str, str, tuple[str, float, float | None] | None, int | tuple[int, int] | None]
W, U, T, C = "worker", "owner", "tasks", "clock"
done, partial, failed, cancelled = "done", "partial", "failed", "cancelled"
TABLES: dict[str, tuple[str, str, dict[str, Row | tuple[str, int | None]]]] = {
    "batch": ("PENDING", "batch", {
        "PENDING": (W, "IN_PROGRESS FAILED CANCELLED", None, None),
        "IN_PROGRESS": (W, "COMPLETED PARTIAL_COMPLETE FAILED CANCELLED", ("IN_PROGRESS", 26 * 60, None), None),
        "COMPLETED": (done, 100), "PARTIAL_COMPLETE": (partial, 100), "FAILED": (failed, None),
        "CANCELLED": (cancelled, None),
    }),
    "batch_stop": ("STOPPING", "batch", {
        "STOPPING": (W, "STOPPED LEFT_RUNNING CANCELLED", None, None),
        "STOPPED": (done, 100), "LEFT_RUNNING": (failed, None), "CANCELLED": (cancelled, None),
    }),
    "analysis": ("CREATED", "analysis", {
        "CREATED": (U, "UPLOADING EXPIRED CANCELLED", ("EXPIRED", 15, None), 0),
        "UPLOADING": (U, "UPLOADING UPLOAD_FAILED QUEUED EXPIRED CANCELLED", ("EXPIRED", 15, 60), 10),
        "UPLOAD_FAILED": (U, "UPLOADING EXPIRED CANCELLED", ("EXPIRED", 60, None), 10),
        "QUEUED": (W, "PROCESSING EXPIRED CANCELLED", ("EXPIRED", 60, None), 15),
        "PROCESSING": (W, "COMPLETED FAILED CANCELLED", ("FAILED", 30, None), (15, 95)),
        "COMPLETED": (done, 100), "FAILED": (failed, None), "CANCELLED": (cancelled, None), "EXPIRED": (failed, None),
    }),
    "pipeline": ("PENDING", "pipeline", {
        "PENDING": (W, "RUNNING FAILED CANCELLED", ("FAILED", 120, None), None),
        "RUNNING": (W, "COMPLETED PARTIAL FAILED CANCELLED", ("FAILED", 120, None), (0, 100)),
        "COMPLETED": (done, 100), "PARTIAL": (partial, None), "FAILED": (failed, None), "CANCELLED": (cancelled, None),
    }),
    "dispatch": ("Queued", "default", {
        "Blocked": (T, "Queued Canceled", None, None),
        "Queued": (W, "Running Canceled", None, None),
        "Running": (W, "Completed Failed Dead Canceled", None, None),
        "Failed": (C, "Queued Canceled", None, None),
        "Completed": (done, 100), "Dead": (failed, None), "Canceled": (cancelled, None),
    }),
    "dag": ("Running", "default", {
        "Running": (T, "Completed Partial Failed Canceled", None, None),
        "Completed": (done, 100), "Partial": (partial, 100), "Failed": (failed, None), "Canceled": (cancelled, None),
    }),
    "ingest": ("RUNNING", "ingest", {
        "RUNNING": (T, "COMPLETED PARTIAL FAILED CANCELLED", None, None),
        "COMPLETED": (done, 100), "PARTIAL": (partial, 100), "FAILED": (failed, None), "CANCELLED": (cancelled, None),
    }),
    "ingest_item": ("ENQUEUED", "ingest_item", {
        "ENQUEUED": (W, "FETCHED OVER_BUDGET FAILED CANCELLED", None, 0),
        "FETCHED": (W, "CONTENT_EXTRACTED OVER_BUDGET FAILED CANCELLED", None, 15),
        "CONTENT_EXTRACTED": (W, "PERSISTED OVER_BUDGET FAILED CANCELLED", None, (30, 75)),
        "PERSISTED": (W, "INDEXED OVER_BUDGET FAILED CANCELLED", None, 75),
        "OVER_BUDGET": (U, "ENQUEUED CANCELLED", None, None),
        "INDEXED": (W, "DONE FAILED CANCELLED", None, 90),
        "DONE": (done, 100), "FAILED": (failed, None), "CANCELLED": (cancelled, None),
    }),
}  # fmt: skip
each_lifecycle = pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.name)


def table(lifecycle: Lifecycle) -> dict[str, Row | tuple[str, int | None]]:
    """The declaration, as lifecycles.md would write it."""
    rows: dict[str, Any] = {}
    for state in lifecycle.states:
        limit = state.limit
        minutes = limit and limit.after / timedelta(minutes=1)
        in_all = limit and limit.renewed_up_to and limit.renewed_up_to / timedelta(minutes=1)
        targets = {move.to for move in state.moves} | ({limit.to} if limit and limit.to else set())
        rows[state.name] = (
            (state.outcome, state.progress)
            if state.actor == "nobody"
            else (state.actor, targets, limit and (limit.to or state.name, minutes, in_all), state.progress)
        )
    return rows


@each_lifecycle
def test_they_say_what_their_tables_say(lifecycle: Lifecycle) -> None:
    assert lifecycle.name in TABLES, "Write its table in TABLES, as the promise says it and not as it is declared."
    start, queue, rows = TABLES[lifecycle.name]
    assert (lifecycle.start, lifecycle.queue, lifecycle.version) == (start, queue, 1)
    expected = {
        name: (row[0], set(str(row[1]).split()), *row[2:]) if len(row) == 4 else row for name, row in rows.items()
    }
    assert table(lifecycle) == expected


@each_lifecycle
async def test_the_database_allows_the_moves_of_the_table_and_no_other(
    database: Database, lifecycle: Lifecycle
) -> None:
    rows = TABLES[lifecycle.name][2]
    allowed = database.ask_owner(
        "select jsonb_object_agg(s.name, (select coalesce(jsonb_agg(distinct x.to_state), '[]')"
        " from holdfast.transition x where x.lifecycle = s.lifecycle and x.from_state = s.name"
        " and x.to_state <> s.name))"
        " from holdfast.state s join holdfast.lifecycle l on l.id = s.lifecycle where l.name = $1",
        lifecycle.name,
    )
    expected = {name: set(str(row[1]).split()) - {name} if len(row) == 4 else set() for name, row in rows.items()}
    assert {name: set(targets) for name, targets in json.loads(allowed).items()} == expected


def test_a_task_may_bring_its_own_limit_only_where_the_table_says_so() -> None:
    per_task = {
        (one.name, state.name) for one in LIFECYCLES for state in one.states if state.limit and state.limit.per_task
    }
    assert per_task == {("batch", "IN_PROGRESS"), ("pipeline", "RUNNING")}


# Every kind of state, limit and figure there is.
WHOLE = review(
    replace(BACK, display=Display("Draft", "gray", "pen", "Müde"), limit=Limit(SECONDS, "HELD", 2 * SECONDS)),
    replace(CHECKING, moves=(*CHECKING.moves, Move("retry", "REST"))), SECOND, clock("REST", due="CHECKING"),
    owner("ASKED", acts=[("answer", "LINE")], cancel="DROPPED", progress=7), blocked("HELD", unblock="SECOND"),
    work("LINE", claim="PARTS", limit=after(days=0.25, wake=True, per_task=True)), work("PARTS", done="ALL"),
    gather("ALL", done="DONE", partial="DONE", fail="BROKEN"), blocked="HELD", version=7, queue="desk", max_attempts=9,
    crash_budget=2, backoff=Backoff(timedelta(milliseconds=1), SECONDS), rate_wait=timedelta(days=3), effects="told",
)  # fmt: skip


either = pytest.mark.parametrize("lifecycle", [*LIFECYCLES, WHOLE], ids=lambda lifecycle: lifecycle.name)


@either
def test_a_definition_read_back_says_the_same(lifecycle: Lifecycle) -> None:
    definition = json.loads(json.dumps(lifecycle.definition()))
    assert Lifecycle.from_definition(definition).definition() == lifecycle.definition()


@either
def test_a_definition_read_back_is_the_same_lifecycle(lifecycle: Lifecycle) -> None:
    assert Lifecycle.from_definition(json.loads(json.dumps(lifecycle.definition()))) == lifecycle
