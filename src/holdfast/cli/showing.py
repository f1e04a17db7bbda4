"""`holdfast show` and `why`: all about one task, and the one sentence that matters."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.cli import printing
from holdfast.cli.asking import ask
from holdfast.cli.cost import family, family_json
from holdfast.cli.events import note_of
from holdfast.cli.ids import Id, find
from holdfast.cli.listing import how_far
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.costs import FamilyCost
    from holdfast.engine.store.records import Attempt, Link
    from holdfast.engine.task import Explanation, Step

most_rows = 30
longest_value = 2000
longest_step_result = 60


@dataclass(frozen=True)
class Seen:
    """All that is known of a task."""

    task: dict[str, Any]
    why: "Explanation"
    attempts: "list[Attempt]"
    steps: "list[Step]"
    links: "list[Link]"
    cost: "FamilyCost"
    now: datetime


def why(task: Id, as_json: Json = False) -> None:
    """Say who acts next, what it waits for and what to do about it."""

    async def question(store: "Store") -> "tuple[UUID, Explanation]":
        found = await find(store, task)
        return found, await store.explain(found)

    found, because = ask(question)
    if as_json:
        printing.answer({"task_id": found, **vars(because)})
        return
    printing.say((printing.readable(because.sentence), "bold"))
    if because.fix:
        printing.say(printing.readable(because.fix))


def show(task: Id, as_json: Json = False) -> None:
    """Show all about a task.

    Where it is and why, what it cost, its attempts and steps, the last error, payload, result, and the tasks it is tied
    to.
    """

    async def question(store: "Store") -> Seen:
        found = await find(store, task)
        return Seen(
            await store.read(found), await store.explain(found), await store.attempts(found),
            await store.steps(found), await store.tree(found), await store.costs.of_task(found), await store.now(),
        )  # fmt: skip

    seen = ask(question)
    if as_json:
        lists: dict[str, Sequence[object]] = {"attempts": seen.attempts, "steps": seen.steps, "links": seen.links}
        listed = {name: [vars(one) for one in found] for name, found in lists.items()}
        printing.answer({"task": seen.task, "why": vars(seen.why), **listed, "cost": family_json(seen.cost)})
        return
    printing.say((seen.task["name"], "bold"), "  ", (seen.task["id"], "dim"))
    printing.facts([*facts(seen)])
    say_attempts(seen)
    say_steps(seen)
    if seen.task["outcome"] == "failed":
        say_error(seen.task["note"])
    say_value("payload", seen.task["payload"])
    say_value("result", seen.task["result"])


def facts(seen: Seen) -> Iterator[tuple[str, printing.Part]]:
    """Its head: what has a value, by name."""
    task, because = seen.task, seen.why
    yield "state", printing.state(task)
    yield "why", printing.readable(because.sentence)
    if because.fix:
        yield "fix", printing.readable(because.fix)
    if not task["outcome"] and (far := how_far(task["progress"])):
        yield "progress", far
    yield "lifecycle", f"{task['lifecycle']}, version {task['lifecycle_version']}"
    yield "queue", f"{task['queue']}, priority {task['priority']}"
    yield "attempt", f"{task['attempt']} of {task['max_attempts']}"
    tags = ", ".join(task["tags"] or ())
    yield from ((name, value) for name, value in (("owner", task["owner"]), ("tags", tags)) if value)
    for name in ("created_at", "started_at", "finished_at", "deadline"):
        if task[name]:
            yield name.removesuffix("_at"), when(task[name], seen.now)
    if task["started_at"] and task["finished_at"]:
        yield "took", printing.lasting(moment(task["finished_at"]) - moment(task["started_at"]), fine=True)
    yield from family(seen.cost)
    for link in seen.links[:most_rows]:
        about = f"  {link.name}, {link.state}" if link.state else ""
        yield link.relation.replace("_", " "), f"{link.id}{about}"
    if len(seen.links) > most_rows:
        yield "...", f"tied to {len(seen.links) - most_rows} more: --json has all"


def say_attempts(seen: Seen) -> None:
    if not seen.attempts:
        return
    heading("attempts", len(seen.attempts))
    rows = []
    for one in seen.attempts[-most_rows:]:
        took = printing.lasting((one.ended_at or seen.now) - one.claimed_at, fine=True)
        ended = (one.ended or "running", {"failed": "red", "lost": "red", "done": "green"}.get(one.ended or "", ""))
        rows.append(
            (f"  {one.attempt}", printing.shown(one.claimed_at), took, ended, one.worker_id or "", note_of(one.error))
        )
    printing.table(("  #", "claimed", "took", "ended", "worker", "error"), rows, elastic=("worker", "error"))


def say_steps(seen: Seen) -> None:
    if not seen.steps:
        return
    heading("steps", len(seen.steps))
    rows = []
    for one in seen.steps[-most_rows:]:
        state = ("done", "green") if one.done else (f"failed {one.failures}x", "red")
        result = json.dumps(one.result, ensure_ascii=False) if one.done else ""
        cut = result if len(result) <= longest_step_result else f"{result[:longest_step_result]}..."
        rows.append((f"  {one.name}", state, str(one.attempt), printing.age(one.at, seen.now), cut))
    printing.table(("  name", "", "attempt", "when", "result"), rows, elastic=("  name", "result"))


def say_error(note: Any) -> None:
    """The last error: where it happened, then its message line by line."""
    if not isinstance(note, dict):
        return
    heading("error")
    where = [f"{name} {note[name]}" for name in ("step", "code") if note.get(name)]
    printing.say(("  " + ", ".join([str(note.get("category") or note.get("kind") or "uncategorized"), *where]), "red"))
    printing.block(str(note.get("message") or ""), most=longest_value)


def say_value(name: str, value: Any) -> None:
    if value is not None:
        heading(name)
        printing.block(printing.pretty(value), most=longest_value)


def heading(name: str, rows: int = 0) -> None:
    printing.say("")
    printing.say((name if rows <= most_rows else f"{name}, the last {most_rows} of {rows}: --json has all", "dim"))


def when(then: str | datetime, now: datetime) -> str:
    then = moment(then)
    return f"{printing.shown(then)}, {printing.age(then, now)}"


def moment(given: str | datetime) -> datetime:
    return datetime.fromisoformat(given) if isinstance(given, str) else given
