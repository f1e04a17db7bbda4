"""`holdfast start`, `watch`, `cancel` and `retry`: what a person does to tasks."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli.access import Store, current_user, with_store
from holdfast.cli.ids import Id, find_task
from holdfast.cli.look import as_object, cells_of, in_order, note_of
from holdfast.cli.options import REFUSED, FromStep, Json, Key, NewPayload, Patience, Reason, asks_store, duration
from holdfast.cli.params import read_json, read_new_payload
from holdfast.cli.printing import (
    Cell,
    clean_cell,
    format_json,
    format_state,
    is_terminal,
    print_block,
    print_json,
    print_line,
    print_started,
    shorten_times,
    to_json,
)
from holdfast.cli.watcher import EXIT_CODES, NOT_TAKEN_UP, TIMED_OUT, Display, Part, part, poll, sentence_of

if TYPE_CHECKING:
    from holdfast.engine.task import Event, StepEvent
    from holdfast.lifecycles.dispatch.store import NodeMove

Payload = Annotated[str, typer.Argument(metavar="JSON", help="Its payload; - reads stdin, @FILE a file.")]

longest_result = 2000
steps_drawn = 8


def start(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name, as a worker knows it.")],
    payload: Payload = "{}",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, print the result.")] = False,
    patience: Patience = None,
    queue: Annotated[str | None, typer.Option(help="The queue, if not the task's own.")] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="9 goes first.")] = None,
    key: Key = None,
    delay: Annotated[timedelta | None, typer.Option(parser=duration, metavar="5m", help="Not before that.")] = None,
    after: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only when that task is done.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Something to find it by.")] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="Give up after so many.")] = None,
    lifecycle: Annotated[str, typer.Option(help="The lifecycle it goes through.")] = "dispatch",
    as_json: Json = False,
) -> None:
    """Start a task; --wait for its end.

    Prints the id; with --wait the result, and the exit code says how it ended.
    """
    from holdfast.engine.task import Submission

    value = read_json(payload)

    async def submit(store: Store) -> int:
        known = await store.known_task(task) or {}  # as a live worker of this task would start it
        submission = Submission(
            task, value, lifecycle, queue=queue or known.get("queue"), key=key, delay=delay,
            priority=(known.get("priority") or 0) if priority is None else priority,
            max_attempts=max_attempts or known.get("max_attempts"),
            after=[await find_task(store, one) for one in after or ()], tags=tag or (),
        )  # fmt: skip
        made = (await store.submit(submission))[0]
        assert made.id is not None  # noqa: S101
        about = {"task_id": made.id, "created": made.created}
        if not wait:
            if as_json:
                print_json(about)
            else:
                print_started(str(made.id), "Started " if made.created else "Exists already: ")
            because = await store.explain(made.id)
            if because.reason in NOT_TAKEN_UP:
                print_line(sentence_of(vars(because)), err=True)
            return 0
        now = await wait_for(store, made.id, patience)
        if as_json:
            print_json(about | describe_end(now))
        elif now["outcome"] in ("done", "partial"):
            print_json(now["result"])
        elif now["outcome"]:
            print_end(now, err=True)
        return EXIT_CODES.get(now["outcome"], TIMED_OUT)

    raise typer.Exit(with_store(submit))


@asks_store
async def watch(store: Store, task: Id, patience: Patience = None, as_json: Json = False) -> int:
    """Follow a task until it has ended; of a run of a graph, its nodes too.

    The exit code says how: 0 done, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    is_drawn = is_terminal() and not as_json

    def print_events(look: Look) -> None:
        for one in look.events:
            if as_json:
                typer.echo(to_json(as_object(one)))
            elif not is_drawn:
                print_line(*line_of(one))

    now = await wait_for(store, await find_task(store, task), patience, print_events)
    if as_json:
        typer.echo(to_json({"of": "end", **describe_end(now)}))
    elif now["outcome"]:
        print_end(now)
        if is_drawn and now["lifecycle"] == "dag":
            await print_run(store, UUID(now["id"]))
        elif is_drawn and now["result"] is not None:
            print_block(format_json(now["result"]), most=longest_result)
    return EXIT_CODES.get(now["outcome"], TIMED_OUT)


@asks_store
async def cancel(store: Store, task: Id, reason: Reason = None, as_json: Json = False) -> int:
    """Cancel a task.

    At once if no worker holds it; otherwise its worker is asked to end it.
    """
    found = await find_task(store, task)
    effect = await store.cancel(found, reason, by=current_user())
    now = await store.read(found)
    if as_json:
        print_json({"task_id": now["id"], "effect": effect, "state": now["state"]})
    elif effect == "cancelled":
        print_line("Cancelled: it is ", format_state(now), ".")
    elif effect == "requested":
        print_line(f"Requested: worker {now['worker_id']} gets it with its next heartbeat.")
    else:
        print_line("Too late: it is ", format_state(now, err=True), ".", err=True)
    return REFUSED if effect == "too_late" else 0


def retry(
    task: Id,
    from_step: FromStep = None,
    payload: NewPayload = None,
    dependents: Annotated[
        bool, typer.Option("--dependents", help="And the tasks that were cancelled or skipped because of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a finished task again.

    As a new task, whose id is printed. It keeps the steps that were done, unless the payload is another. Of a run of a
    graph, only what did not complete runs again, in a new run.
    """
    value = None if payload is None else read_new_payload(payload)

    async def submit(store: Store) -> tuple[UUID, UUID, dict[UUID, UUID]]:
        found = await find_task(store, task)
        if (await store.read(found))["lifecycle"] == "dag" and from_step is None and value is None:
            from holdfast.lifecycles.dispatch.store import Dags

            return found, await Dags.over(store).retry(found, by=current_user()), {}
        if dependents:
            others = await store.retry_dependents(found, from_step, value, by=current_user())
            return found, others.pop(found), others
        return found, await store.retry(found, from_step, value, by=current_user()), {}

    old, new, others = with_store(submit)
    if as_json:
        also = {"dependents": {str(one): str(other) for one, other in others.items()}} if dependents else {}
        print_json({"task_id": str(new), "retry_of": str(old), **also})
    else:
        print_started(str(new), "Started again as ")
        if others:
            print_line(f"And {len(others)} that waited for it.", err=True)


# Following a task in the database


@dataclass(frozen=True)
class Look:
    """The task now, what has happened since the last look, and of a run its nodes."""

    task: dict[str, Any]
    events: "list[Event | StepEvent]"
    nodes: list[dict[str, Any]]


async def wait_for(
    store: Store, task_id: UUID, patience: timedelta | None, on_look: Callable[[Look], None] = lambda look: None
) -> dict[str, Any]:
    """The task once it has ended, or as it is when patience has. Where stderr is a terminal, it shows how it goes."""
    import asyncio

    task: dict[str, Any] = {}
    try:
        with Display(quiet=not sys.stderr.isatty()) as display:
            async for look in poll(Feed(store, task_id).look, patience, lambda look: bool(look.task["outcome"])):
                task = look.task
                on_look(look)
                if sys.stderr.isatty() and not task["outcome"]:
                    tries = f"attempt {task['attempt']} of {task['max_attempts']}" if task["max_attempts"] > 1 else ""
                    display.show(task["name"], task["state"], task["id"], await parts_of(store, look), detail=tries)
                    display.note(shorten_times((await store.explain(task_id)).sentence))
    except asyncio.CancelledError:
        print_how_to_follow(task_id)
        raise
    if not task["outcome"]:
        print_how_to_follow(task_id)
        print_line(sentence_of(vars(await store.explain(task_id))), err=True)
    return task


class Feed:
    """What happens to a task: each move comes once and in order, and so does each event of a step.

    Of a run of a graph the moves of its nodes come with its own. A node that is retried is another task.
    """

    def __init__(self, store: Store, task_id: UUID) -> None:
        self._store = store
        self._task_id = task_id
        self._version = -1
        self._number = 0
        self._node_versions: dict[str, int] = {}
        self._node_marks: dict[str, tuple[Any, ...]] = {}

    async def look(self) -> Look:
        """The task now, and what has happened since the last look."""
        task = await self._store.read(self._task_id)
        moves = await self._store.events(self._task_id) if task["version"] > self._version else []
        moves = [one for one in moves if one.version > self._version]
        steps = [one for one in await self._store.step_events(self._task_id) if one.number > self._number]
        nodes, node_moves = await self._look_at_nodes() if task["lifecycle"] == "dag" else ([], [])
        self._version = moves[-1].version if moves else self._version
        self._number = steps[-1].number if steps else self._number
        own = in_order(moves, steps)
        # At one moment a run begins before its nodes do, and ends after them.
        first = [one for one in own if getattr(one, "from_state", None) == ""]
        rest = [one for one in own if one not in first]
        return Look(task, sorted([*first, *node_moves, *rest], key=lambda one: one.at), nodes)

    async def _look_at_nodes(self) -> "tuple[list[dict[str, Any]], list[NodeMove]]":
        from holdfast.lifecycles.dispatch.store import Dags

        dags = Dags.over(self._store)
        nodes = [node for one in await dags.read([self._task_id], nodes=True) for node in one["nodes"]]
        marks = {one["task_id"]: (one["state"], one["attempt"], one["started_at"], one["due_at"]) for one in nodes}
        changed = [one for one in nodes if self._node_marks.get(one["task_id"]) != marks[one["task_id"]]]
        moves = await dags.moves(changed) if changed else []
        new = [one for one in moves if one.version > self._node_versions.get(str(one.task_id), -1)]
        self._node_versions |= {str(one.task_id): one.version for one in new}
        self._node_marks = marks
        return nodes, sorted(new, key=lambda one: one.at)


async def parts_of(store: Store, look: Look) -> list[Part]:
    """The nodes of a run; of another task the steps that are done, and what its worker reports."""
    if look.nodes:
        from holdfast.lifecycles.dispatch.graph_routes import part_of

        return [part_of(one).model_dump() for one in look.nodes]
    from holdfast.engine.progress import read_progress

    done = [part(step.name, "completed") for step in await store.steps(UUID(look.task["id"])) if step.done]
    progress = read_progress(look.task["progress"])
    running = [part(progress.note or "progress", "running", done=progress.done, total=progress.total)]
    return [*done[-steps_drawn:], *(running if str(progress) else [])]


def line_of(one: "Event | StepEvent") -> list[Cell]:
    """A move, or an event of a step, on a line of its own; the move of a node behind its name."""
    when, what, where, attempt, worker, note = cells_of(one)
    node = (getattr(one, "node", ""), "bold")
    cells = [when, node, what, where, f"attempt {attempt}", f"worker {worker}" if worker else "", note]
    return [cell for one in cells if clean_cell(one)[0] for cell in (one, "  ")]


async def print_run(store: Store, run: UUID) -> None:
    """How each node of a run has ended."""
    from holdfast.cli.dag import print_nodes
    from holdfast.lifecycles.dispatch.store import Dags

    for one in await Dags.over(store).read([run], nodes=True):
        print_nodes(one)


def print_how_to_follow(task_id: UUID) -> None:
    print_line("It goes on. Follow it: ", (f"holdfast watch {task_id}", "bold"), err=True)


def describe_end(task: dict[str, Any]) -> dict[str, Any]:
    """How a task has ended, or where it is, as JSON."""
    error = task["note"] if task["outcome"] in ("failed", "cancelled") else None
    kept = {name: task[name] for name in ("state", "outcome", "attempt", "result")}
    return {"task_id": task["id"], **kept, "error": error}


def print_end(task: dict[str, Any], *, err: bool = False) -> None:
    """How it has ended, in a line."""
    note = note_of(task["note"]) if task["outcome"] in ("failed", "cancelled") else ""
    tries = f" after {task['attempt']} attempts" if task["attempt"] > 1 else ""
    print_line(format_state(task, err=err), tries, f": {note}" if note else "", err=err)
