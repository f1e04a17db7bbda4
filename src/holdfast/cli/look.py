"""`holdfast ls`, `show`, `why` and `events`: tasks at a glance, all about one, and what happened to it."""

import heapq
import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli.access import Store, database_label
from holdfast.cli.cost import describe_family, family_as_object
from holdfast.cli.ids import Id, find_task, shorten
from holdfast.cli.options import Answer, TaskFilters, asks_store, with_options_of
from holdfast.cli.printing import (
    Cell,
    format_age,
    format_duration,
    format_json,
    format_state,
    format_time,
    format_took,
    format_when,
    print_block,
    print_facts,
    print_line,
    print_table,
    shorten_times,
)
from holdfast.engine.progress import read_progress

if TYPE_CHECKING:
    from holdfast.engine.store.records import Attempt, Link
    from holdfast.engine.task import Event, Explanation, Step, StepEvent

most_at_once = 1000
most_rows = 30
longest_value = 2000
longest_step_result = 60


@with_options_of(TaskFilters)
@asks_store
async def ls(
    store: Store,
    given: TaskFilters,
    live: Annotated[
        bool | None, typer.Option("--live/--finished", help="Only those that go on, or have ended.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that ended in failure.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many at most.")] = 20,
) -> Answer:
    """List tasks, the newest first."""
    filters = {**vars(given), "live": live, **({"outcome": "failed"} if failed else {})}
    found, hint = await read_tasks(store, filters, limit)
    yield found
    if found:
        short, now = await shorten(store.neighbours(UUID(one["id"]) for one in found)), await store.now()
        rows = [row_of(one, short[UUID(one["id"])], now) for one in found]
        print_table(("id", "name", "state", "try", "queue", "age", "note"), rows, elastic=("name", "queue", "note"))
        if hint:
            print_line((hint, "dim"), err=True)
    elif mistake := await find_mistake(store, filters):
        print_line(mistake, err=True)
    elif any(value is not None for value in filters.values()):
        print_line("No task fits. Leave a filter out, or see them all: ", ("holdfast ls", "bold"), err=True)
    else:
        print_line(f"No tasks yet ({database_label()}). Start one: ", ("holdfast start NAME '{}'", "bold"), err=True)


async def read_tasks(store: Store, filters: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], str]:
    """Up to `limit` tasks, page by page; and a hint if there are more."""
    found: list[dict[str, Any]] = []
    cursor = None
    while len(found) < limit:
        page = await store.list_tasks(**filters, cursor=cursor, limit=min(limit - len(found), most_at_once))
        found.extend(page.items)
        cursor = page.next
        if cursor is None:
            return found, ""
    return found, f"There are more: --limit {limit * 5} shows more." if page.approx_count > len(found) else ""


def row_of(task: dict[str, Any], short: str, now: datetime) -> tuple[Cell, ...]:
    return (
        short,
        (task["name"], "bold"),
        format_state(task),
        f"{task['attempt']}/{task['max_attempts']}",
        task["queue"],
        format_age(task["created_at"], now),
        (str(task["message"] or read_progress(task["progress"])), "dim"),
    )


async def find_mistake(store: Store, filters: dict[str, Any]) -> str:
    """A line about the first filter whose value fits nothing, with the known values; often it is a typo."""
    lifecycles = await store.lifecycles()
    known: dict[str, set[str]] = {
        "lifecycle": {one.name for one in lifecycles},
        "state": {state.name for one in lifecycles if filters["lifecycle"] in (None, one.name) for state in one.states},
        "queue": {one.name for one in await store.queues()},
    }
    for name, values in known.items():
        if filters[name] is not None and filters[name] not in values:
            return f"There is no {name} {filters[name]!r}. Known are: {', '.join(sorted(values))}."
    return ""


# One task


@asks_store
async def why(store: Store, task: Id) -> Answer:
    """Say who acts next, what it waits for and what to do about it."""
    found = await find_task(store, task)
    because = await store.explain(found)
    yield {"task_id": found, **vars(because)}
    print_line((shorten_times(because.sentence), "bold"))
    if because.fix:
        print_line(shorten_times(because.fix))


@asks_store
async def show(store: Store, task: Id) -> Answer:
    """Show all about a task.

    Where it is and why, what it cost, its attempts and steps, the last error, payload, result, and the tasks it is tied
    to.
    """
    found = await find_task(store, task)
    seen, because, cost, now = (
        await store.read(found), await store.explain(found), await store.costs.of_task(found), await store.now(),
    )  # fmt: skip
    attempts, steps, links = await store.attempts(found), await store.steps(found), await store.tree(found)
    yield {
        "task": seen, "why": because, "attempts": attempts, "steps": steps, "links": links,
        "cost": family_as_object(cost),
    }  # fmt: skip
    print_line((seen["name"], "bold"), "  ", (seen["id"], "dim"))
    print_facts([*facts_of(seen, because, now), *describe_family(cost), *describe_links(links)])
    print_attempts(attempts, now)
    print_steps(steps, now)
    if seen["outcome"] == "failed":
        print_error(seen["note"])
    print_value("payload", seen["payload"])
    print_value("result", seen["result"])


def facts_of(task: dict[str, Any], because: "Explanation", now: datetime) -> Iterator[tuple[str, Cell]]:
    """Its head: what is known, by name."""
    yield "state", format_state(task)
    yield "why", shorten_times(because.sentence)
    yield "fix", shorten_times(because.fix)
    yield "progress", "" if task["outcome"] else str(read_progress(task["progress"]))
    yield "lifecycle", f"{task['lifecycle']}, version {task['lifecycle_version']}"
    yield "queue", f"{task['queue']}, priority {task['priority']}"
    yield "attempt", f"{task['attempt']} of {task['max_attempts']}"
    yield "owner", task["owner"]
    yield "tags", ", ".join(task["tags"] or ())
    for name in ("created_at", "started_at", "finished_at", "deadline"):
        yield name.removesuffix("_at"), format_when(task[name], now) if task[name] else ""
    yield "took", format_took(task["started_at"], task["finished_at"])


def describe_links(links: "list[Link]") -> Iterator[tuple[str, Cell]]:
    """The tasks that it is tied to."""
    for link in links[:most_rows]:
        about = f"  {link.name}, {link.state}" if link.state else ""
        yield link.relation.replace("_", " "), f"{link.id}{about}"
    if len(links) > most_rows:
        yield "...", f"tied to {len(links) - most_rows} more: --json has all"


def print_attempts(attempts: "list[Attempt]", now: datetime) -> None:
    if not attempts:
        return
    print_heading("attempts", len(attempts))
    rows = []
    for one in attempts[-most_rows:]:
        took = format_duration((one.ended_at or now) - one.claimed_at, fine=True)
        ended = (one.ended or "running", {"failed": "red", "lost": "red", "done": "green"}.get(one.ended or "", ""))
        rows.append(
            (f"  {one.attempt}", format_time(one.claimed_at), took, ended, one.worker_id or "", note_of(one.error))
        )
    print_table(("  #", "claimed", "took", "ended", "worker", "error"), rows, elastic=("worker", "error"))


def print_steps(steps: "list[Step]", now: datetime) -> None:
    if not steps:
        return
    print_heading("steps", len(steps))
    rows = []
    for one in steps[-most_rows:]:
        state = ("done", "green") if one.done else (f"failed {one.failures}x", "red")
        result = json.dumps(one.result, ensure_ascii=False) if one.done else ""
        cut = result if len(result) <= longest_step_result else f"{result[:longest_step_result]}..."
        rows.append((f"  {one.name}", state, str(one.attempt), format_age(one.at, now), cut))
    print_table(("  name", "", "attempt", "when", "result"), rows, elastic=("  name", "result"))


def print_error(note: Any) -> None:
    """The last error: where it happened, then its message line by line."""
    if not isinstance(note, dict):
        return
    print_heading("error")
    where = [f"{name} {note[name]}" for name in ("step", "code") if note.get(name)]
    print_line(("  " + ", ".join([str(note.get("category") or note.get("kind") or "uncategorized"), *where]), "red"))
    print_block(str(note.get("message") or ""), most=longest_value)


def print_value(name: str, value: Any) -> None:
    if value is not None:
        print_heading(name)
        print_block(format_json(value), most=longest_value)


def print_heading(name: str, rows: int = 0) -> None:
    print_line("")
    print_line((name if rows <= most_rows else f"{name}, the last {most_rows} of {rows}: --json has all", "dim"))


# What happened


@asks_store
async def events(store: Store, task: Id) -> Answer:
    """List what happened to a task, oldest first."""
    found = await find_task(store, task)
    happened = in_order(await store.events(found), await store.step_events(found))
    yield [as_object(one) for one in happened]
    heads = ("when", "what", "where", "attempt", "worker", "note")
    print_table(heads, [cells_of(one) for one in happened], elastic=("worker", "note"))


def in_order(moves: "list[Event]", steps: "list[StepEvent]") -> "list[Event | StepEvent]":
    """Both by time; each kind keeps its own order."""
    both: tuple[list[Event | StepEvent], ...] = ([*moves], [*steps])
    return list(heapq.merge(*both, key=lambda one: one.at))


def as_object(one: "Event | StepEvent") -> dict[str, Any]:
    """Its JSON: `of` tells the moves of the task from the events of its steps, and from the moves of a run's nodes."""
    of = next((kind for kind in ("step", "node") if hasattr(one, kind)), "task")
    return {"of": of, **vars(one)}


def cells_of(one: "Event | StepEvent") -> tuple[Cell, ...]:
    """When, what, where, attempt, worker, note."""
    from holdfast.engine.task import Event

    note, when = note_of(one.data), format_time(one.at)
    if not isinstance(one, Event):
        return (when, "dim"), (one.kind.replace("_", " "), "dim"), one.step, str(one.attempt), "", (note, "dim")
    where = one.to_state if one.from_state in ("", one.to_state) else f"{one.from_state} -> {one.to_state}"
    return (when, "dim"), one.verb, (where, "bold"), str(one.attempt), one.worker_id or "", note


def note_of(data: Any) -> str:
    """What an event says beyond the move: the message of an error, the reason of a cancellation."""
    if not isinstance(data, dict):
        return ""
    if data.get("message"):
        return ": ".join(str(data[name]) for name in ("category", "message") if data.get(name))
    return str(data.get("reason") or data.get("kind") or "")
