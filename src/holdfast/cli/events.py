"""`holdfast events`: what happened to a task, each move and each event of a step on a line of its own."""

import heapq
from typing import TYPE_CHECKING, Any

from holdfast.cli import printing
from holdfast.cli.asking import ask
from holdfast.cli.ids import Id, find
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.task import Event, StepEvent

ARROW = "->"


def events(task: Id, as_json: Json = False) -> None:
    """List what happened to a task, oldest first."""

    async def question(store: "Store") -> "list[Event | StepEvent]":
        found = await find(store, task)
        return in_order(await store.events(found), await store.step_events(found))

    happened = ask(question)
    if as_json:
        printing.answer([as_object(one) for one in happened])
        return
    heads = ("when", "what", "where", "attempt", "worker", "note")
    printing.table(heads, [cells(one) for one in happened], elastic=("worker", "note"))


def in_order(moves: "list[Event]", steps: "list[StepEvent]") -> "list[Event | StepEvent]":
    """Both by time; each kind keeps its own order."""
    both: tuple[list[Event | StepEvent], ...] = ([*moves], [*steps])
    return list(heapq.merge(*both, key=lambda one: one.at))


def as_object(one: "Event | StepEvent") -> dict[str, Any]:
    """Its JSON: `of` tells the moves of the task from the events of its steps, and from the moves of a run's nodes."""
    of = next((kind for kind in ("step", "node") if hasattr(one, kind)), "task")
    return {"of": of, **vars(one)}


def cells(one: "Event | StepEvent") -> tuple[printing.Part, ...]:
    """When, what, where, attempt, worker, note."""
    from holdfast.engine.task import Event

    note, when = note_of(one.data), printing.shown(one.at)
    if not isinstance(one, Event):
        return (when, "dim"), (one.kind.replace("_", " "), "dim"), one.step, str(one.attempt), "", (note, "dim")
    where = one.to_state if one.from_state in ("", one.to_state) else f"{one.from_state} {ARROW} {one.to_state}"
    return (when, "dim"), one.verb, (where, "bold"), str(one.attempt), one.worker_id or "", note


def note_of(data: Any) -> str:
    """What an event says beyond the move: the message of an error, the reason of a cancellation."""
    if not isinstance(data, dict):
        return ""
    if data.get("message"):
        return ": ".join(str(data[name]) for name in ("category", "message") if data.get(name))
    return str(data.get("reason") or data.get("kind") or "")
